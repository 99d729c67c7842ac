// Faults of a caller and of a message. Why a device did not answer is in refusals.js.

/** The root of every error this package raises itself. */
export class PrivquantError extends Error {
  get name() {
    return this.constructor.name;
  }
}

/** An argument that is not what was asked for: what was given, what is allowed, what to do. */
export class InvalidInput extends PrivquantError {}

/** A message that does not have the form the wire format asks for; the sender's fault. */
export class WireError extends PrivquantError {}

/** A manifest in a trust model that this version does not know. */
export class TrustError extends WireError {}

/** A manifest that is not the one the invite names, or not signed by the key it names. */
export class SignatureError extends WireError {}

/** What was given, as an error shows it: short, on one line, never more than `most` characters. */
export function shown(given, most = 60) {
  let text;
  if (typeof given === "string") text = JSON.stringify(given);
  else if (typeof given === "bigint") text = `${given}`;
  else if (Array.isArray(given)) text = `a list of ${given.length}`;
  else if (typeof given === "object" && given !== null) text = "an object";
  else text = String(given);
  return text.length > most ? `${text.slice(0, most)}...` : text;
}

/** The refusal that a message which cannot be read leads to; any other error as it is. */
export function ofWire(error, refusal) {
  if (!(error instanceof WireError)) return error;
  return Object.assign(refusal(`cannot be read: ${error.message}`), { cause: error });
}
