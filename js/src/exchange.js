// Requests and answers between a device and the aggregator, or the shuffler, and their refusals, in the form of RFC 9457.
// A report has the same size for both bits.

import { WireError, shown } from "./errors.js";
import { MAX_REQUEST, tokenHash, wholeFromWire } from "./form.js";
import { canonical, parseJson, parseObject } from "./json.js";

const TICKET = /^[A-Za-z0-9_-]{1,200}$/;
const TYPE = "urn:privquant:problem:";

// Every kind of refusal by its status, which says whether asking again can help.
const KINDS = {
  400: ["malformed"],
  401: ["unauthorized"],
  403: ["unknown-token", "wrong-link", "forged-ticket", "forged-signature", "forbidden"],
  404: ["unknown-campaign", "not-found"],
  405: ["method-not-allowed"],
  408: ["too-slow"],
  409: ["token-spent", "second-announcement", "second-batch", "conflict"],
  410: ["link-exhausted", "round-closed", "campaign-complete", "campaign-closed", "deadline-passed"],
  413: ["too-large"],
  422: ["short-batch", "invalid"],
  425: ["not-yet"],
  429: ["too-many-requests"],
  503: ["all-places-taken", "campaign-paused", "unavailable"],
};

/** The path of a campaign's resource: manifest, query, claims or reports. */
export function pathOf(campaignId, what) {
  return `/v1/campaigns/${campaignId}/${what}`;
}

/** Take a place of an open link for a token the device made; with a code it is a claim of version 2. */
export async function claimRequest({ link, code }, token) {
  const form = { link, token_hash: await tokenHash(token) };
  return canonical(code === null ? form : { ...form, code, version: 2 });
}

/** Ask for the threshold of a token, of which only the hash is sent. */
export async function queryRequest(token) {
  return canonical({ token_hash: await tokenHash(token) });
}

/** One bit, the ticket it answers, and the token it spends; or the bit sealed, for a round. */
export function reportRequest(answer) {
  const { token, ticket, bit, round, sealed } = answer;
  return canonical(isShuffled(answer) ? { token, round: Number(round), sealed } : { token, ticket, bit });
}

/** Whether an answer was sealed for a shuffler. */
export function isShuffled(answer) {
  return answer.sealed !== undefined;
}

/** The threshold a token was given, and the server's seal on it, opaque to the device. */
export function parseTicket(bytes) {
  const form = parseObject(bytes, MAX_REQUEST, ["threshold", "ticket"]);
  const threshold = wholeFromWire(form.threshold, "threshold");
  if (typeof form.ticket !== "string" || !TICKET.test(form.ticket)) {
    throw new WireError("a ticket is 1 to 200 characters of base64url");
  }
  return { threshold, ticket: form.ticket };
}

function parseStatus(bytes, allowed, what) {
  const { status } = parseObject(bytes, MAX_REQUEST, ["status"]);
  if (!allowed.includes(status)) {
    throw new WireError(`${what} says '${allowed.join("' or '")}', got ${shown(status, 40)}`);
  }
  return status;
}

export function parseClaimReceipt(bytes) {
  return parseStatus(bytes, ["claimed", "already claimed"], "a claim's answer");
}

export function parseReceipt(bytes, shuffled = false) {
  const done = shuffled ? "accepted" : "counted";
  return parseStatus(bytes, [done, `already ${done}`], "a receipt");
}

/** What a refusal says. Never throws: a proxy's refusal may have any body, and is judged by its status. */
export function parseProblem(status, bytes) {
  const problem = { code: "unknown", status, detail: `HTTP status ${status}` };
  problem.final = status >= 400 && status < 500 && ![408, 425, 429].includes(status);
  try {
    const { type, detail, title } = parseJson(bytes, MAX_REQUEST) ?? {};
    const code = KINDS[status]?.find((each) => type === TYPE + each);
    const said = [detail, code && title].find((each) => typeof each === "string" && each !== "");
    if (code !== undefined) problem.code = code;
    if (said !== undefined) problem.detail = [...said].slice(0, 500).join("");
  } catch (error) {
    if (!(error instanceof WireError)) throw error;
  }
  return problem;
}
