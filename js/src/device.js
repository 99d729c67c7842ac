// The device: answers one question about one value with one bit, or says why not.
//
// What it promises whatever the server says is in docs/device.md. Each promise is a check below, before anything that
// depends on the value exists. The value takes part in one comparison, whose result goes through the coin at once;
// nothing else depends on it: not which requests are made, nor their size, nor their time.

import { ACK, ACKED, SEND } from "./answers.js";
import { Coin } from "./coin.js";
import { InvalidInput, SignatureError, TrustError, ofWire, shown as given } from "./errors.js";
import {
  claimRequest,
  isShuffled,
  parseClaimReceipt,
  parseReceipt,
  parseTicket,
  pathOf,
  queryRequest,
  reportRequest,
} from "./exchange.js";
import { MAX_MANIFEST, MAX_REQUEST, TOKEN_BYTES, ascii, tokenFromBytes } from "./form.js";
import { Invite } from "./invite.js";
import { Limits, checkAddress, checkBudget, checkCampaign, checkResent, mostSpent, total } from "./limits.js";
import { openEnvelope } from "./manifest.js";
import { checkPlatform, onDemand } from "./platform.js";
import { receiptOf } from "./receipts.js";
import {
  InviteRefused,
  ManifestRefused,
  PolicyRefused,
  QuestionRefused,
  TransportRefused,
  TryLater,
} from "./refusals.js";
import { Caller, Patience } from "./retries.js";
import { costs } from "./spending.js";

/** One person's device; the ledger is its whole state. Without a transport, `makeTransport` makes one for each answer. */
export class AnsweringDevice {
  constructor(policy, { ledger, makeTransport, transport = null, patience = {} }) {
    if (!(policy instanceof Limits)) throw new InvalidInput(`a device needs a Policy, got ${given(policy)}`);
    this.policy = policy;
    this.ledger = ledger;
    this.makeTransport = makeTransport;
    this.transport = transport;
    this.patience = patience instanceof Patience ? patience : new Patience(patience);
  }

  /**
   * Answer the question of `invite` about `value` (a number or a BigInt), which is clamped to the domain. code: what was
   * told beside an open link that needs one. Safe to call again after any failure, crash or success: a bit that was
   * drawn is resent until it is acknowledged, and `value` not looked at any more. Rejects with `Refused`, `TryLater`, or
   * `InvalidInput` when the value is no number.
   */
  answer(invite, value, { code = null } = {}) {
    return this.#calling(invite, (named, caller) => this.#answer(withCode(named, code), caller, value));
  }

  /** What the campaign of `invite` asks: its manifest, checked against the invite. Nothing is drawn or written. */
  campaign(invite) {
    return this.#calling(invite, (named, caller) => fetchManifest(named, caller));
  }

  /** The receipt of the answer to `invite` if it was drawn before, acknowledged or not; else null. Sends nothing. */
  async recall(invite) {
    const answer = await this.ledger.find(readInvite(invite).campaignId);
    return answer === null ? null : this.#receipt(this.policy.of(answer.measurement), answer, "answered before");
  }

  async #calling(invite, work) {
    await checkPlatform();
    const named = readInvite(invite);
    const { origin } = named;
    if (!origin.secure && !origin.local && !this.policy.allowHttp) {
      throw new TransportRefused(
        "insecure",
        `${named.base} is not encrypted; the policy allows plain http to this machine only (allow_http)`,
      );
    }
    const transport = this.transport ?? this.makeTransport();
    try {
      return await work(named, new Caller(transport, origin, this.patience));
    } finally {
      if (this.transport === null) transport.close();
    }
  }

  async #answer(invite, caller, value) {
    let answer = (await this.ledger.find(invite.campaignId)) ?? (await this.#draw(invite, caller, value));
    const rule = this.policy.of(answer.measurement);
    if (answer.state !== ACKED) {
      await this.#checkResend(invite, rule, answer);
      answer = await this.ledger.advance(answer, SEND);
    }
    if (answer.state === ACKED) return this.#receipt(rule, answer, "answered before");
    return this.#send(rule, caller, answer);
  }

  /** Check everything, get the question, throw the coin, write the answer down. */
  async #draw(invite, caller, value) {
    const campaign = invite.campaignId;
    const manifest = await fetchManifest(invite, caller);
    const { measurement } = manifest;
    const rule = this.policy.of(measurement);
    await checkCampaign(rule, manifest);
    checkAddress(manifest, invite.base);
    checkBudget(rule, manifest, mostSpent(manifest), await this.ledger.answers(measurement));
    const index = manifest.domain.index(value);
    const token = await this.#token(invite);
    if (invite.link !== null) await claim(invite, token, caller);
    const ask = manifest.shuffle === null ? askLocal : askShuffled;
    const { threshold, flips, price, answered } = await ask({ rule, manifest, token, caller, ledger: this.ledger });
    const coin = new Coin(flips);
    return this.ledger.prepare(measurement, campaign, (soFar) => {
      // Again, now that nobody else can write: another tab or process may have answered while this one was asking.
      checkBudget(rule, manifest, price, soFar);
      const bit = respond(coin, index, threshold);
      return { measurement, campaign, coin: flips, threshold, bit, token, ...answered[bit] };
    });
  }

  async #send(rule, caller, answer) {
    const body = await caller.call("POST", pathOf(answer.campaign, "reports"), reportRequest(answer), MAX_REQUEST);
    let status;
    try {
      status = parseReceipt(body, isShuffled(answer));
    } catch (error) {
      throw ofWire(error, (text) => new TryLater("bad-acknowledgement", `the server's acknowledgement ${text}`));
    }
    return this.#receipt(rule, await this.ledger.advance(answer, ACK), status);
  }

  /** The invite's token; for an open link made from the ledger's secret, so that a crash claims no second place. */
  async #token(invite) {
    if (invite.token !== null) return invite.token;
    const named = ascii(`privquant/open-link/1 ${invite.campaignId} ${invite.link}`);
    const algorithm = { name: "HMAC", hash: "SHA-256" };
    const key = await crypto.subtle.importKey("raw", await this.ledger.secret(), algorithm, false, ["sign"]);
    const mac = new Uint8Array(await crypto.subtle.sign("HMAC", key, named));
    return tokenFromBytes(mac.subarray(0, TOKEN_BYTES));
  }

  /** An answer that was drawn earlier goes out only under its own invite and if the policy still allows it. */
  async #checkResend(invite, rule, answer) {
    if (answer.token !== (await this.#token(invite))) {
      throw new PolicyRefused(
        "one-answer",
        "an answer to this campaign was drawn under another invite; only that one can send it",
      );
    }
    checkResent(rule, answer, invite.base);
  }

  async #receipt(rule, answer, status) {
    return receiptOf(rule, answer, status, total(await this.ledger.answers(answer.measurement)));
  }
}

/** The one place where the value takes part: is it at most the threshold, through the coin. */
export function respond(coin, index, threshold) {
  return coin.throw(Number(index <= threshold));
}

function withCode(invite, typed) {
  if (typed === null) return invite;
  try {
    return invite.withCode(typed);
  } catch (error) {
    throw ofWire(error, () => new InvalidInput(`${error.message}; got ${given(typed, 40)}`));
  }
}

function readInvite(invite) {
  if (invite instanceof Invite) return invite;
  try {
    return Invite.parse(invite);
  } catch (error) {
    throw ofWire(error, () => new InviteRefused("invite-malformed", `this is not an invite: ${error.message}`));
  }
}

async function fetchManifest(invite, caller) {
  const body = await caller.call("GET", pathOf(invite.campaignId, "manifest"), null, MAX_MANIFEST);
  try {
    return await openEnvelope(body, invite);
  } catch (error) {
    if (error instanceof SignatureError) {
      const text = `the campaign is not the one of the invite: ${error.message}`;
      throw new ManifestRefused("manifest-forged", text, { cause: error });
    }
    if (error instanceof TrustError) {
      const text = `this device does not know the campaign's trust model: ${error.message}`;
      throw new ManifestRefused("trust-model", text, { cause: error });
    }
    throw ofWire(error, (text) => new ManifestRefused("manifest-malformed", `the manifest ${text}`));
  }
}

/** The question of the local trust model: a threshold, and the ticket that both bits are sent with. */
async function askLocal({ manifest, token, caller }) {
  const body = await caller.call("POST", pathOf(manifest.id, "query"), await queryRequest(token), MAX_REQUEST);
  let question;
  try {
    question = parseTicket(body);
  } catch (error) {
    throw ofWire(error, (text) => new QuestionRefused("question-malformed", `the question ${text}`));
  }
  // The last index is no threshold: everybody's value is at most the largest.
  const largest = manifest.domain.size - 2n;
  if (question.threshold < 0n || question.threshold > largest) {
    throw new QuestionRefused("threshold", `threshold ${question.threshold} is outside the domain's 0 .. ${largest}`);
  }
  const { threshold, ticket } = question;
  const flips = manifest.flipThreshold;
  return { threshold, flips, price: costs(flips), answered: [{ ticket }, { ticket }] };
}

/** The question of a shuffled campaign; see shuffled.js. */
async function askShuffled(asked) {
  const shuffled = await onDemand(import("./shuffled.js"));
  return shuffled.askShuffled(asked);
}

/** Take a place of an open link for `token`. */
async function claim(invite, token, caller) {
  const request = await claimRequest(invite, token);
  const body = await caller.call("POST", pathOf(invite.campaignId, "claims"), request, MAX_REQUEST);
  try {
    parseClaimReceipt(body);
  } catch (error) {
    throw ofWire(error, (text) => new QuestionRefused("question-malformed", `the answer to a claim ${text}`));
  }
}
