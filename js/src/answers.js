// An answer: its life, as a table, and its fields, as every ledger keeps them: all that is needed to send it again, and
// nothing of the value.
//
//     undrawn    nothing about the value has been drawn or written; forgetting everything is harmless
//     prepared   the coin has been thrown, the bit is written down, and no byte of it has left
//     sent       a byte of it may have left, perhaps once, perhaps often
//     acked      the receiver said that it has it
//
// There is one way to a bit, draw, and it leads out of undrawn, to which nothing leads back. Sent is on disk, and with it
// the bit, before the first byte leaves. Epsilon is spent from prepared on.

import { checkFlipThreshold } from "./coin.js";
import { shown } from "./errors.js";
import { isShuffled } from "./exchange.js";
import { SEALED_BYTES, fromBase64 } from "./form.js";

export const MAX_ROUNDS = 1000;

export const UNDRAWN = "undrawn";
export const PREPARED = "prepared";
export const SENT = "sent";
export const ACKED = "acked";

export const DRAW = "draw";
export const SEND = "send";
export const ACK = "ack";

const TRANSITIONS = new Map([
  [UNDRAWN, new Map([[DRAW, PREPARED]])],
  [PREPARED, new Map([[SEND, SENT]])],
  [SENT, new Map([[SEND, SENT], [ACK, ACKED]])],
  [ACKED, new Map([[SEND, ACKED], [ACK, ACKED]])],
]);

/** An event that the table does not have in this state: a fault of the caller, or of a ledger that is read. */
export class IllegalStep extends Error {}

/** The state after `event`. */
export function step(state, event) {
  const after = TRANSITIONS.get(state)?.get(event);
  if (after === undefined) throw new IllegalStep(`'${event}' is not possible in state '${state}'`);
  return after;
}

const DRAWN = {
  bit: "bigint",
  campaign: "string",
  coin: "bigint",
  measurement: "string",
  threshold: "bigint",
  token: "string",
};
const LOCAL = { ...DRAWN, ticket: "string" };
// What a shuffled answer has in place of a ticket: the sealed bytes, to be sent again as they are, where to, and costs.
const SHUFFLED = {
  ...DRAWN,
  batch: "bigint",
  delta: "bigint",
  epsilon: "bigint",
  round: "bigint",
  sealed: "string",
  shuffler: "string",
};

/** The fields of an answer as a ledger keeps it, and of what type each is. */
export function kindsOf(answer) {
  return isShuffled(answer) ? SHUFFLED : LOCAL;
}

/** An answer whose fields are of the kind and in the range they must be; throws otherwise. */
export function checkAnswer(answer) {
  for (const [name, kind] of Object.entries(kindsOf(answer))) {
    const wanted = name === "bit" ? "number" : kind;
    if (typeof answer[name] !== wanted) throw new TypeError(`${name} is not a ${wanted}`);
  }
  if (Object.keys(answer).length !== Object.keys(kindsOf(answer)).length + 1) throw new TypeError("unknown field");
  // Not "neither 0 nor 1", which would look at one bit once and at the other twice.
  if ((answer.bit & 1) !== answer.bit || answer.threshold < 0n) {
    throw new TypeError("a bit is 0 or 1 and a threshold at least 0");
  }
  if (!TRANSITIONS.has(answer.state) || answer.state === UNDRAWN) throw new TypeError(`unknown state ${shown(answer.state)}`);
  checkFlipThreshold(answer.coin);
  if (isShuffled(answer)) checkShuffled(answer);
  return Object.freeze(answer);
}

function checkShuffled({ round, sealed, shuffler, epsilon, delta, batch }) {
  fromBase64(sealed, SEALED_BYTES, "a sealed report");
  if (!/^https?:\/\//.test(shuffler)) throw new TypeError("a shuffler's address is https://host");
  if (round < 0n || round >= MAX_ROUNDS || epsilon < 1n || delta < 1n || batch < 1n) {
    throw new TypeError("a round, an epsilon, a delta or a batch is out of range");
  }
}

/** Whether two answers are the same but for their state. */
export function sameAnswer(a, b) {
  return Object.keys(kindsOf(a)).every((name) => a[name] === b[name]);
}

/** The first round that `seen` has otherwise than these thresholds, of rounds from 0 on; undefined if none. */
export function contradicted(seen, thresholds) {
  const other = [...seen].find(([round, threshold]) => round < thresholds.length && thresholds[round] !== threshold);
  return other?.[0];
}
