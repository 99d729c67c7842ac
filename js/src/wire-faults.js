// From a message that cannot be read to a refusal.

import { WireError } from "./errors.js";

/** The refusal that a message which cannot be read leads to; any other error as it is. */
export function ofWire(error, refusal) {
  if (!(error instanceof WireError)) return error;
  return Object.assign(refusal(`cannot be read: ${error.message}`), { cause: error });
}
