// Ed25519 signatures over labelled bytes: what is signed as one kind of message never verifies as another.

import { SignatureError } from "./errors.js";
import { ascii, concat, fromHex } from "./form.js";

async function verifies(publicKey, signature, message) {
  try {
    const key = await crypto.subtle.importKey("raw", fromHex(publicKey), { name: "Ed25519" }, false, ["verify"]);
    return await crypto.subtle.verify({ name: "Ed25519" }, key, fromHex(signature), message);
  } catch {
    return false; // not a key that can have signed anything
  }
}

/** SignatureError unless the key (in hex) signed `body` as this kind of message; `what` names it. */
export async function checkSignature(kind, body, signature, publicKey, what) {
  if (typeof signature !== "string" || !/^[0-9a-f]{128}$/.test(signature)) {
    throw new SignatureError(`the signature of the ${what} is not 128 lower-case hex digits`);
  }
  if (!(await verifies(publicKey, signature, concat(ascii(`privquant/${kind}\0`), body)))) {
    throw new SignatureError(`the ${what}'s signature does not verify`);
  }
}
