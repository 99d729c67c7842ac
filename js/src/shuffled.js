// The question of a shuffled campaign: a round, announced by the issuer and checked; the answer to it, sealed.

import { InvalidInput, SignatureError, ofWire } from "./errors.js";
import { pathOf, queryRequest } from "./exchange.js";
import { ascii, concat, fromHex, toBase64 } from "./form.js";
import { makeKeyPair, seal } from "./hpke-seal.js";
import { shuffleRule } from "./limits.js";
import { ManifestRefused, PlatformRefused, QuestionRefused } from "./refusals.js";
import { keepsShuffled } from "./shuffle-check.js";
import { MAX_ROUND_ANSWER, parseRoundAnswer } from "./shuffle-terms.js";
import { costs } from "./spending.js";

// DAP's numbers of the two roles: client to leader.
const ROLES = Uint8Array.of(1, 2);
const EMPTY = new Uint8Array(0);

/** Sealing needs one curve more than answering. */
async function checkSealing() {
  try {
    await makeKeyPair();
  } catch (error) {
    throw new PlatformRefused(
      "platform",
      "This browser cannot seal an answer for a shuffler, since it does not know X25519. " +
        "Chrome and Edge from 133, Firefox from 132, Safari from 17 and Node from 20 do.",
      { cause: error },
    );
  }
}

/** HPKE's `info` of a report: the roles, and what it answers. */
export function reportInfo(campaign, round, threshold, coin) {
  const numbers = new DataView(new ArrayBuffer(20));
  numbers.setUint32(0, round);
  numbers.setBigUint64(4, threshold);
  numbers.setBigUint64(12, coin);
  return concat(ascii("privquant/report/2\0"), ROLES, fromHex(campaign), new Uint8Array(numbers.buffer));
}

/** A zero and a one, sealed to the aggregator under `info`, as they travel. */
async function sealedBits(key, info) {
  try {
    const bits = [0, 1].map((bit) => seal(key, info, EMPTY, Uint8Array.of(bit)));
    return (await Promise.all(bits)).map(toBase64);
  } catch (error) {
    if (!(error instanceof InvalidInput)) throw error;
    const text = `nothing can be sealed to the campaign: ${error.message}`;
    throw new ManifestRefused("manifest-malformed", text, { cause: error });
  }
}

async function fetchRound(manifest, token, caller) {
  const request = await queryRequest(token);
  const body = await caller.call("POST", pathOf(manifest.id, "query"), request, MAX_ROUND_ANSWER);
  try {
    return await parseRoundAnswer(body, manifest);
  } catch (error) {
    if (error instanceof SignatureError) {
      const text = `the round was not announced by the issuer like this: ${error.message}`;
      throw new QuestionRefused("announcement-forged", text, { cause: error });
    }
    throw ofWire(error, (text) => new QuestionRefused("question-malformed", `the question ${text}`));
  }
}

/** That a round keeps what the campaign promises; the honest reports this counts on. */
function checkRound(rule, { epsilon, shuffle }, round) {
  const { delta, colluding, rounds } = shuffle;
  const { batch, coin } = rounds[round];
  const share = Math.max(shuffleRule(rule).share, colluding);
  const honest = Math.max(1, batch - Math.ceil(share * batch));
  if (!keepsShuffled({ epsilon, delta, coin, batch: honest })) {
    throw new ManifestRefused(
      "accounting",
      `${honest} reports through the coin of round ${round}, shuffled, do not keep the epsilon ${epsilon} ` +
        `and delta ${delta} that the campaign promises`,
    );
  }
  return honest;
}

/**
 * The threshold, the coin and the price of the round this token is asked in. answered: what either bit is written down
 * and sent with. Both are sealed before the coin is thrown, since that takes time and a ledger cannot wait; one is used.
 */
export async function askShuffled({ rule, manifest, token, caller, ledger }) {
  await checkSealing();
  const { id, epsilon, shuffle } = manifest;
  const { round, thresholds } = await fetchRound(manifest, token, caller);
  const threshold = thresholds[round];
  const other = await ledger.noteRound(id, thresholds);
  if (other !== undefined) {
    throw new QuestionRefused(
      "second-announcement",
      `the issuer has signed two thresholds for round ${other} of campaign ${id}: it cheats; ` +
        "please tell who runs the shuffler",
    );
  }
  const batch = BigInt(checkRound(rule, manifest, round));
  const flips = shuffle.rounds[round].coin;
  const sealed = await sealedBits(shuffle.seal, reportInfo(id, round, threshold, flips));
  const price = costs(flips, epsilon, shuffle.delta);
  const common = { round: BigInt(round), shuffler: shuffle.address, epsilon: price.epsilon, delta: price.delta, batch };
  return { threshold, flips, price, answered: sealed.map((each) => ({ ...common, sealed: each })) };
}
