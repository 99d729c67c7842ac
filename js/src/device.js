// The device: answers one question about one value with one bit, or says why not.
//
// Whatever the server says, the device itself sees to it (each is a check below, before anything that depends on the
// value exists) that
// - the campaign is the one the invite names, signed by the key the invite and, if pinned, the policy name;
// - the measurement, its domain and its noise are within the owner's policy, and so is the sum over all answers so far;
// - the question is about a whole-numbered threshold inside the domain;
// - the bit is drawn once, is on disk before it leaves, and is resent, never redrawn.
//
// The value takes part in one comparison, whose result goes through the coin at once. Nothing else depends on it: not
// which requests are made, nor their size, nor their time.

import { ACK, ACKED, SEND } from "./answer-states.js";
import { Coin } from "./coin.js";
import { InvalidInput, SignatureError, TrustError, WireError, shown as given } from "./errors.js";
import {
  claimRequest,
  parseClaimReceipt,
  parseReceipt,
  parseTicket,
  pathOf,
  queryRequest,
  reportRequest,
} from "./exchange.js";
import { MAX_MANIFEST, MAX_REQUEST, TOKEN_BYTES, ascii, fingerprint, tokenFromBytes } from "./form.js";
import { Invite } from "./invite.js";
import { openEnvelope } from "./manifest.js";
import { checkPlatform } from "./platform.js";
import { Policy } from "./policy.js";
import {
  InviteRefused,
  ManifestRefused,
  PolicyRefused,
  QuestionRefused,
  TransportRefused,
  TryLater,
} from "./refusals.js";
import { Caller, Patience } from "./retries.js";
import { cost, keeps, shown } from "./spending.js";

/**
 * One person's device. Cheap to make; the ledger is its whole state. transport: share one to keep connections open over
 * several devices; without one, `makeTransport` makes one for each answer.
 */
export class AnsweringDevice {
  constructor(policy, { ledger, makeTransport, transport = null, patience = {} }) {
    if (!(policy instanceof Policy)) throw new InvalidInput(`a device needs a Policy, got ${given(policy)}`);
    this.policy = policy;
    this.ledger = ledger;
    this.makeTransport = makeTransport;
    this.transport = transport;
    this.patience = patience instanceof Patience ? patience : new Patience(patience);
  }

  /**
   * Answer the question of `invite` about `value` (a number or a BigInt), which is clamped to the domain.
   *
   * Safe to call again after any failure, crash or success: a bit that was drawn is resent until it is acknowledged
   * and then never again (`value` is not looked at any more). Rejects with `Refused` when this device will not answer,
   * `TryLater` when it could not now, `InvalidInput` when the value is no number. code: what was told beside an open
   * link that needs one.
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
    return answer === null ? null : this.#receipt(this.#rule(answer.measurement), answer, "answered before");
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
    const rule = this.#rule(answer.measurement);
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
    const rule = this.#rule(measurement);
    await checkCampaign(rule, manifest);
    checkBudget(rule, manifest, await this.ledger.answers(measurement));
    const index = manifest.domain.index(value);
    const token = await this.#token(invite);
    if (invite.link !== null) await claim(invite, token, caller);
    const { threshold, ticket } = await fetchTicket(manifest, token, caller);
    const coin = new Coin(manifest.flipThreshold);
    return this.ledger.prepare(measurement, campaign, (soFar) => {
      // Again, now that nobody else can write: another tab or process may have answered while this one was asking.
      checkBudget(rule, manifest, soFar);
      const bit = respond(coin, index, threshold);
      return { measurement, campaign, coin: coin.threshold, threshold, bit, token, ticket };
    });
  }

  async #send(rule, caller, answer) {
    const body = await caller.call("POST", pathOf(answer.campaign, "reports"), reportRequest(answer), MAX_REQUEST);
    let status;
    try {
      status = parseReceipt(body);
    } catch (error) {
      throw ofWire(error, (text) => new TryLater("bad-acknowledgement", `the server's acknowledgement ${text}`));
    }
    return this.#receipt(rule, await this.ledger.advance(answer, ACK), status);
  }

  /**
   * The invite's token; for an open link, this device's own, made from a secret of the ledger, so that a device that
   * crashed claims the same place and not a second.
   */
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
    checkCoin(rule, answer.coin);
    if (answer.threshold > rule.domain.size - 2n) {
      throw new PolicyRefused("domain", "an answer was drawn in another domain than the policy has now");
    }
  }

  #rule(measurement) {
    const rule = this.policy.measurements.get(measurement);
    if (rule === undefined) {
      throw new PolicyRefused(
        "unknown-measurement",
        `the policy has no measurement '${measurement}', so nothing is said about it`,
      );
    }
    return rule;
  }

  /**
   * What left this device, and what it cost. status: "counted" now, "already counted" by the server before, or
   * "answered before": nothing was sent now. asked: the question was whether the value is at most this. bit: the answer
   * after the coin, the one thing about the value that left. spent, lifetime: of the measurement, exact decimals.
   */
  async #receipt(rule, answer, status) {
    const { measurement, campaign, threshold, bit } = answer;
    const spent = total(await this.ledger.answers(measurement));
    const { epsilon } = new Coin(answer.coin);
    const last = rule.domain.size - 1n;
    return Object.freeze({
      measurement,
      campaign,
      status,
      asked: rule.domain.value(threshold < last ? threshold : last),
      bit,
      epsilon,
      spent: shown(spent),
      lifetime: shown(rule.lifetimeUnits),
      guarantee: `Each answer is ${Number(epsilon.toPrecision(4))}-differentially private whatever any server does.`,
    });
  }
}

/** The one place where the value takes part: is it at most the threshold, through the coin. */
export function respond(coin, index, threshold) {
  return coin.throw(Number(index <= threshold));
}

function total(answers) {
  return answers.reduce((sum, answer) => sum + cost(answer.coin), 0n);
}

/** The refusal that a message which cannot be read leads to; any other error as it is. */
function ofWire(error, refusal) {
  if (!(error instanceof WireError)) return error;
  return Object.assign(refusal(`cannot be read: ${error.message}`), { cause: error });
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
      const text = `this device answers in the local trust model only: ${error.message}`;
      throw new ManifestRefused("trust-model", text, { cause: error });
    }
    throw ofWire(error, (text) => new ManifestRefused("manifest-malformed", `the manifest ${text}`));
  }
}

async function fetchTicket(manifest, token, caller) {
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
  return question;
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

async function checkCampaign(rule, manifest) {
  if (!rule.domain.equals(manifest.domain)) {
    throw new PolicyRefused(
      "domain",
      `the campaign asks in the domain ${manifest.domain}, the policy has ${rule.domain}`,
    );
  }
  const keys = [null, manifest.issuer, await fingerprint(manifest.issuer)];
  if (!keys.includes(rule.issuerKey)) {
    throw new PolicyRefused("issuer-key", `the campaign's issuer ${manifest.issuer} is not the one the policy pins`);
  }
  checkCoin(rule, manifest.flipThreshold);
}

function checkCoin(rule, flips) {
  if (!keeps(rule.maxUnits, flips)) {
    throw new PolicyRefused(
      "epsilon-per-answer",
      `an answer would cost epsilon ${shown(cost(flips))}, the policy allows ${shown(rule.maxUnits)}`,
    );
  }
}

/** Refuse what would be one answer too many, or too dear with all that were given (or may have been). */
function checkBudget(rule, manifest, soFar) {
  const others = soFar.filter((answer) => answer.campaign !== manifest.id);
  const name = manifest.measurement;
  if (others.length >= rule.answers) {
    throw new PolicyRefused(
      "one-answer",
      `measurement '${name}' was answered for ${others.length} campaign(s) already ` +
        `and the policy allows ${rule.answers}`,
    );
  }
  const spent = total(others);
  const price = cost(manifest.flipThreshold);
  if (spent + price > rule.lifetimeUnits) {
    throw new PolicyRefused(
      "epsilon-lifetime",
      `measurement '${name}' has spent epsilon ${shown(spent)} of ${shown(rule.lifetimeUnits)}; ` +
        `an answer would cost ${shown(price)} more`,
    );
  }
}
