// The one spelling of every number, token, hash and key on the wire.

import { WireError, shown } from "./errors.js";

export const VERSION = 1;
/** Of a manifest in the shuffled trust model. */
export const SHUFFLED_VERSION = 2;
/** Bytes in the body of a query, claim or report; also in a device's answer to any of them. */
export const MAX_REQUEST = 4096;
export const MAX_MANIFEST = 262144;
export const TOKEN_BYTES = 16;
/** Of a sealed report: an ephemeral key, the bit, a tag. */
export const SEALED_BYTES = 49;

const WHOLE = /^(?:0|-?[1-9][0-9]{0,19})$/;
const REAL = /^-?[0-9]+(?:\.[0-9]+)?(?:e[+-][0-9]{2,3})?$/;

export function ascii(text) {
  return new TextEncoder().encode(text);
}

export function concat(...parts) {
  const whole = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

export function toHex(bytes) {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

export function fromHex(text) {
  return Uint8Array.from(text.match(/../g) ?? [], (pair) => parseInt(pair, 16));
}

/** A whole number in its one decimal form, as a BigInt: no sign but '-', no leading zero, no space. */
export function wholeFromWire(text, name) {
  if (typeof text !== "string" || !WHOLE.test(text)) {
    throw new WireError(`${name} is a decimal string of a whole number, got ${shown(text)}`);
  }
  return BigInt(text);
}

/** A JSON number that is whole and within these bounds. */
export function wholeIn(value, low, high, name) {
  if (!Number.isSafeInteger(value) || value < low || value > high) {
    throw new WireError(`${name} is a whole number in ${low} .. ${high}, got ${shown(value)}`);
  }
  return value;
}

/** A probability that is neither 0 nor 1. */
export function inside(value, name) {
  if (!(value > 0 && value < 1)) throw new WireError(`${name} lies strictly between 0 and 1, got ${value}`);
  return value;
}

/** A finite number as the shortest decimal that reads back to it, in the wire's spelling: "1.0", "1e-05", "1e+16". */
export function realToWire(number) {
  const [mantissa, power] = number.toExponential().split("e");
  const exponent = Number(power);
  if (number !== 0 && (exponent < -4 || exponent >= 16)) {
    const sign = exponent < 0 ? "-" : "+";
    return `${mantissa}e${sign}${String(Math.abs(exponent)).padStart(2, "0")}`;
  }
  const plain = Object.is(number, -0) ? "-0" : String(number);
  return plain.includes(".") ? plain : `${plain}.0`;
}

/** A finite number in its one shortest decimal form. */
export function realFromWire(text, name) {
  const value = typeof text === "string" && text.length <= 40 && REAL.test(text) ? Number(text) : NaN;
  if (!Number.isFinite(value) || realToWire(value) !== text) {
    throw new WireError(`${name} is a decimal string in its shortest form, such as '0.5', got ${shown(text)}`);
  }
  return value;
}

/** Bytes in unpadded base64url. */
export function toBase64(bytes) {
  const padded = btoa(String.fromCharCode(...bytes));
  return padded.replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

/** The `size` bytes that a text of unpadded base64url spells; one byte string, one spelling. */
export function fromBase64(text, size, name) {
  const length = Math.ceil((size * 8) / 6);
  if (typeof text === "string" && text.length === length && /^[A-Za-z0-9_-]*$/.test(text)) {
    const decoded = atob(text.replaceAll("-", "+").replaceAll("_", "/") + "=".repeat(-length & 3));
    const bytes = Uint8Array.from(decoded, (each) => each.charCodeAt(0));
    if (toBase64(bytes) === text) return bytes;
  }
  throw new WireError(`${name} is ${length} characters of unpadded base64url (${size} bytes)`);
}

/** The token that these 16 bytes spell. */
export function tokenFromBytes(bytes) {
  if (bytes.length !== TOKEN_BYTES) throw new WireError(`a token has ${TOKEN_BYTES} bytes, got ${bytes.length}`);
  return toBase64(bytes);
}

function tokenBytes(token, name) {
  return fromBase64(token, TOKEN_BYTES, name);
}

export function checkToken(token, name = "token") {
  tokenBytes(token, name);
  return token;
}

export function checkCode(code) {
  if (typeof code !== "string" || !/^[0-9a-hjkmnp-tv-z]{8}$/.test(code)) {
    throw new WireError("a code is 8 characters of 0-9 a-z without i, l, o and u");
  }
  return code;
}

/** The code that a person meant who typed this: capitals, spaces and dashes, o for 0, i and l for 1. */
export function typedCode(text) {
  const bare = String(text).toLowerCase().replace(/[- ]/g, "");
  return checkCode(bare.replaceAll("o", "0").replace(/[il]/g, "1"));
}

export function checkHash(text, name) {
  if (typeof text !== "string" || !/^[0-9a-f]{64}$/.test(text)) {
    const given = typeof text === "string" ? `${text.length} characters` : typeof text;
    throw new WireError(`${name} is 64 lower-case hex digits, got ${given}`); // not repeated: it may be a token
  }
  return text;
}

export async function sha256(bytes) {
  return new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
}

/** What a device sends to get its query: SHA-256 of a label and the token's 16 bytes, in hex. */
export async function tokenHash(token) {
  return toHex(await sha256(concat(ascii("privquant/token/1\0"), tokenBytes(token, "token"))));
}

/** The first 128 bits of the SHA-256 of a public key (given in hex), in hex. */
export async function fingerprint(publicKey) {
  return toHex(await sha256(fromHex(checkHash(publicKey, "public key")))).slice(0, 32);
}

/** Whether a text is printable on one line: no control, format or unassigned character, no space but ' '. */
export function isPrintable(text) {
  return /^(?:[^\p{C}\p{Z}]| )*$/u.test(text);
}
