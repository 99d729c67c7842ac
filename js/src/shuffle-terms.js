// What a campaign in shuffle mode says beyond a local one: the terms in its manifest (version 2), with the rounds, the
// shuffler and the seal key; and one announcement a round, signed by the issuer, which adds the threshold.
//
// `previous` of an announcement is the hash of the one before, for round 0 the manifest's id. An announcement is given by
// its round, its threshold and the one before, so that the thresholds of all earlier rounds are enough to check the
// chain back to the manifest.

import { MAX_ROUNDS } from "./answers.js";
import { checkFlipThreshold } from "./coin.js";
import { SignatureError, WireError, shown } from "./errors.js";
import { checkHash, fromHex, inside, realFromWire, sha256, toHex, wholeFromWire, wholeIn } from "./form.js";
import { canonical, exactFields, parseObject } from "./json.js";
import { checkSignature } from "./manifest.js";

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

/** Bytes in the answer to a query: a thousand earlier thresholds, and an announcement. */
export const MAX_ROUND_ANSWER = 32768;

/** The hash that the announcement after those with these thresholds must name. */
async function chained(campaign, thresholds) {
  let previous = campaign;
  for (const [round, threshold] of thresholds.entries()) {
    const body = canonical({ campaign, round, threshold: String(threshold), previous });
    previous = toHex(await sha256(body));
  }
  return previous;
}

/** {round, thresholds}: the round a token is asked in, and the thresholds of all rounds up to it. */
export async function parseRoundAnswer(bytes, manifest) {
  const form = parseObject(bytes, MAX_ROUND_ANSWER, ["announcement", "earlier"]);
  if (!Array.isArray(form.earlier) || form.earlier.length > MAX_ROUNDS) {
    throw new WireError(`earlier is a list of at most ${MAX_ROUNDS} thresholds`);
  }
  const earlier = form.earlier.map((each) => wholeFromWire(each, "threshold"));
  const envelope = exactFields(form.announcement, ["announcement", "signature"], "signed announcement");
  const said = envelope.announcement;
  await checkSignature("announcement/2", canonical(said), envelope.signature, manifest.issuer, "announcement");
  exactFields(said, ["campaign", "round", "threshold", "previous"], "announcement");
  const { rounds } = manifest.shuffle;
  const round = wholeIn(said.round, 0, MAX_ROUNDS - 1, "round");
  const threshold = wholeFromWire(said.threshold, "threshold");
  checkHash(said.previous, "previous");
  if (checkHash(said.campaign, "campaign") !== manifest.id) {
    throw new SignatureError("the announcement is of another campaign");
  }
  if (round >= rounds.length) {
    throw new WireError(`round ${round} is announced; the manifest has ${rounds.length} rounds`);
  }
  // The last index is no threshold: everybody's value is at most the largest.
  const largest = manifest.domain.size - 2n;
  if (threshold < 0n || threshold > largest) {
    throw new WireError(`threshold ${threshold} is outside the domain's 0 .. ${largest}`);
  }
  if (earlier.length !== round) {
    throw new WireError(`round ${round} follows as many others, ${earlier.length} were given`);
  }
  if ((await chained(manifest.id, earlier)) !== said.previous) {
    throw new SignatureError("the announcement does not follow the announcements before it");
  }
  return { round, thresholds: [...earlier, threshold] };
}
