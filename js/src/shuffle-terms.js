// What a campaign in shuffle mode adds to its manifest (version 2): the rounds, the shuffler, the seal key.

import { MAX_ROUNDS } from "./answers.js";
import { checkFlipThreshold } from "./coin.js";
import { WireError, shown } from "./errors.js";
import { checkHash, fromHex, inside, realFromWire, wholeFromWire, wholeIn } from "./form.js";
import { exactFields } from "./json.js";

const MAX_ROUND_REPORTS = 1e9;
const ADDRESS =
  /^https?:\/\/(?:[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?|\[[0-9a-f:.]+\])(?::[1-9][0-9]{0,4})?(?:\/[A-Za-z0-9._~-]+)*$/;
// An HpkeConfig: its id, then X25519, HKDF-SHA256, AES-128-GCM, the length of the key, the key.
const SEAL = /^[0-9a-f]{2}0020000100010020([0-9a-f]{64})$/;

/** A base address such as https://shuffle.example.org: what invites begin with. */
function checkAddress(address) {
  if (typeof address !== "string" || address.length > 500 || !ADDRESS.test(address)) {
    throw new WireError(
      "a shuffler's address is https://host, with a port and a path where needed, in lower case and without a " +
        `closing slash, got ${shown(address, 80)}`,
    );
  }
  return address;
}

function sealKeyOf(text) {
  const parts = typeof text === "string" ? SEAL.exec(text) : null;
  if (parts === null) {
    throw new WireError("a seal key is an HpkeConfig for X25519, HKDF-SHA256 and AES-128-GCM in lower-case hex");
  }
  return fromHex(parts[1]);
}

/**
 * The terms, every field checked. rounds: {batch, coin} by their number; a round is forwarded with at least `batch`
 * reports. colluding: the share of them that may be the aggregator's own without breaking the promise.
 */
export function termsFromWire(form) {
  exactFields(form, ["model", "delta", "colluding", "rounds", "shuffler", "seal"], "shuffled trust model");
  const delta = inside(realFromWire(form.delta, "delta"), "delta");
  const colluding = realFromWire(form.colluding, "colluding");
  if (!(colluding >= 0 && colluding < 1)) {
    throw new WireError(`colluding is a share from 0 to below 1, got ${colluding}`);
  }
  if (!Array.isArray(form.rounds) || form.rounds.length < 1 || form.rounds.length > MAX_ROUNDS) {
    throw new WireError(`rounds is a list of 1 to ${MAX_ROUNDS} rounds`);
  }
  const rounds = form.rounds.map((row, number) => {
    exactFields(row, ["round", "batch", "coin"], "round");
    wholeIn(row.round, number, number, "round");
    const batch = wholeIn(row.batch, 1, MAX_ROUND_REPORTS, "a round's batch");
    return Object.freeze({ batch, coin: checkFlipThreshold(wholeFromWire(row.coin, "coin")) });
  });
  const { address, key } = exactFields(form.shuffler, ["address", "key"], "shuffler");
  checkHash(key, "the shuffler's key");
  return Object.freeze({ delta, colluding, rounds, address: checkAddress(address), key, seal: sealKeyOf(form.seal) });
}
