// Numbers and names as the console writes them.

const whole = new Intl.NumberFormat("en");

export function count(value) {
  return whole.format(value);
}

/** A value of the domain, short enough to be read from afar. */
export function value(given) {
  if (given === null || given === undefined) return "–";
  if (Number.isInteger(given)) return whole.format(given);
  return Number(given.toPrecision(5)).toString();
}

export function moment(seconds) {
  const when = new Date(1000 * seconds);
  if (Number.isNaN(when.getTime())) return "never";
  return new Intl.DateTimeFormat("en", { dateStyle: "medium", timeStyle: "short" }).format(when);
}

export function quantile(q) {
  return q === 0.5 ? "Median" : `${Number((100 * q).toPrecision(4))} % quantile`;
}

/**
 * The range that is said of an estimate, {low, high, text}: where it typically lands, or where the data are lumpy what is
 * certain. Null where the reports are too few to say one, or where what is certain takes in the last rank of a side: it is
 * no range of the quantile then, and stands in the sentences only.
 */
export function range({ typical, certain, notes }) {
  const found = typical?.kind === "smooth" ? typical : certain;
  if (found === null || notes.some((note) => note.endsWith("next to nothing about the quantile"))) return null;
  if (found === certain && (found.quantile + found.within >= 1 || found.quantile <= found.within)) return null;
  const { low, high } = found;
  if (low === null && high === null) return null;
  if (low === null) return { low, high, text: `at most ${value(high)}` };
  return { low, high, text: high === null ? `at least ${value(low)}` : `${value(low)} to ${value(high)}` };
}

export function percent(share) {
  return `${Number((100 * share).toPrecision(3))} %`;
}
