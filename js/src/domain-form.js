// Domains as a policy writes them, and the log grid, which only policies have: a manifest lists its edges.

import { Grid, Integers, wholeOf } from "./domain.js";
import { InvalidInput, shown } from "./errors.js";

const MAX_BINS = 1_000_000;
// How far an edge of a campaign may lie from a policy's log grid, as a share of it: engines differ in the last digits
// of a logarithm.
const EDGES_AGREE = 1e-12;

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
