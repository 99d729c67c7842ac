// The ledger file's bytes: one line a record, each bound to all before it by a hash.
//
//     <sha256 of (previous hash, record)> <record as JSON>\n
//
// It is the format of the Python device, byte for byte, so that both can keep one ledger. What can be read back is
// exactly what was written: a changed, missing or foreign byte anywhere but in an unfinished last line makes the whole
// ledger corrupt. An unfinished last line is what a crash in the middle of an append leaves; nothing that depends on
// it has left the device, and the record counts as never made. A last line that lacks nothing but its newline is a
// whole record and counts: to take a bit for undrawn is the one mistake that must not be made.

import { DRAW, IllegalStep, MAX_ROUNDS, UNDRAWN, checkAnswer, kindsOf, step } from "./answers.js";
import { InvalidInput, WireError, shown } from "./errors.js";
import { ascii, concat, fromHex, sha256, toHex } from "./form.js";
import { parseJson } from "./json.js";
import { LedgerRefused } from "./refusals.js";

export const VERSION = 1n;
/** A lifetime limit allows a few answers, of three records below 1 KiB each. This holds thousands of them. */
export const LARGEST = 16 << 20;
const START = "0".repeat(64);
const FILE = "privquant ledger";
const OPENING = '{"file":"privquant ledger",';
const NEWLINE = 10;
const ANNOUNCED = "announced";
function corrupt(text, cause) {
  return new LedgerRefused("ledger-corrupt", text, { cause });
}

/**
 * What a ledger's bytes say. answers: by measurement, then by campaign, in the order they were drawn. secret: 32 bytes
 * that never leave the device, from which it makes its tokens for open links. length: how many bytes count. last: the
 * hash to go on from. announced: by campaign, the thresholds that rounds were announced to this device with.
 */
export class Book {
  constructor(answers, announced, secret, length, last, openLine) {
    Object.assign(this, { answers, announced, secret, length, last, openLine });
  }

  of(measurement) {
    return [...(this.answers.get(measurement)?.values() ?? [])];
  }

  all() {
    return [...this.answers.values()].flatMap((each) => [...each.values()]);
  }

  /** Whether a SEND was recorded, and with it the file's directory entry synced. */
  get hasSent() {
    return this.all().some((answer) => answer.state === "sent" || answer.state === "acked");
  }

  /** The bytes of a new ledger before its first answer. */
  async start() {
    return (await this.first())[0];
  }

  /** The bytes to write at `length` for this event. */
  async append(event, answer) {
    const names = event === DRAW ? Object.keys(kindsOf(answer)) : ["campaign", "measurement"];
    const record = { event };
    for (const name of names) record[name] = answer[name];
    return this.next(record);
  }

  /** The bytes to write at `length` for an announcement that was seen. */
  appendAnnounced(campaign, round, threshold) {
    return this.next({ event: ANNOUNCED, campaign, round, threshold });
  }

  async next(record) {
    const [first, last] = await this.first();
    return concat(first, (await line(last, record))[0]);
  }

  /** What must come before the next record, and the hash that record goes on from. */
  async first() {
    if (this.length === 0) {
      return line(START, { file: FILE, secret: toHex(this.secret), version: VERSION });
    }
    return [ascii(this.openLine ? "\n" : ""), this.last];
  }
}

/** JSON in ASCII with sorted keys and whole numbers of any size, which JSON.stringify cannot write. */
function recordText(record) {
  const escape = (each) => `\\u${each.charCodeAt(0).toString(16).padStart(4, "0")}`;
  const escaped = (text) => JSON.stringify(text).replace(/[\u007f-\uffff]/g, escape);
  const field = (name) => {
    const value = record[name];
    return `${escaped(name)}:${typeof value === "string" ? escaped(value) : String(value)}`;
  };
  return `{${Object.keys(record).sort().map(field).join(",")}}`;
}

async function line(last, record) {
  const text = recordText(record);
  const mark = toHex(await sha256(ascii(`${last} ${text}`)));
  return [ascii(`${mark} ${text}\n`), mark];
}

/** The book these bytes hold; LedgerRefused if they are not a whole, known, lawful ledger. */
export async function readLedger(bytes) {
  const answers = new Map();
  const announced = new Map();
  let [secret, last, length, openLine] = [null, START, 0, false];
  for (let number = 0; length < bytes.length; number += 1) {
    const end = bytes.indexOf(NEWLINE, length);
    const ended = end >= 0;
    const raw = bytes.subarray(length, ended ? end : bytes.length);
    const found = await openLineOf(last, raw);
    if (found === null) {
      if (!ended && (number > 0 || cutHeader(raw))) break;
      throw corrupt(`the ledger is corrupt at record ${number}: its hash is wrong`);
    }
    last = found.mark;
    if (number === 0) secret = readHeader(found.record);
    else replay(answers, announced, found.record, number);
    length += raw.length + (ended ? 1 : 0);
    openLine = !ended;
  }
  return new Book(answers, announced, secret ?? crypto.getRandomValues(new Uint8Array(32)), length, last, openLine);
}

/** The two parts of a line: up to its first space, and after it. */
function parted(raw) {
  const space = raw.indexOf(32);
  return space < 0 ? [raw, raw.subarray(raw.length)] : [raw.subarray(0, space), raw.subarray(space + 1)];
}

function latin(bytes) {
  return Array.from(bytes, (byte) => String.fromCharCode(byte)).join("");
}

async function openLineOf(last, raw) {
  const [head, text] = parted(raw);
  const mark = toHex(await sha256(concat(ascii(`${last} `), text)));
  if (latin(head) !== mark) return null;
  try {
    const whole = (digits, fraction) => (fraction ? Number(digits) : BigInt(digits));
    return { mark, record: parseJson(text, LARGEST, whole) };
  } catch (error) {
    if (error instanceof WireError) return null;
    throw error;
  }
}

/**
 * Whether this can be all that is left of a first line: an append that was cut short. Some file systems leave a file
 * that grew but was not filled; otherwise it is a part of a hash, or a hash and a part of the record. Anything else is
 * another file, which must not be overwritten.
 */
function cutHeader(raw) {
  if (raw.every((byte) => byte === 0)) return true;
  const [head, rest] = parted(raw);
  const whole = head.length < raw.length;
  if (!(whole ? /^[0-9a-f]{64}$/ : /^[0-9a-f]{1,64}$/).test(latin(head))) return false;
  const text = latin(rest);
  return OPENING.startsWith(text) || text.startsWith(OPENING);
}

function readHeader(record) {
  if (record?.file !== FILE) throw corrupt("the file is not a privquant ledger");
  if (record.version !== VERSION) {
    throw new LedgerRefused(
      "ledger-version",
      `the ledger has version ${shown(record.version)} and this device reads version ${VERSION}`,
    );
  }
  const { secret } = record;
  if (Object.keys(record).length !== 3 || typeof secret !== "string" || !/^[0-9a-f]{64}$/.test(secret)) {
    throw corrupt("the ledger's first record has unknown fields");
  }
  return fromHex(secret);
}

/** Let a record that was read happen again, through the one table of transitions. */
function replay(answers, announced, record, number) {
  try {
    if (record.event === ANNOUNCED) {
      replayAnnounced(announced, record);
      return;
    }
    const { event, measurement, campaign } = record;
    const before = answers.get(measurement)?.get(campaign);
    const state = step(before?.state ?? UNDRAWN, event);
    const kinds = kindsOf(record);
    const fields = event === DRAW ? Object.keys(kinds).length + 1 : 3;
    if (Object.keys(record).length !== fields) throw new TypeError("unknown field");
    let after;
    if (before === undefined) {
      after = { state };
      for (const [name, kind] of Object.entries(kinds)) {
        if (typeof record[name] !== kind) throw new TypeError(`${name} is not of type ${kind}`);
        after[name] = name === "bit" ? Number(record[name]) : record[name];
      }
    } else {
      after = { ...before, state };
    }
    checkAnswer(after);
    if (!answers.has(measurement)) answers.set(measurement, new Map());
    answers.get(measurement).set(campaign, after);
  } catch (error) {
    if ([TypeError, IllegalStep, InvalidInput, WireError].some((kind) => error instanceof kind)) {
      throw corrupt(`the ledger is corrupt at record ${number}: ${error.message}`, error);
    }
    throw error;
  }
}

function replayAnnounced(announced, record) {
  const { campaign, round, threshold } = record;
  const whole = typeof round === "bigint" && typeof threshold === "bigint" && typeof campaign === "string";
  if (!whole || Object.keys(record).length !== 4 || round < 0n || round >= MAX_ROUNDS || threshold < 0n) {
    throw new TypeError("not an announcement that this device could have noted");
  }
  if (!announced.has(campaign)) announced.set(campaign, new Map());
  const seen = announced.get(campaign);
  if (seen.has(Number(round))) throw new TypeError("a round was noted twice");
  seen.set(Number(round), threshold);
}
