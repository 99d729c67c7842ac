// Refusals of the server, in the form of RFC 9457: every kind, its status, and whether asking again can help.

import { WireError } from "./errors.js";
import { MAX_REQUEST } from "./form.js";
import { parseJson } from "./json.js";

const TYPE = "urn:privquant:problem:";

// code: [status, title]. Which of them may pass is said by the status alone.
const KINDS = {
  malformed: [400, "The request does not have the form the wire format asks for"],
  unauthorized: [401, "An operator token is needed"],
  "unknown-token": [403, "The campaign never issued this token"],
  "wrong-link": [403, "The campaign has no open link with this secret"],
  "forged-ticket": [403, "This ticket was not given to this token in this campaign"],
  "forged-signature": [403, "The message is not signed by the key that the manifest names"],
  forbidden: [403, "The operator token does not allow this"],
  "unknown-campaign": [404, "There is no such campaign"],
  "not-found": [404, "There is nothing at this address"],
  "method-not-allowed": [405, "The address does not take this method"],
  "too-slow": [408, "The body took too long to arrive"],
  "token-spent": [409, "A report for this token is already counted"],
  "second-announcement": [409, "The round was announced before, with another threshold"],
  "second-batch": [409, "The round has another batch, or was dropped"],
  conflict: [409, "The campaign is not in a state that allows this"],
  "link-exhausted": [410, "All places of the open link are taken"],
  "round-closed": [410, "The round of this token has closed without its report"],
  "campaign-complete": [410, "The planned number of users has answered"],
  "campaign-closed": [410, "The campaign is closed"],
  "deadline-passed": [410, "The campaign's deadline has passed"],
  "too-large": [413, "The body is larger than allowed"],
  "short-batch": [422, "The batch has fewer reports than its round is forwarded with"],
  invalid: [422, "The request is well formed but asks for what is not allowed"],
  "not-yet": [425, "The wave of this token has not opened"],
  "too-many-requests": [429, "More than the server takes at once"],
  "all-places-taken": [503, "As many devices as planned are answering now"],
  "campaign-paused": [503, "The campaign is paused"],
  unavailable: [503, "The store does not answer now; nothing was counted"],
};

/** What a refusal says. Never throws: a proxy's refusal may have any body, and is judged by its status. */
export function parseProblem(status, bytes) {
  let code = "unknown";
  let detail = "";
  try {
    const form = parseJson(bytes, MAX_REQUEST);
    const type = typeof form?.type === "string" && form.type.startsWith(TYPE) ? form.type.slice(TYPE.length) : "";
    if (Object.hasOwn(KINDS, type) && KINDS[type][0] === status) code = type;
    if (typeof form?.detail === "string") detail = [...form.detail].slice(0, 500).join("");
  } catch (error) {
    if (!(error instanceof WireError)) throw error;
  }
  const title = code === "unknown" ? `HTTP status ${status}` : KINDS[code][1];
  const final = status >= 400 && status < 500 && ![408, 425, 429].includes(status);
  return { code, status, detail: detail || title, final };
}
