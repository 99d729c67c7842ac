// The owner's policy: what this device may be asked, and how much may ever be learned from its answers.
//
// A measurement that is not in the policy is refused. For one that is, the policy fixes the domain, the most one answer
// may reveal (max_epsilon), the most all answers may ever reveal together (lifetime_epsilon, default: max_epsilon), how
// many campaigns may be answered (answers, default: 1) and, if it likes, the only key whose campaigns are answered
// (issuer_key) and limits for shuffled campaigns (shuffle), which are refused without them. It has the shape and the
// field names of the policy files of the Python device; an unknown field or version is refused, because a limit that
// was misspelt is a limit that does not hold.

import { Grid, Integers } from "./domain.js";
import { domainFromForm } from "./domain-form.js";
import { InvalidInput, WireError, shown } from "./errors.js";
import { parseJson } from "./json.js";
import { Limits } from "./limits.js";
import { DELTA_PLACES, DELTA_UNITS, PLACES, UNITS, unitsOf } from "./spending.js";

const VERSION = 1;
const LARGEST_FILE = 1 << 20;
const LARGEST_LIMIT = 10n ** 6n * UNITS;
const SMALLEST_LIMIT = 1000n; // 10^-9, the smallest epsilon there is a coin for
const KEY = /^(?:[0-9a-f]{64}|[0-9a-f]{32})$/;

/** A limit of the policy in units, rounded down. */
export function limit(epsilon, name) {
  const units = unitsOf(epsilon, PLACES);
  if (units === null) throw new InvalidInput(`${name} must be a number above 0, got ${shown(epsilon)}`);
  const [down, up] = units; // what was rounded off still counts against the largest
  if (up === 0n || up > LARGEST_LIMIT) {
    throw new InvalidInput(`${name} must be above 0 and at most 1000000, got ${shown(epsilon)}`);
  }
  if (down < SMALLEST_LIMIT) throw new InvalidInput(`${name} must be at least 1e-9, got ${shown(epsilon)}`);
  return down;
}

/** A limit of the policy on delta in units, rounded down. */
export function deltaLimit(delta, name) {
  const [down] = unitsOf(delta, DELTA_PLACES) ?? [0n];
  if (down < 1n || down >= DELTA_UNITS) {
    throw new InvalidInput(`${name} must be at least 1e-18 and below 1, got ${shown(delta)}`);
  }
  return down;
}

/** The limits for one measurement. `form` has the fields of a policy file; its domain may also be a domain. */
export class Rule {
  constructor(form) {
    checkFields(form, "rule", ["domain", "max_epsilon"], ["lifetime_epsilon", "answers", "issuer_key", "shuffle"]);
    const { domain, max_epsilon: most, lifetime_epsilon: lifetime = most, answers = 1, issuer_key: key = null } = form;
    const { shuffle = null } = form;
    const known = domain instanceof Integers || domain instanceof Grid;
    if (!known && (typeof domain !== "object" || domain === null)) {
      throw new InvalidInput('domain must be an object, e.g. {"kind": "integers", "low": 0, "high": 100}');
    }
    this.domain = known ? domain : domainFromForm(domain);
    this.maxUnits = limit(most, "max_epsilon");
    this.lifetimeUnits = limit(lifetime, "lifetime_epsilon");
    const whole = typeof answers === "bigint" || Number.isSafeInteger(answers);
    if (!whole || answers < 1) {
      throw new InvalidInput(`answers must be a whole number of at least 1, got ${shown(answers)}`);
    }
    this.answers = Number(answers);
    this.issuerKey = checkPinned(key, "issuer_key");
    this.shuffle = "shuffle" in form ? shuffleRuleOf(shuffle) : null;
    Object.freeze(this);
  }
}

function checkPinned(key, name) {
  if (key !== null && (typeof key !== "string" || !KEY.test(key))) {
    throw new InvalidInput(
      `${name} must be a public key (64 lower-case hex digits) or its fingerprint (32), got ${shown(key)}`,
    );
  }
  return key;
}

/**
 * The limits for shuffled answers: of the coin's own epsilon, which is what is left if the shuffler is not honest, and
 * of delta. share: of a round that may be fake and the promise still hold.
 */
function shuffleRuleOf(form) {
  const optional = ["lifetime_local_epsilon", "lifetime_delta", "colluding", "shuffler_key"];
  checkFields(form, "shuffle", ["max_local_epsilon", "max_delta"], optional);
  const { max_local_epsilon: local, max_delta: delta, colluding = 0, shuffler_key: key = null } = form;
  const share = ["number", "string", "bigint"].includes(typeof colluding) ? Number(colluding) : NaN;
  if (!(share >= 0 && share < 1) || String(colluding).trim() === "") {
    throw new InvalidInput(`colluding must be a share from 0 to below 1, got ${shown(colluding)}`);
  }
  return Object.freeze({
    maxLocalUnits: limit(local, "max_local_epsilon"),
    lifetimeLocalUnits: limit(form.lifetime_local_epsilon ?? local, "lifetime_local_epsilon"),
    maxDeltaUnits: deltaLimit(delta, "max_delta"),
    lifetimeDeltaUnits: deltaLimit(form.lifetime_delta ?? delta, "lifetime_delta"),
    share,
    shufflerKey: checkPinned(key, "shuffler_key"),
  });
}

/**
 * What this device may be asked: a rule for each measurement by name. `ledger` is a path in Node and has no meaning in
 * a browser; `allow_http`: plain http is refused except to this machine itself, true allows it anywhere.
 */
export class Policy extends Limits {
  constructor(form) {
    checkFields(form, "policy", ["version", "measurements"], ["ledger", "allow_http"]);
    const { version, measurements, ledger = null, allow_http: allowHttp = false } = form;
    if (version !== VERSION && version !== BigInt(VERSION)) {
      throw new InvalidInput(`policy: version must be ${VERSION}, got ${shown(version)}`);
    }
    if (typeof measurements !== "object" || measurements === null || Object.keys(measurements).length === 0) {
      throw new InvalidInput("a policy needs at least one measurement; without one every question is refused");
    }
    const rules = Object.entries(measurements).map(([name, rule]) => [name, ruleOf(name, rule)]);
    if (ledger !== null && (typeof ledger !== "string" || ledger === "")) {
      throw new InvalidInput(`policy: ledger must be a path, got ${shown(ledger)}`);
    }
    if (typeof allowHttp !== "boolean") {
      throw new InvalidInput(`allow_http must be true or false, got ${shown(allowHttp)}`);
    }
    super(new Map(rules), allowHttp);
    this.ledger = ledger;
    Object.freeze(this);
  }

  /** The policy in the bytes of a JSON file. Epsilons are taken as the decimals that stand there. */
  static parse(bytes) {
    try {
      return new Policy(parseJson(bytes, LARGEST_FILE, (text, fraction) => (fraction ? text : BigInt(text))));
    } catch (error) {
      if (error instanceof WireError) throw new InvalidInput(`policy: ${error.message}`, { cause: error });
      throw error;
    }
  }
}

function ruleOf(name, form) {
  try {
    return form instanceof Rule ? form : new Rule(form);
  } catch (error) {
    if (error instanceof InvalidInput) {
      throw new InvalidInput(`policy: measurement ${shown(name)}: ${error.message}`, { cause: error });
    }
    throw error;
  }
}

function checkFields(form, what, needed, allowed) {
  if (typeof form !== "object" || form === null || Array.isArray(form)) {
    throw new InvalidInput(`${what}: an object is needed, got ${shown(form)}`);
  }
  const missing = needed.filter((name) => !Object.hasOwn(form, name));
  const unknown = Object.keys(form).filter((name) => !needed.includes(name) && !allowed.includes(name));
  if (missing.length > 0) throw new InvalidInput(`${what}: ${missing.join(", ")} missing`);
  if (unknown.length > 0) {
    const names = [...needed, ...allowed].sort().join(", ");
    throw new InvalidInput(`${what}: unknown field ${unknown.join(", ")}; allowed are ${names}`);
  }
}
