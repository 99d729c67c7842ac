// The policy of a page: what the person who reads it agrees to by answering, and nothing else.

import { Coin, Policy } from "../../js/src/browser.js";

const UNITS = 12; // a policy counts epsilons in units of 10^-12 and rounds down

/** Allows nothing that anybody asks: for looking at a campaign before there is anything to agree to. */
export function lookOnly() {
  const nothing = { domain: { kind: "integers", low: 0, high: 1 }, max_epsilon: 1e-9 };
  return new Policy({ version: 1, measurements: { "nothing-yet": nothing } });
}

/** One answer to this campaign's question, at its own epsilon, to its issuer alone; shuffled by its shuffler alone. */
export function policyOf(manifest) {
  const { measurement, domain, issuer, shuffle } = manifest;
  const rule = { domain, max_epsilon: ceiling(manifest.epsilon), issuer_key: issuer };
  if (shuffle) {
    const local = ceiling(new Coin(manifest.flipThreshold).epsilon);
    rule.shuffle = { max_local_epsilon: local, max_delta: shuffle.delta, shuffler_key: shuffle.key };
  }
  return new Policy({ version: 1, measurements: { [measurement]: rule } });
}

/** The smallest limit of whole units that has room for this epsilon. */
export function ceiling(epsilon) {
  const text = epsilon.toFixed(UNITS);
  if (Number(text) >= epsilon) return text;
  const units = String(BigInt(text.replace(".", "")) + 1n).padStart(UNITS + 1, "0");
  return `${units.slice(0, -UNITS)}.${units.slice(-UNITS)}`;
}
