// The life of one answer, as a table.
//
//     undrawn    nothing about the value has been drawn or written; forgetting everything is harmless
//     prepared   the coin has been thrown, the bit is written down, and no byte of it has left
//     sent       a byte of it may have left, perhaps once, perhaps often
//     acked      the receiver said that it has it
//
// There is one way to a bit, draw, and it leads out of undrawn, to which nothing leads back. A bit may leave in sent
// only, which is on disk, and with it the bit, before the first byte leaves. Send in sent is the resend of the same
// bit. Acked is the end. The epsilon of an answer is spent from prepared on, and is never given back.

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

export function isState(state) {
  return TRANSITIONS.has(state) && state !== UNDRAWN;
}
