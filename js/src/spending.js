// What an answer costs, in whole numbers.
//
// The ledger adds up epsilons for years, so it counts them in units of 10^-12 and never in floats. The cost of a coin
// is the epsilon it really gives, rounded up to a unit; limits of a policy are rounded down. Up to 10^-14 above a unit
// is not rounded up: a campaign at 0.1 throws the coin of the double next to 0.1, and ten of them must fit a lifetime
// of 1.

import { BITS, SLACK, ln, nearestDouble } from "./bigreal.js";
import { DRAW, checkFlipThreshold, flipThreshold } from "./coin.js";
import { InvalidInput, shown as given } from "./errors.js";

export const UNITS = 10n ** 12n;
const FORGIVEN = 100n; // a hundredth of a unit: 10^-14
const LARGEST_LIMIT = 10n ** 6n * UNITS;
const SMALLEST_LIMIT = 1000n; // 10^-9, the smallest epsilon there is a coin for
const DECIMAL = /^\s*\+?([0-9]+)(?:\.([0-9]*))?(?:[eE]([+-]?[0-9]{1,4}))?\s*$/;

function ceilDivide(numerator, denominator) {
  return (numerator + denominator - 1n) / denominator;
}

/** The epsilon of one answer through this coin, in units, rounded up. */
export function cost(flips) {
  checkFlipThreshold(flips);
  const above = ln(DRAW - flips, flips) + SLACK;
  const units = ceilDivide(FORGIVEN * UNITS * above - (1n << BITS), FORGIVEN << BITS);
  return units > 1n ? units : 1n;
}

/** A limit of the policy in units, rounded down. A number means the decimal number it is written as. */
export function limit(epsilon, name) {
  const parts = ["number", "string", "bigint"].includes(typeof epsilon) ? DECIMAL.exec(String(epsilon)) : null;
  if (parts === null) throw new InvalidInput(`${name} must be a number above 0, got ${given(epsilon)}`);
  const [, whole, fraction = "", exponent = "0"] = parts;
  const digits = BigInt(whole + fraction);
  const power = Number(exponent) - fraction.length + 12;
  const scale = 10n ** BigInt(Math.abs(power));
  const units = power >= 0 ? digits * scale : digits / scale;
  const beyond = power < 0 && digits % scale > 0n ? 1n : 0n; // what was rounded off still counts against the largest
  if (digits === 0n || units + beyond > LARGEST_LIMIT) {
    throw new InvalidInput(`${name} must be above 0 and at most 1000000, got ${given(epsilon)}`);
  }
  if (units < SMALLEST_LIMIT) throw new InvalidInput(`${name} must be at least 1e-9, got ${given(epsilon)}`);
  return units;
}

/** Units as a person reads them: 1000000000000 is "1". */
export function shown(units) {
  const digits = String(units % UNITS).padStart(12, "0").replace(/0+$/, "");
  return digits ? `${units / UNITS}.${digits}` : `${units / UNITS}`;
}

/**
 * Whether one answer through a coin with this flip threshold stays within a limit. Two integers are compared; the
 * quotient is the double next to the limit, which is what a campaign at that epsilon starts from.
 */
export function keeps(limitUnits, flips) {
  return checkFlipThreshold(flips) >= flipThreshold(nearestDouble(limitUnits, UNITS));
}
