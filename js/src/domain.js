// Domains: which values exist, and the exact map from a value to its index 0 .. size-1.
//
// Indices and whole-numbered bounds are BigInts, since a domain has up to 2^63 values. Bounds are part of the question
// and never taken from data.

import { InvalidInput, shown } from "./errors.js";

const MAX_SIZE = 1n << 63n;

/** A whole number as a BigInt; null for anything else. */
export function wholeOf(bound) {
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
