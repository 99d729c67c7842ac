// Numbers and times as the reader's language writes them.

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
