// Domains: which values exist, and the exact map from a value to its index 0 .. size-1.
//
// Indices and whole-numbered bounds are BigInts, since a domain has up to 2^63 values. Bounds are part of the question
// and never taken from data.

import { InvalidInput, shown } from "./errors.js";

const MAX_SIZE = 1n << 63n;
const MAX_BINS = 1_000_000;
// How far an edge of a campaign may lie from a policy's log grid, as a share of it: engines differ in the last digits
// of a logarithm.
const EDGES_AGREE = 1e-12;

function wholeOf(bound) {
  if (typeof bound === "bigint") return bound;
  return Number.isSafeInteger(bound) ? BigInt(bound) : null;
}

/** The whole numbers low .. high, both included; at most 2^63 of them. */
export class Integers {
  constructor(low, high) {
    for (const [name, bound] of [["low", low], ["high", high]]) {
      if (wholeOf(bound) === null) {
        throw new InvalidInput(
          `Integers: ${name} must be a whole number, beyond 2^53 a BigInt, got ${shown(bound)}`,
        );
      }
    }
    this.low = wholeOf(low);
    this.high = wholeOf(high);
    if (this.high < this.low) {
      throw new InvalidInput(`Integers: high must be at least low, got low=${low}, high=${high}`);
    }
    if (this.high - this.low >= MAX_SIZE) {
      throw new InvalidInput(`Integers: at most 2^63 values are allowed, got low=${low}, high=${high}`);
    }
    Object.freeze(this);
  }

  get size() {
    return this.high - this.low + 1n;
  }

  /** The index of a value, clamped to the domain; a value that is no whole number is the caller's mistake. */
  index(value) {
    const whole = typeof value === "bigint" || Number.isInteger(value);
    if (!whole && value !== Infinity && value !== -Infinity) {
      throw new InvalidInput(`a value must be a whole number in ${this.low} .. ${this.high}, got ${shown(value)}`);
    }
    if (!whole) return BigInt(value > 0) * (this.size - 1n);
    // The same steps for a value inside, below and above.
    const below = BigInt(value < this.low);
    const above = BigInt(value > this.high);
    return (1n - below - above) * (BigInt(value) - this.low) + above * (this.size - 1n);
  }

  /** The value an index stands for: a number, beyond 2^53 a BigInt. */
  value(index) {
    const value = this.low + index;
    return Number.isSafeInteger(Number(value)) ? Number(value) : value;
  }

  equals(other) {
    return other instanceof Integers && other.low === this.low && other.high === this.high;
  }

  toString() {
    return `Integers(${this.low}, ${this.high})`;
  }
}

/** Continuous values by known cut points: K edges give K+1 right-closed bins, the outer ones unbounded. */
export class Grid {
  constructor(edges) {
    if (!Array.isArray(edges) || edges.length === 0) throw new InvalidInput("Grid: at least one edge is needed");
    edges.forEach((edge, k) => {
      if (typeof edge !== "number" || !Number.isFinite(edge)) {
        throw new InvalidInput(`Grid: edges must be finite numbers, got ${shown(edge)}`);
      }
      if (k > 0 && edge <= edges[k - 1]) {
        throw new InvalidInput(`Grid: edges must rise strictly, got ${edge} after ${edges[k - 1]}`);
      }
    });
    this.edges = Object.freeze([...edges]);
    Object.freeze(this);
  }

  get size() {
    return BigInt(this.edges.length) + 1n;
  }

  index(value) {
    if ((typeof value !== "number" && typeof value !== "bigint") || Number.isNaN(value)) {
      throw new InvalidInput(`a value must be a number, got ${shown(value)}`);
    }
    let [low, high] = [0, this.edges.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.edges[middle] < value) low = middle + 1;
      else high = middle;
    }
    return BigInt(low);
  }

  /** The upper edge of a bin; Infinity for the last. */
  value(index) {
    return this.edges[Number(index)] ?? Infinity;
  }

  equals(other) {
    const same = other instanceof Grid && other.edges.length === this.edges.length;
    return same && other.edges.every((edge, k) => edge === this.edges[k]);
  }

  toString() {
    return `Grid(${this.edges.length} edges, ${this.edges[0]} .. ${this.edges.at(-1)})`;
  }
}

/** Bins of equal ratio between low and high, and the two unbounded ones outside. */
export class LogGrid extends Grid {
  constructor(low, high, bins) {
    const count = wholeOf(bins);
    if (count === null || count < 1n || count > BigInt(MAX_BINS)) {
      throw new InvalidInput(`LogGrid: bins must be a whole number in 1 .. ${MAX_BINS}, got ${shown(bins)}`);
    }
    if (typeof low !== "number" || typeof high !== "number" || !(low > 0 && low < high && high < Infinity)) {
      throw new InvalidInput(`LogGrid: 0 < low < high is needed, got low=${shown(low)}, high=${shown(high)}`);
    }
    const step = Math.log(high / low) / Number(count);
    const inner = Array.from({ length: Number(count) - 1 }, (_, k) => low * Math.exp(step * (k + 1)));
    super([low, ...inner, high]);
  }

  /** Whether a campaign's grid is this one, up to the last digits; the campaign's own edges are then used. */
  equals(other) {
    const same = other instanceof Grid && other.edges.length === this.edges.length;
    return same && other.edges.every((edge, k) => Math.abs(edge - this.edges[k]) <= EDGES_AGREE * this.edges[k]);
  }
}

/** An edge of a policy: a number, or the decimal text a policy file has for it. */
function edgeOf(edge) {
  if (typeof edge === "bigint") return Number(edge);
  return typeof edge === "string" && /^-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?$/.test(edge) ? Number(edge) : edge;
}

/** The domain of a policy: its kind is "integers" (low, high), "grid" (edges) or "log" (low, high, bins). */
export function domainFromForm(form) {
  const has = (...names) => Object.keys(form).sort().join() === names.sort().join();
  if (form.kind === "integers" && has("kind", "low", "high")) return new Integers(form.low, form.high);
  if (form.kind === "grid" && has("kind", "edges")) {
    return new Grid(Array.isArray(form.edges) ? form.edges.map(edgeOf) : form.edges);
  }
  if (form.kind === "log" && has("kind", "low", "high", "bins")) {
    return new LogGrid(edgeOf(form.low), edgeOf(form.high), form.bins);
  }
  throw new InvalidInput(
    "not a domain; allowed kinds are 'integers' (low, high), 'grid' (edges) and 'log' (low, high, bins)",
  );
}
