// The coin: randomized response whose probability is an integer.
//
// A user flips the true bit iff a fresh 64-bit draw is below the flip threshold T. T is rounded up, so the flip
// probability T / 2^64 is never below 1/(1 + e^epsilon), and the epsilon really spent, ln((2^64 - T)/T), is never
// above the one asked for. No float takes part in the draw.

import { BITS, ONE, SLACK, exp, ln, nearestDouble, ratioOf } from "./bigreal.js";
import { InvalidInput, shown } from "./errors.js";

export const DRAW = 1n << 64n;
/** Below this the 64-bit coin is a fair coin: 2^64 / (1 + e^eps) rounds up to 2^63. */
export const SMALLEST_EPSILON = 1e-9;

export function checkEpsilon(epsilon, name = "epsilon") {
  if (typeof epsilon !== "number" || !Number.isFinite(epsilon) || epsilon <= 0) {
    throw new InvalidInput(`${name} must be a finite number above 0, got ${shown(epsilon)}`);
  }
  if (epsilon < SMALLEST_EPSILON) {
    throw new InvalidInput(`${name} must be at least ${SMALLEST_EPSILON}, got ${epsilon}`);
  }
  return epsilon;
}

export function checkFlipThreshold(threshold) {
  if (typeof threshold !== "bigint" || threshold < 1n || threshold >= DRAW / 2n) {
    throw new InvalidInput(`a flip threshold is a whole number from 1 to 2^63 - 1, got ${shown(threshold)}`);
  }
  return threshold;
}

/** The smallest integer T with ln((2^64 - T)/T) <= epsilon: T = ceil(2^64 / (1 + e^epsilon)), as a BigInt. */
export function flipThreshold(epsilon) {
  if (checkEpsilon(epsilon) > 50) return 1n;
  const [numerator, denominator] = ratioOf(epsilon);
  const grown = exp(numerator, denominator);
  const least = ONE + grown - (grown >> 256n) - SLACK; // a smaller e^epsilon flips more often: the safe side
  const top = DRAW << BITS;
  const threshold = (top + least - 1n) / least;
  return threshold < DRAW / 2n ? threshold : DRAW / 2n - 1n;
}

/** The epsilon a flip threshold really gives, ln((2^64 - T)/T), to the nearest double. */
export function realEpsilon(threshold) {
  const flips = checkFlipThreshold(threshold);
  return nearestDouble(ln(DRAW - flips, flips), ONE);
}

/** A coin with flip probability threshold / 2^64. */
export class Coin {
  constructor(threshold) {
    this.threshold = checkFlipThreshold(threshold);
    Object.freeze(this);
  }

  /** The most honest coin that keeps `epsilon`. */
  static of(epsilon) {
    return new Coin(flipThreshold(epsilon));
  }

  get epsilon() {
    return realEpsilon(this.threshold);
  }

  /** Probability that the bit is flipped. */
  get flip() {
    return nearestDouble(this.threshold, DRAW);
  }

  /**
   * `bit` after one throw, from the platform's CSPRNG. The draw has a fixed size and there is no branch on the bit.
   * Never call it twice for one measurement: two throws cost twice epsilon.
   */
  throw(bit) {
    return this.report(bit, crypto.getRandomValues(new Uint8Array(8)));
  }

  /** What a draw of 8 bytes, most significant first, makes of a bit: flipped iff it is below T. */
  report(bit, draw) {
    if (draw.length !== 8) throw new InvalidInput(`a draw has 8 bytes, got ${draw.length}`);
    const drawn = new DataView(draw.buffer, draw.byteOffset, 8).getBigUint64(0);
    return (bit & 1) ^ Number(drawn < this.threshold);
  }
}
