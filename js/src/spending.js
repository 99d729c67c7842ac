// What an answer costs, in whole numbers: epsilon, delta, and the local epsilon that is left if a shuffler is not honest.
//
// The ledger adds up epsilons for years, so it counts them in units of 10^-12 and never in floats. The cost of a coin
// is the epsilon it really gives, rounded up to a unit; limits of a policy are rounded down. Up to 10^-14 above a unit
// is not rounded up: a campaign at 0.1 throws the coin of the double next to 0.1, and ten of them must fit a lifetime
// of 1. Deltas are counted in units of 10^-18, rounded up.

import { BITS, SLACK, ln, nearestDouble } from "./bigreal.js";
import { DRAW, checkFlipThreshold, flipThreshold } from "./coin.js";
import { realToWire } from "./form.js";

export const UNITS = 10n ** 12n;
export const DELTA_UNITS = 10n ** 18n;
export const PLACES = 12;
export const DELTA_PLACES = 18;
const FORGIVEN = 100n; // a hundredth of a unit: 10^-14
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

/**
 * A decimal number in units of 10^-places as [rounded down, rounded up]; null if it is none. A number means the decimal
 * number it is written as.
 */
export function unitsOf(number, places) {
  const parts = ["number", "string", "bigint"].includes(typeof number) ? DECIMAL.exec(String(number)) : null;
  if (parts === null) return null;
  const [, whole, fraction = "", exponent = "0"] = parts;
  const digits = BigInt(whole + fraction);
  const power = Number(exponent) - fraction.length + places;
  const scale = 10n ** BigInt(Math.abs(power));
  if (power >= 0) return [digits * scale, digits * scale];
  return [digits / scale, ceilDivide(digits, scale)];
}

/** An epsilon in units, rounded up. */
export function epsilonUnits(epsilon) {
  return unitsOf(realToWire(epsilon), PLACES)[1];
}

/** A delta in units, rounded up. */
export function deltaUnits(delta) {
  return unitsOf(realToWire(delta), DELTA_PLACES)[1];
}

/** What an answer through this coin costs in a campaign that promises epsilon and, if it is shuffled, delta. */
export function costs(flips, epsilon = null, delta = null) {
  const local = cost(flips);
  if (delta === null) return { epsilon: local, delta: 0n, local };
  return { epsilon: epsilonUnits(epsilon), delta: deltaUnits(delta), local };
}

/** Units of delta as a person reads them: 10000000000 is "1e-8". */
export function shownDelta(units) {
  const digits = String(units);
  const more = digits.slice(1).replace(/0+$/, "");
  return units === 0n ? "0" : `${digits[0]}${more && `.${more}`}e${digits.length - 1 - DELTA_PLACES}`;
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
