// Why the device did not answer: every reason has a code, a class and a plain sentence.
//
// A `Refused` is final until something changes. A `TryLater` says that it could not be answered now; asking again is
// safe, because an answer that was drawn is only ever resent. Codes and classes are those of the Python device.

import { PrivquantError } from "./errors.js";

/** No answer was acknowledged; `reason` says why in one word, `text` in a sentence. */
export class NotAnswered extends PrivquantError {
  static reasons = new Set();

  constructor(reason, text, options) {
    super(text, options);
    if (!this.constructor.reasons.has(reason)) throw new Error(`${this.name} knows no reason ${reason}`);
    this.reason = reason;
    this.text = text;
  }
}

/** The device will not answer, whatever the server says. */
export class Refused extends NotAnswered {}

/** The invite itself cannot be used. */
export class InviteRefused extends Refused {
  static reasons = new Set(["invite-malformed"]);
}

/** What the server published is not the campaign the invite promised, or not one this device knows. */
export class ManifestRefused extends Refused {
  static reasons = new Set([
    "manifest-malformed",
    "manifest-forged",
    "trust-model",
    "shuffler-address",
    "accounting",
  ]);
}

/** The owner's policy does not allow this answer. */
export class PolicyRefused extends Refused {
  static reasons = new Set([
    "unknown-measurement",
    "domain",
    "issuer-key",
    "epsilon-per-answer",
    "epsilon-lifetime",
    "one-answer",
    "shuffling",
    "shuffler-key",
    "delta-per-answer",
    "delta-lifetime",
    "local-epsilon-per-answer",
    "local-epsilon-lifetime",
  ]);
}

/** The question is not one about this domain, or not the one its round was announced with. */
export class QuestionRefused extends Refused {
  static reasons = new Set(["question-malformed", "threshold", "announcement-forged", "second-announcement"]);
}

/** The ledger cannot be trusted or cannot be written, so nothing may leave. */
export class LedgerRefused extends Refused {
  static reasons = new Set(["ledger-unreadable", "ledger-unwritable", "ledger-corrupt", "ledger-version"]);
}

/** The server spoke in a way the device does not accept. */
export class TransportRefused extends Refused {
  static reasons = new Set(["insecure", "redirect", "too-large", "not-http"]);
}

/** The server gave a final no: the campaign is over, or the invite is unknown or used up. */
export class ServerRefused extends Refused {
  static reasons = new Set(["server-refused"]);
}

/** This browser or engine lacks what an answer needs. */
export class PlatformRefused extends Refused {
  static reasons = new Set(["platform"]);
}

/** Not now. `retryAfter` is how many seconds to wait, where the server said so, else null. */
export class TryLater extends NotAnswered {
  static reasons = new Set([
    "not-yet",
    "unreachable",
    "deadline",
    "server-error",
    "bad-acknowledgement",
    "ledger-busy",
  ]);

  constructor(reason, text, retryAfter = null, options = undefined) {
    super(reason, text, options);
    this.retryAfter = retryAfter;
  }
}
