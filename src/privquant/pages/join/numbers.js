// Numbers and times as the reader's language writes them, and numbers as people type them.

export class Numbers {
  constructor(language) {
    this.language = language;
  }

  /** A share as a percentage of three digits: 26.9 %. Below what reads well, a power of ten. */
  share(part) {
    const percent = 100 * part;
    if (percent > 0 && percent < 0.001) return `${percent.toExponential(1)} %`;
    return `${this.#format(percent, { maximumSignificantDigits: 3 })} %`;
  }

  short(value, digits = 3) {
    if (Math.abs(value) >= 1e9) return value.toExponential(digits - 1);
    return this.#format(value, { maximumSignificantDigits: digits });
  }

  /** A number in full, also one beyond 2^53. */
  whole(value) {
    return this.#format(value, { maximumFractionDigits: 12 });
  }

  moment(seconds) {
    const when = new Date(1000 * seconds);
    if (Number.isNaN(when.getTime())) return "∞"; // a deadline may lie beyond all calendars
    return new Intl.DateTimeFormat(this.language, { dateStyle: "medium", timeStyle: "short" }).format(when);
  }

  #format(value, options) {
    return new Intl.NumberFormat(this.language, options).format(value);
  }
}

/**
 * The typed text as a value of the domain: {value} or {fault}, "empty", "no-number", "no-whole-number" or "outside"
 * (with the value it would be taken as). A comma is a decimal point where there is only one and no point.
 */
export function readValue(text, domain) {
  const typed = text.trim().replace(/^[-−]/, "-").replace(/[\s'’\u202f]/g, "");
  if (typed === "") return { fault: "empty" };
  return "edges" in domain ? real(typed) : whole(typed, domain);
}

function whole(typed, domain) {
  if (!/^[+-]?[0-9]{1,40}$/.test(typed)) {
    return { fault: /^[+-]?[0-9]+[.,][0-9]+$/.test(typed) ? "no-whole-number" : "no-number" };
  }
  const value = BigInt(typed);
  if (value < domain.low) return { fault: "outside", value: domain.low };
  return value > domain.high ? { fault: "outside", value: domain.high } : { value };
}

function real(typed) {
  const text = typed.includes(".") ? typed : typed.replace(",", ".");
  if (!/^[+-]?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]{1,3})?$/.test(text)) return { fault: "no-number" };
  const value = Number(text);
  return Number.isFinite(value) ? { value } : { fault: "no-number" };
}
