// Answering an invite, from looking at it to the receipt, as a sequence of states that a view shows.
//
//     looking                       the campaign is fetched and checked; nothing is drawn
//     asking {manifest}             what is asked is known; the person may type a number
//     coding {wrong}                the open link needs a code that is told apart from it; wrong: one was given
//     sending {sent, code}          the number was given; `sent` is the request with the bit, once there is one
//     waiting {until, code, drawn}  not now: tries again by itself; drawn: the bit exists and will only be resent
//     answered {receipt, sent}      acknowledged, now or on an earlier visit
//     refused {reason, code, text}  this will not be answered
//
// What was typed is held in a variable of this object while it is needed, and nowhere else. A page that was closed
// before the coin was thrown has forgotten it; after, the device has the bit in its ledger and sends that.

import { ACKED } from "../../js/src/answers.js";
import { AnsweringDevice } from "../../js/src/device.js";
import { IndexedDbLedger } from "../../js/src/ledger-indexeddb.js";
import { NotAnswered, TryLater } from "../../js/src/refusals.js";
import { lookOnly, policyOf } from "./policy.js";
import { WatchedTransport } from "./watched.js";

const PATIENCE = { total: 15, request: 10, firstPause: 0.5, longestPause: 4 };
const LONGEST_WAIT = 60; // seconds between two tries where the server names no time

export class Answering {
  /** show: called with every new state. */
  constructor(address, show) {
    this.address = address;
    this.show = show;
    this.failures = 0;
    this.sent = null;
    this.code = "";
    this.answering = false;
    this.given = null;
    this.wake = null;
  }

  /** Look at the campaign; take up what an earlier visit began. */
  async begin() {
    await this.#until(async () => {
      this.#tell({ state: "looking" });
      this.manifest = await this.#device(lookOnly()).campaign(this.address);
      this.device = this.#device(policyOf(this.manifest));
      const known = await this.device.ledger.find(this.manifest.id);
      if (known === null) return this.#tell({ state: "asking" });
      if (known.state !== ACKED) return this.#answer(NaN);
      return this.#tell({ state: "answered", receipt: await this.device.recall(this.address) });
    });
  }

  /** Throw the coin for `value`, send the bit, and come back until it is acknowledged or refused. */
  async answer(value, typed = null) {
    await IndexedDbLedger.persist();
    this.given = { value, typed };
    await this.#until(() => this.#answer(value, typed));
  }

  /** Go on with the code that was asked for. */
  withCode(typed) {
    return this.answer(this.given.value, typed);
  }

  /** Try again now instead of later. */
  hurry() {
    this.wake?.();
  }

  /** NaN stands for "what was drawn before": it can be resent, and no coin can be thrown for it. */
  async #answer(value, typed = null) {
    this.answering = true;
    this.#tell({ state: "sending" });
    const receipt = await this.device.answer(this.address, value, { code: typed });
    this.given = null;
    this.#tell({ state: "answered", receipt });
  }

  async #until(work) {
    for (;;) {
      try {
        await work();
        this.failures = 0;
        return;
      } catch (error) {
        if (!(error instanceof TryLater)) {
          this.#refused(error);
          return;
        }
        await this.#wait(error);
      }
    }
  }

  async #wait(error) {
    this.failures += 1;
    const seconds = error.retryAfter ?? Math.min(LONGEST_WAIT, 2 ** this.failures) * (0.75 + 0.5 * Math.random());
    const drawn = await this.#drawn();
    const until = Date.now() + 1000 * seconds;
    this.#tell({ state: "waiting", until, reason: error.reason, drawn });
    await new Promise((resolve) => {
      this.wake = resolve;
      setTimeout(resolve, 1000 * seconds);
    });
    this.wake = null;
  }

  async #drawn() {
    try {
      return this.device !== undefined && (await this.device.ledger.find(this.manifest.id)) !== null;
    } catch {
      return false; // the ledger itself is what is waited for
    }
  }

  #refused(error) {
    if (this.code === "wrong-link" && this.given !== null) {
      return this.#tell({ state: "coding", wrong: this.given.typed !== null || /[#&]c=/.test(this.address) });
    }
    this.given = null;
    const known = error instanceof NotAnswered;
    this.#tell({ state: "refused", reason: known ? error.reason : "fault", text: error.message });
    if (!known) throw error;
    return undefined;
  }

  #device(policy) {
    const transport = new WatchedTransport((seen) => this.#seen(seen));
    return new AnsweringDevice(policy, { ledger: new IndexedDbLedger(), transport, patience: PATIENCE });
  }

  #seen({ what, body, failed = "" }) {
    this.code = failed;
    if (what === "reports") this.sent = body;
    // The device tries again by itself for a while, and meanwhile the person is told why.
    if (this.answering && (failed !== "" || what === "reports")) this.#tell({ state: "sending" });
  }

  #tell(state) {
    this.show({ manifest: this.manifest ?? null, sent: this.sent, code: this.code, ...state });
  }
}
