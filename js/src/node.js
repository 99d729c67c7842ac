// The device in Node: requests over node:http, the ledger in a file that the Python device reads and writes too.

import fs from "node:fs";
import os from "node:os";
import path from "node:path";

import { AnsweringDevice } from "./device.js";
import { InvalidInput } from "./errors.js";
import { FileLedger } from "./ledger-file.js";
import { Policy } from "./policy.js";
import { NodeTransport } from "./transport-node.js";

export * from "./public.js";
export { FileLedger, NodeTransport };

/** Where the ledger lies unless told otherwise: in the user's state directory. */
export function defaultLedger() {
  const given = process.env.XDG_STATE_HOME ?? "";
  const home = path.isAbsolute(given) ? given : path.join(os.homedir(), ".local", "state");
  return path.join(home, "privquant", "ledger");
}

/** A device whose ledger is a FileLedger or lies at a path: the one given, else the policy's, else the user's. */
export class Device extends AnsweringDevice {
  constructor(policy, { ledger = policy.ledger ?? defaultLedger(), ...options } = {}) {
    const makeDirectory = ledger === defaultLedger();
    const kept = typeof ledger === "string" ? new FileLedger(ledger, { makeDirectory }) : ledger;
    super(policy, { ledger: kept, makeTransport: () => new NodeTransport(), ...options });
  }
}

/** The policy in a JSON file. The path of a ledger in it is relative to it. */
export function loadPolicy(place) {
  if (path.extname(place) === ".toml") {
    throw new InvalidInput(`policy ${place}: this device reads policies in JSON, of the same shape as the TOML ones`);
  }
  let bytes;
  try {
    bytes = new Uint8Array(fs.readFileSync(place));
  } catch (error) {
    throw new InvalidInput(`policy ${place}: cannot be read: ${error.code ?? error.message}`, { cause: error });
  }
  const policy = Policy.parse(bytes);
  if (policy.ledger === null) return policy;
  // Relative to the file, not to where the program happens to run: another ledger would be a second answer.
  const own = policy.ledger.replace(/^~(?=\/|$)/, os.homedir());
  const ledger = path.resolve(path.dirname(path.resolve(place)), own);
  return Object.freeze(Object.assign(Object.create(Policy.prototype), policy, { ledger }));
}
