// The policy of a page: what the person who reads it agrees to by answering, and nothing else.

import { Coin } from "../../js/src/coin.js";
import { Limits } from "../../js/src/limits.js";
import { deltaUnits, epsilonUnits } from "../../js/src/spending.js";

/** Allows nothing that anybody asks: for looking at a campaign before there is anything to agree to. */
export function lookOnly() {
  return new Limits(new Map());
}

/** One answer to this campaign's question, at its own epsilon, to its issuer alone; shuffled by its shuffler alone. */
export function policyOf({ measurement, domain, issuer, epsilon, flipThreshold, shuffle }) {
  const most = epsilonUnits(epsilon);
  const rule = { domain, maxUnits: most, lifetimeUnits: most, answers: 1, issuerKey: issuer, shuffle: null };
  if (shuffle !== null) rule.shuffle = shuffleRule(epsilonUnits(new Coin(flipThreshold).epsilon), shuffle);
  return new Limits(new Map([[measurement, rule]]));
}

function shuffleRule(local, { delta, key }) {
  const units = deltaUnits(delta);
  return {
    maxLocalUnits: local,
    lifetimeLocalUnits: local,
    maxDeltaUnits: units,
    lifetimeDeltaUnits: units,
    share: 0,
    shufflerKey: key,
  };
}
