// JSON read strictly and written canonically. JSON.parse is too lax for what is hashed and signed: it keeps the last
// of two equal keys, rounds what exceeds 2^53 and takes fractions.
//
// Read: UTF-8 without a byte order mark, no key twice, numbers in one spelling, at most 64 levels deep. Objects come
// without a prototype, so that a key named __proto__ is a key like any other.
// Written: keys sorted by code point, no spaces, whole numbers within 2^53 only.

import { WireError, shown } from "./errors.js";

const DEEPEST = 64;
const NUMBER = /-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?/y;
const SPACE = /[ \t\n\r]*/y;
// What a string holds up to its end or its next escape; control characters must be escaped.
const PLAIN = /[^"\\\u0000-\u001f]*/y;
const ESCAPES = { '"': '"', "\\": "\\", "/": "/", b: "\b", f: "\f", n: "\n", r: "\r", t: "\t" };
const WORDS = { true: true, false: false, null: null };

/** Numbers of the wire: whole, within 2^53, never "-0". */
export function wireNumber(text, fraction) {
  if (fraction) throw new WireError("a number with a fraction travels as a decimal string"); // it may be a bit
  const value = Number(text);
  if (!Number.isSafeInteger(value)) {
    throw new WireError(`a whole number beyond 2^53 travels as a decimal string, got ${text.length} digits`);
  }
  if (text === "-0") throw new WireError("a number has one spelling, and zero's has no sign");
  return value;
}

/** The JSON value in `bytes`, at most `limit` of them. `number(text, isFraction)` makes a value of each number. */
export function parseJson(bytes, limit, number = wireNumber) {
  if (bytes.length > limit) throw new WireError(`at most ${limit} bytes are allowed, got ${bytes.length}`);
  let text;
  try {
    text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    throw new WireError("not JSON: not UTF-8");
  }
  return new Reader(text, number).whole();
}

class Reader {
  constructor(text, number) {
    this.text = text;
    this.at = 0;
    this.number = number;
  }

  whole() {
    const value = this.value(0);
    this.space();
    if (this.at !== this.text.length) this.fail();
    return value;
  }

  fail() {
    throw new WireError(`not JSON: unexpected ${this.at < this.text.length ? "character" : "end"} at ${this.at}`);
  }

  match(pattern) {
    pattern.lastIndex = this.at;
    const found = pattern.exec(this.text);
    if (found !== null) this.at = pattern.lastIndex;
    return found;
  }

  space() {
    this.match(SPACE);
  }

  /** Step over this character if it is next. */
  take(character) {
    this.space();
    if (this.text[this.at] !== character) return false;
    this.at += 1;
    return true;
  }

  need(character) {
    if (!this.take(character)) this.fail();
  }

  value(depth) {
    if (depth > DEEPEST) throw new WireError(`not JSON that is read here: more than ${DEEPEST} levels deep`);
    this.space();
    const next = this.text[this.at];
    if (next === "{") return this.object(depth);
    if (next === "[") return this.list(depth);
    if (next === '"') return this.string();
    for (const [word, value] of Object.entries(WORDS)) {
      if (this.text.startsWith(word, this.at)) {
        this.at += word.length;
        return value;
      }
    }
    const found = this.match(NUMBER);
    if (found === null) this.fail();
    return this.number(found[0], found[1] !== undefined || found[2] !== undefined);
  }

  object(depth) {
    const form = Object.create(null);
    this.need("{");
    if (this.take("}")) return form;
    do {
      this.space();
      if (this.text[this.at] !== '"') this.fail();
      const key = this.string();
      if (key in form) throw new WireError("a JSON object names a key twice");
      this.need(":");
      form[key] = this.value(depth + 1);
    } while (this.take(","));
    this.need("}");
    return form;
  }

  list(depth) {
    const form = [];
    this.need("[");
    if (this.take("]")) return form;
    do form.push(this.value(depth + 1));
    while (this.take(","));
    this.need("]");
    return form;
  }

  string() {
    this.at += 1;
    let found = this.match(PLAIN)[0];
    while (this.text[this.at] === "\\") {
      found += this.escape() + this.match(PLAIN)[0];
    }
    if (this.text[this.at] !== '"') this.fail();
    this.at += 1;
    return found;
  }

  escape() {
    const kind = this.text[this.at + 1];
    if (kind === "u") {
      const digits = this.text.slice(this.at + 2, this.at + 6);
      if (!/^[0-9a-fA-F]{4}$/.test(digits)) this.fail();
      this.at += 6;
      return String.fromCharCode(parseInt(digits, 16));
    }
    if (kind === undefined || !Object.hasOwn(ESCAPES, kind)) this.fail();
    this.at += 2;
    return ESCAPES[kind];
  }
}

/** Whether a and b are in rising order of their code points; UTF-16 would sort some characters otherwise. */
function byCodePoint(a, b) {
  const left = Array.from(a, (each) => each.codePointAt(0));
  const right = Array.from(b, (each) => each.codePointAt(0));
  for (let k = 0; k < Math.min(left.length, right.length); k += 1) {
    if (left[k] !== right[k]) return left[k] - right[k];
  }
  return left.length - right.length;
}

/** The one text of a JSON value. */
export function canonicalText(form) {
  if (form === null || typeof form === "boolean") return String(form);
  if (typeof form === "string") {
    if (/\p{Surrogate}/u.test(form)) throw new WireError("not canonical JSON: half a character");
    return JSON.stringify(form);
  }
  if (typeof form === "number") {
    if (!Number.isSafeInteger(form)) {
      throw new WireError(`a number with a fraction or beyond 2^53 travels as a decimal string, got ${form}`);
    }
    return String(form + 0);
  }
  if (Array.isArray(form)) return `[${form.map(canonicalText).join(",")}]`;
  if (typeof form !== "object") throw new WireError(`not canonical JSON: ${shown(form)}`);
  const keys = Object.keys(form).sort(byCodePoint);
  return `{${keys.map((key) => `${canonicalText(key)}:${canonicalText(form[key])}`).join(",")}}`;
}

/** The one byte string of a JSON value: what is sent, hashed and signed. */
export function canonical(form) {
  return new TextEncoder().encode(canonicalText(form));
}

/** A JSON object with exactly these keys. */
export function exactFields(form, names, what) {
  if (typeof form !== "object" || form === null || Array.isArray(form)) {
    throw new WireError(`a ${what} is a JSON object, got ${shown(form)}`);
  }
  const unknown = Object.keys(form).filter((name) => !names.includes(name)).sort(byCodePoint);
  const missing = names.filter((name) => !Object.hasOwn(form, name)).sort(byCodePoint);
  if (unknown.length > 0) {
    throw new WireError(`unknown field ${shown(unknown[0])} in a ${what}; it has ${[...names].sort().join(", ")}`);
  }
  if (missing.length > 0) throw new WireError(`a ${what} lacks the field ${shown(missing[0])}`);
  return form;
}

/** A JSON object of the wire with exactly these keys. */
export function parseObject(bytes, limit, names) {
  return exactFields(parseJson(bytes, limit), names, "message");
}
