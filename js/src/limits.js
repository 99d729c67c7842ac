// The owner's limits against what a campaign asks: each check refuses, or the campaign passes it.
//
// None of them knows the value. They are made before anything is asked, and those on the sums once more when nobody else
// can write to the ledger.

import { isShuffled } from "./exchange.js";
import { fingerprint } from "./form.js";
import { ManifestRefused, PolicyRefused } from "./refusals.js";
import { cost, costs, keeps, shown, shownDelta } from "./spending.js";

/**
 * What an owner allows: for each measurement by name the limits on answers about it, in units. A `Policy` is made of the
 * form that people write; a page, whose reader agrees to one campaign, makes its own.
 */
export class Limits {
  constructor(measurements, allowHttp = false) {
    this.measurements = measurements;
    this.allowHttp = allowHttp;
  }

  of(measurement) {
    const rule = this.measurements.get(measurement);
    if (rule === undefined) {
      throw new PolicyRefused(
        "unknown-measurement",
        `the policy has no measurement '${measurement}', so nothing is said about it`,
      );
    }
    return rule;
  }
}

async function pinned(key, given) {
  return [null, given, await fingerprint(given)].includes(key);
}

/** Domain, issuer, shuffler, and the noise of one answer. */
export async function checkCampaign(rule, manifest) {
  if (!rule.domain.equals(manifest.domain)) {
    throw new PolicyRefused(
      "domain",
      `the campaign asks in the domain ${manifest.domain}, the policy has ${rule.domain}`,
    );
  }
  if (!(await pinned(rule.issuerKey, manifest.issuer))) {
    throw new PolicyRefused("issuer-key", `the campaign's issuer ${manifest.issuer} is not the one the policy pins`);
  }
  const { shuffle, flipThreshold } = manifest;
  if (shuffle === null) {
    checkCoin(rule, flipThreshold);
    return;
  }
  if (!(await pinned(shuffleRule(rule).shufflerKey, shuffle.key))) {
    throw new PolicyRefused("shuffler-key", `the campaign's shuffler ${shuffle.key} is not the one the policy pins`);
  }
  checkShuffled(rule, mostSpent(manifest), flipThreshold);
}

function checkCoin(rule, flips) {
  if (!keeps(rule.maxUnits, flips)) {
    throw new PolicyRefused(
      "epsilon-per-answer",
      `an answer would cost epsilon ${shown(cost(flips))}, the policy allows ${shown(rule.maxUnits)}`,
    );
  }
}

export function shuffleRule(rule) {
  if (rule.shuffle === null) {
    throw new PolicyRefused(
      "shuffling",
      "the campaign is shuffled, and the policy trusts no shuffler: it has no table 'shuffle' for this measurement",
    );
  }
  return rule.shuffle;
}

/** What one shuffled answer may cost: epsilon, delta, and the coin's own epsilon. */
function checkShuffled(rule, price, flips) {
  const { maxDeltaUnits, maxLocalUnits } = shuffleRule(rule);
  if (price.epsilon > rule.maxUnits) {
    throw new PolicyRefused(
      "epsilon-per-answer",
      `an answer would cost epsilon ${shown(price.epsilon)}, the policy allows ${shown(rule.maxUnits)}`,
    );
  }
  if (price.delta > maxDeltaUnits) {
    throw new PolicyRefused(
      "delta-per-answer",
      `an answer would cost delta ${shownDelta(price.delta)}, the policy allows ${shownDelta(maxDeltaUnits)}`,
    );
  }
  if (!keeps(maxLocalUnits, flips)) {
    throw new PolicyRefused(
      "local-epsilon-per-answer",
      `if shuffler and aggregator work together an answer costs epsilon ${shown(price.local)}, ` +
        `the policy allows ${shown(maxLocalUnits)}`,
    );
  }
}

/** A sealed report goes to the shuffler of the manifest and nowhere else. */
export function checkAddress({ shuffle }, base) {
  if (shuffle !== null && base !== shuffle.address) {
    throw new ManifestRefused(
      "shuffler-address",
      `the invite leads to ${base}, the campaign's shuffler is at ${shuffle.address}`,
    );
  }
}

/** An answer that was drawn earlier goes out only if the policy still allows it, and only where it was drawn for. */
export function checkResent(rule, answer, base) {
  if (isShuffled(answer)) {
    checkShuffled(rule, spentOn(answer), answer.coin);
    if (answer.shuffler !== base) {
      throw new ManifestRefused(
        "shuffler-address",
        `the answer was drawn for the shuffler at ${answer.shuffler} and goes to no other`,
      );
    }
  } else {
    checkCoin(rule, answer.coin);
  }
  if (answer.threshold > rule.domain.size - 2n) {
    throw new PolicyRefused("domain", "an answer was drawn in another domain than the policy has now");
  }
}

/** What an answer costs, whichever round it is asked in. */
export function mostSpent({ flipThreshold, epsilon, shuffle }) {
  return costs(flipThreshold, epsilon, shuffle?.delta);
}

function spentOn(answer) {
  const local = cost(answer.coin);
  return isShuffled(answer)
    ? { epsilon: answer.epsilon, delta: answer.delta, local }
    : { epsilon: local, delta: 0n, local };
}

/** The three sums over answers. */
export function total(answers) {
  const sum = { epsilon: 0n, delta: 0n, local: 0n };
  for (const spent of answers.map(spentOn)) {
    for (const name of Object.keys(sum)) sum[name] += spent[name];
  }
  return sum;
}

/** Of the sum of local epsilons. A policy that trusts no shuffler counts shuffled answers like any other. */
export function localLimit(rule) {
  return rule.shuffle === null ? rule.lifetimeUnits : rule.shuffle.lifetimeLocalUnits;
}

/** Refuse what would be one answer too many, or too dear with all that were given (or may have been). */
export function checkBudget(rule, manifest, price, soFar) {
  const others = soFar.filter((answer) => answer.campaign !== manifest.id);
  const name = manifest.measurement;
  if (others.length >= rule.answers) {
    throw new PolicyRefused(
      "one-answer",
      `measurement '${name}' was answered for ${others.length} campaign(s) already ` +
        `and the policy allows ${rule.answers}`,
    );
  }
  const spent = total(others);
  const check = (kind, most, write, what) => {
    if (spent[kind] + price[kind] > most) {
      throw new PolicyRefused(
        `${what.replace(" ", "-")}-lifetime`,
        `measurement '${name}' has spent ${what} ${write(spent[kind])} of ${write(most)}; ` +
          `an answer would cost ${write(price[kind])} more`,
      );
    }
  };
  check("epsilon", rule.lifetimeUnits, shown, "epsilon");
  if (price.delta > 0n) check("delta", shuffleRule(rule).lifetimeDeltaUnits, shownDelta, "delta");
  check("local", localLimit(rule), shown, "local epsilon");
}
