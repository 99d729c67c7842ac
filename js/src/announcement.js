// The announcement of a round: the one thing that an aggregator adds to its manifest while a campaign runs.
//
// Signed by the manifest's issuer. `previous` is the hash of the announcement before, for round 0 the manifest's id.
// An announcement is given by its round, its threshold and the one before, so that the thresholds of all earlier rounds
// are enough to check the chain back to the manifest.

import { MAX_ROUNDS } from "./answers.js";
import { SignatureError, WireError } from "./errors.js";
import { checkHash, sha256, toHex, wholeFromWire, wholeIn } from "./form.js";
import { canonical, exactFields, parseObject } from "./json.js";
import { checkSignature } from "./signing.js";

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
