// What a device says it did: what left, and what it cost.

import { Coin } from "./coin.js";
import { isShuffled } from "./exchange.js";
import { realToWire } from "./form.js";
import { localLimit } from "./limits.js";
import { DELTA_UNITS, UNITS, shown, shownDelta } from "./spending.js";
import { nearestDouble } from "./bigreal.js";

/** A number with so many digits, as the other devices write it. */
function digits(number, most) {
  return realToWire(Number(number.toPrecision(most))).replace(/\.0$/, "");
}

/** What a shuffled answer has besides: the round, and the two other sums, exact decimals. */
function shuffledPart(rule, answer, spent, local) {
  return Object.freeze({
    round: Number(answer.round),
    batch: Number(answer.batch),
    delta: nearestDouble(answer.delta, DELTA_UNITS),
    local_epsilon: local,
    spent_delta: shownDelta(spent.delta),
    lifetime_delta: shownDelta(rule.shuffle?.lifetimeDeltaUnits ?? 0n),
    spent_local_epsilon: shown(spent.local),
    lifetime_local_epsilon: shown(localLimit(rule)),
  });
}

function guarantee(epsilon, more) {
  if (more === null) {
    return `Each answer is ${digits(epsilon, 4)}-differentially private whatever any server does.`;
  }
  return (
    `Each answer is (${digits(epsilon, 4)}, ${digits(more.delta, 2)})-differentially private if the shuffler is honest ` +
    `and mixes at least ${more.batch} honest reports, and ${digits(more.local_epsilon, 4)}-differentially private ` +
    "otherwise."
  );
}

/**
 * What left this device, and what it cost. status: "counted" now, "already counted" by the server before, or "answered
 * before": nothing was sent now; from a shuffler "accepted" and "already accepted". asked: the question was whether the
 * value is at most this. bit: the answer after the coin, the one thing about the value that left. spent, lifetime: of
 * the measurement, exact decimals. shuffled: where it was, the round and the sums of delta and of local epsilon.
 */
export function receiptOf(rule, answer, status, spent) {
  const { measurement, campaign, threshold, bit } = answer;
  const local = new Coin(answer.coin).epsilon;
  const more = isShuffled(answer) ? shuffledPart(rule, answer, spent, local) : null;
  const epsilon = more === null ? local : nearestDouble(answer.epsilon, UNITS);
  const last = rule.domain.size - 1n;
  return Object.freeze({
    measurement,
    campaign,
    status,
    asked: rule.domain.value(threshold < last ? threshold : last),
    bit,
    epsilon,
    spent: shown(spent.epsilon),
    lifetime: shown(rule.lifetimeUnits),
    guarantee: guarantee(epsilon, more),
    ...(more === null ? {} : { shuffled: more }),
  });
}
