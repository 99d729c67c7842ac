// Whether a shuffled round keeps (epsilon, delta): exact accounting, decided by the device itself.
//
// The view of a batch is its count of ones. With p = 1 - q, A = p - e^eps q and B = e^eps - 1, of the others j hold a
// one and m a zero, D = Bin(j, q) - Bin(m, q):
//
//     H(j, m) = max over l of A Pr[D = l] - B Pr[D < l],     delta(eps) = max over j + m = b - 1 of H(j, m)
//
// H does not grow when a user is added, so H(k1, b-1-k2) bounds every k in k1 .. k2, and batches above a million are
// decided at a million. docs/accounting.md has the why; the Python device decides the same.

import { ONE, SLACK, exp, nearestDouble, ratioOf } from "./bigreal.js";
import { DRAW } from "./coin.js";

const LARGEST_BATCH = 1e6;
/** So many divergences are looked at; what takes more counts as not kept. */
const MOST_LOOKS = 4000;
const ULP = 2 ** -53;
const DEEPEST = 150;
const HALF_LOG_TAU = 0.5 * Math.log(2 * Math.PI);

// ln n! minus Stirling's formula, where the series below has not converged.
const STIRLING_ERROR = [0];
for (let n = 1, factorial = 1; n < 16; n += 1) {
  factorial *= n;
  STIRLING_ERROR.push(Math.log(factorial) - (HALF_LOG_TAU + (n + 0.5) * Math.log(n) - n));
}

function stirlingError(n) {
  if (n < 16) return STIRLING_ERROR[n];
  const square = n * n;
  return (1 / 12 - (1 / 360 - (1 / 1260 - (1 / 1680 - 1 / 1188 / square) / square) / square) / square) / n;
}

/** x ln(x/mean) - (x - mean), without cancellation where they are close. */
function deviance(x, mean) {
  const gap = x - mean;
  if (Math.abs(gap) >= 0.1 * (x + mean)) return x * Math.log(x / mean) - gap;
  const v = gap / (x + mean);
  let total = gap * v;
  let power = 2 * x * v;
  for (let order = 3; ; order += 2) {
    power *= v * v;
    const grown = total + power / order;
    if (grown === total) return grown;
    total = grown;
  }
}

/** ln Pr[Bin(n, q) = x], by a saddle-point form: differences of ln n! would lose digits. */
function logPmf(x, n, q) {
  if (x === 0) return n * Math.log1p(-q);
  if (x === n) return n * Math.log(q);
  const saddle = stirlingError(n) - stirlingError(x) - stirlingError(n - x) - deviance(x, n * q) - deviance(n - x, n * (1 - q));
  return saddle - HALF_LOG_TAU - 0.5 * (Math.log(x) + Math.log1p(-x / n));
}

/** Where Bin(n, q) lies, but for e^-logTail on each side. pmf[i] is of start + i, below[i] the sum before it. */
function windowOf(n, q, logTail) {
  if (n === 0) return { start: 0, pmf: Float64Array.of(1), below: Float64Array.of(0, 1) };
  const mean = n * q;
  const third = logTail / 3;
  const above = third + Math.sqrt(third * third + 2 * logTail * mean * (1 - q));
  const start = Math.max(0, Math.floor(mean - Math.min(above, Math.sqrt(2 * logTail * mean))));
  const last = Math.min(n, Math.ceil(mean + above));
  const mode = Math.min(Math.max(Math.floor((n + 1) * q), start), last);
  const odds = q / (1 - q);
  const pmf = new Float64Array(last - start + 1);
  pmf[mode - start] = Math.exp(logPmf(mode, n, q));
  for (let x = mode; x > start; x -= 1) pmf[x - 1 - start] = pmf[x - start] * (x / (n + 1 - x) / odds);
  for (let x = mode + 1; x <= last; x += 1) pmf[x - start] = pmf[x - 1 - start] * (((n + 1 - x) / x) * odds);
  const below = new Float64Array(pmf.length + 1);
  for (let k = 0; k < pmf.length; k += 1) below[k + 1] = below[k] + pmf[k];
  return { start, pmf, below };
}

/** Pr[D = l] and Pr[D < l] for the difference of two binomials, both cut to their windows. */
class Difference {
  constructor(ones, zeros) {
    Object.assign(this, { ones, zeros, known: new Map() });
    this.shift = zeros.start - ones.start;
    this.first = ones.start - zeros.start - zeros.pmf.length + 1;
    this.last = ones.start + ones.pmf.length - 1 - zeros.start;
    this.steps = ones.pmf.length + zeros.pmf.length;
  }

  /** The sum of zeros.pmf[k] * weights[k + offset] where both are. */
  #sum(level, weights) {
    const offset = level + this.shift;
    const stop = Math.min(this.zeros.pmf.length, this.ones.pmf.length - offset);
    let sum = 0;
    for (let k = Math.max(0, -offset); k < stop; k += 1) sum += this.zeros.pmf[k] * weights[k + offset];
    return sum;
  }

  at(level) {
    if (!this.known.has(level)) this.known.set(level, this.#sum(level, this.ones.pmf));
    return this.known.get(level);
  }

  /** Sums of positive terms only: prefix sums of one law, the rest of the other. */
  under(level) {
    const offset = level + this.shift;
    let rest = 0;
    const from = Math.max(0, -offset, this.ones.pmf.length - offset);
    for (let k = from; k < this.zeros.pmf.length; k += 1) rest += this.zeros.pmf[k];
    return this.#sum(level, this.ones.below) + this.ones.below[this.ones.pmf.length] * rest;
  }

  /** The smallest level where Pr[D = level + 1] <= rho Pr[D = level]; D is log-concave. */
  turn(rho, guess) {
    const rises = (level) => this.at(level + 1) > rho * this.at(level);
    let [low, high] = [this.first - 1, this.last]; // rises(low), not rises(high)
    const probe = Math.min(Math.max(guess, low), high);
    let reach = 2;
    if (probe > low && !rises(probe)) {
      high = probe;
      for (; high - reach > low && !rises(high - reach); reach *= 4) high -= reach;
      low = Math.max(low, high - reach);
    } else if (probe < high) {
      low = probe;
      for (; low + reach < high && rises(low + reach); reach *= 4) low += reach;
      high = Math.min(high, low + reach);
    }
    while (high - low > 1) {
      const middle = Math.floor((low + high) / 2);
      if (rises(middle)) low = middle;
      else high = middle;
    }
    return high;
  }
}

/** Whether `batch` honest reports through a coin with this flip threshold, shuffled, keep (epsilon, delta). */
export function keepsShuffled({ epsilon, delta, coin, batch }) {
  if (epsilon > 50) return true; // no coin of 64-bit draws is more honest
  const grown = exp(...ratioOf(epsilon));
  const least = grown - (grown >> 256n) - SLACK;
  const exact = ((DRAW - coin) * ONE) - least * coin; // A, in whole numbers, rounded up
  if (exact <= 0n) return true;
  const gain = nearestDouble(exact, DRAW * ONE) * (1 + 4 * ULP);
  if (gain <= delta) return true; // what a user alone has
  const loss = Math.expm1(epsilon);
  const q = nearestDouble(coin, DRAW);
  const others = Math.min(batch, LARGEST_BATCH) - 1;
  const rho = 1 + loss / gain;
  const logTail = Math.min(DEEPEST, Math.log(1e6 / delta) + epsilon);
  const windows = new Map();
  const windowFor = (n) => {
    if (!windows.has(n)) windows.set(n, windowOf(n, q, logTail));
    return windows.get(n);
  };
  /** An upper end of H(ones, zeros). */
  const upper = (ones, zeros) => {
    const law = new Difference(windowFor(ones), windowFor(zeros));
    const spread = (ones + zeros) * q * (1 - q);
    // A normal law would turn here; where the law is far from normal the search walks on from it.
    const level = law.turn(rho, Math.floor((ones - zeros) * q - Math.min(spread * Math.log(rho), 2 ** 50)));
    const [won, lost] = [gain * law.at(level), loss * law.under(level)];
    const rounding = (8 * law.steps + 64) * ULP * (won + lost);
    return Math.max(won - lost, 0) + rounding + 4 * gain * Math.exp(-logTail);
  };
  if (upper(others, 0) > delta) return false;
  const ranges = others > 0 ? [[0, others]] : [];
  for (let looks = 1; ranges.length > 0; looks += 2) {
    if (looks > MOST_LOOKS) return false;
    const [first, last] = ranges.pop();
    const middle = Math.floor((first + last) / 2);
    for (const [low, high] of [[first, middle], [middle + 1, last]]) {
      if (upper(low, others - high) > delta) {
        if (low === high) return false;
        ranges.push([low, high]);
      }
    }
  }
  return true;
}
