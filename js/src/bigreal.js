// Real numbers as whole ones: exp and ln in fixed point with a known error, and exact ratios to the nearest double.
//
// A fixed-point number is a BigInt in units of 2^-BITS. Every function here is off by less than SLACK units, which
// callers add or take away to get a bound on the side they need.

export const BITS = 384n;
export const ONE = 1n << BITS;
/** More than the sum of all roundings below, relative to the result where it exceeds 1: 2^-256. */
export const SLACK = 1n << (BITS - 256n);

/** The exact value of a finite double as [numerator, denominator]; the denominator is a power of 2. */
export function ratioOf(number) {
  const view = new DataView(new ArrayBuffer(8));
  view.setFloat64(0, number);
  const bits = view.getBigUint64(0);
  const biased = (bits >> 52n) & 0x7ffn;
  const fraction = bits & ((1n << 52n) - 1n);
  const mantissa = biased === 0n ? fraction : fraction | (1n << 52n);
  const power = (biased === 0n ? 1n : biased) - 1075n;
  const signed = bits >> 63n ? -mantissa : mantissa;
  return power >= 0n ? [signed << power, 1n] : [signed, 1n << -power];
}

function bitLength(whole) {
  return BigInt(whole.toString(2).length);
}

/** The double nearest to a ratio of positive BigInts, ties to even. Neither may be beyond the range of doubles. */
export function nearestDouble(numerator, denominator) {
  if (numerator === 0n) return 0;
  // 55 or 56 bits of quotient: the two or three beyond the 53 of a double, and whether anything follows, round it.
  const shift = 55n - (bitLength(numerator) - bitLength(denominator));
  const top = shift >= 0n ? numerator << shift : numerator;
  const bottom = shift >= 0n ? denominator : denominator << -shift;
  let quotient = top / bottom;
  const sticky = quotient * bottom === top ? 0n : 1n;
  const spare = bitLength(quotient) - 53n;
  const half = 1n << (spare - 1n);
  const rest = quotient & ((1n << spare) - 1n);
  quotient >>= spare;
  if (rest > half || (rest === half && (sticky === 1n || (quotient & 1n) === 1n))) quotient += 1n;
  return Number(quotient) * 2 ** Number(spare - shift);
}

/** e^(numerator/denominator) in fixed point, for arguments from 0 to 64. */
export function exp(numerator, denominator) {
  // Halved 16 times the argument is below 2^-10; then a short series, squared 16 times. Each squaring doubles the
  // relative error, and the result has up to 93 bits before the point: 2^-384 grows to less than 2^-350.
  const halvings = 16n;
  const x = (numerator << (BITS - halvings)) / denominator;
  let term = ONE;
  let sum = ONE;
  for (let k = 1n; term > 0n; k += 1n) {
    term = ((term * x) >> BITS) / k;
    sum += term;
  }
  for (let k = 0n; k < halvings; k += 1n) sum = (sum * sum) >> BITS;
  return sum;
}

/** 2 atanh(numerator/denominator) in fixed point, for ratios from 0 to 1/3. */
function twiceAtanh(numerator, denominator) {
  const z = (numerator << BITS) / denominator;
  const square = (z * z) >> BITS;
  let power = z;
  let sum = z;
  for (let k = 3n; power > 0n; k += 2n) {
    power = (power * square) >> BITS;
    sum += power / k;
  }
  return 2n * sum;
}

const LN2 = twiceAtanh(1n, 3n);

/** ln(numerator/denominator) in fixed point, for a ratio of at least 1. */
export function ln(numerator, denominator) {
  // numerator = 2^halvings * m * denominator with m in [1, 2): ln m = 2 atanh((m - 1)/(m + 1)).
  let halvings = bitLength(numerator) - bitLength(denominator);
  if (numerator < denominator << halvings) halvings -= 1n;
  const scaled = denominator << halvings;
  return halvings * LN2 + twiceAtanh(numerator - scaled, numerator + scaled);
}
