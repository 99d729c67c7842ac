// The manifest: what a campaign asks, of whom and at what privacy.
//
// It never changes: its id is the SHA-256 of its canonical JSON and it is signed with Ed25519. An unknown field or
// version is an error, never ignored. Version 1 is the local trust model, version 2 the shuffled one, which its
// shuffler has signed too.

import { DRAW, checkEpsilon, checkFlipThreshold, flipThreshold } from "./coin.js";
import { Grid, Integers } from "./domain.js";
import { InvalidInput, SignatureError, TrustError, WireError, shown } from "./errors.js";
import {
  MAX_MANIFEST,
  SHUFFLED_VERSION,
  VERSION,
  ascii,
  checkHash,
  concat,
  fingerprint,
  fromHex,
  inside,
  isPrintable,
  realFromWire,
  sha256,
  toHex,
  wholeFromWire,
  wholeIn,
} from "./form.js";
import { canonical, exactFields, parseJson } from "./json.js";
import { onDemand } from "./platform.js";

const FIELDS = [
  "version",
  "measurement",
  "question",
  "domain",
  "quantiles",
  "epsilon",
  "flip_threshold",
  "trust",
  "protocol",
  "interval",
  "planned_users",
  "waves",
  "opens",
  "deadline",
  "issuer",
  "nonce",
];
const MAX_EDGES = 10000;
const MAX_WAVES = 10000;
const NAME = /^[a-z][a-z0-9_]{0,49}$/;

function domainFromWire(form) {
  if (form?.kind === "integers") {
    exactFields(form, ["kind", "low", "high"], "domain");
    return new Integers(wholeFromWire(form.low, "low"), wholeFromWire(form.high, "high"));
  }
  if (form?.kind === "grid") {
    exactFields(form, ["kind", "edges"], "domain");
    if (!Array.isArray(form.edges) || form.edges.length > MAX_EDGES) {
      throw new WireError(`edges is a list of at most ${MAX_EDGES} decimal strings`);
    }
    return new Grid(form.edges.map((edge) => realFromWire(edge, "edge")));
  }
  throw new WireError(`a domain's kind is 'integers' or 'grid', got ${shown(form?.kind)}`);
}

function checkText(form) {
  if (typeof form.measurement !== "string" || !/^[a-z0-9][a-z0-9._-]{0,99}$/.test(form.measurement)) {
    throw new WireError(
      `measurement is a name of 1 to 100 of a-z 0-9 . _ -, starting with a letter or digit, ` +
        `got ${shown(form.measurement, 120)}`,
    );
  }
  const { question } = form;
  const length = typeof question === "string" ? [...question].length : 0;
  if (length < 1 || length > 500 || !isPrintable(question)) {
    throw new WireError("question is a text of 1 to 500 printable characters on one line");
  }
}

function quantilesOf(form) {
  if (!Array.isArray(form.quantiles) || form.quantiles.length > 100) {
    throw new WireError("quantiles is a list of at most 100 decimal strings");
  }
  const quantiles = form.quantiles.map((each) => inside(realFromWire(each, "quantile"), "a quantile"));
  if (quantiles.length === 0 || quantiles.some((each, k) => k > 0 && each <= quantiles[k - 1])) {
    throw new WireError("quantiles are at least one, in rising order without repeats");
  }
  return quantiles;
}

/** The coin of epsilon; of a shuffled campaign, where each round has its own, the most honest of them. */
function coinOf(form, terms) {
  const epsilon = checkEpsilon(realFromWire(form.epsilon, "epsilon"));
  if (terms !== null) {
    return { epsilon, flipThreshold: terms.rounds.reduce((least, { coin }) => (coin < least ? coin : least), DRAW) };
  }
  const threshold = checkFlipThreshold(wholeFromWire(form.flip_threshold, "flip_threshold"));
  const right = flipThreshold(epsilon);
  if (threshold !== right) {
    throw new WireError(`flip_threshold ${threshold} is not the coin of epsilon ${epsilon}, which is ${right}`);
  }
  return { epsilon, flipThreshold: threshold };
}

function protocolOf(form) {
  const { name, options } = exactFields(form.protocol, ["name", "options"], "protocol");
  if (typeof name !== "string" || !NAME.test(name)) {
    throw new WireError(`protocol is a short lower-case name, got ${shown(name)}`);
  }
  if (typeof options !== "object" || options === null || Array.isArray(options)) {
    throw new WireError("a protocol's options are a JSON object");
  }
  const entries = Object.entries(options);
  if (entries.length > 20) throw new WireError(`a protocol has at most 20 options, got ${entries.length}`);
  for (const [option, value] of entries) {
    if (!NAME.test(option) || (typeof value === "object" && value !== null)) {
      throw new WireError(`option ${shown(option)} is not a name with a string, whole number, boolean or null`);
    }
    if (typeof value === "string" && [...value].length > 100) {
      throw new WireError(`option ${shown(option)} is longer than 100 characters`);
    }
  }
  return { name, options };
}

function timesOf(form) {
  const waves = exactFields(form.waves, ["count", "seconds"], "waves");
  wholeIn(waves.count, 1, MAX_WAVES, "waves.count");
  wholeIn(waves.seconds, 0, 366 * 86400, "waves.seconds");
  const opens = wholeIn(form.opens, 0, Number.MAX_SAFE_INTEGER, "opens");
  const deadline = wholeIn(form.deadline, opens + 1, Number.MAX_SAFE_INTEGER, "deadline");
  if (BigInt(opens) + BigInt(waves.count - 1) * BigInt(waves.seconds) >= BigInt(deadline)) {
    throw new WireError("the last wave opens at or after the deadline");
  }
  return { waves, opens, deadline };
}

function shuffleTerms() {
  return onDemand(import("./shuffle-terms.js"));
}

/** The manifest a JSON form spells out, every field checked; WireError if one is not as it must be. */
async function manifestFromForm(form) {
  const version = form?.version;
  if (typeof form === "object" && form !== null && version !== VERSION && version !== SHUFFLED_VERSION) {
    throw new WireError(
      `manifest version ${shown(version, 40)} is unknown; this reads ${VERSION} and ${SHUFFLED_VERSION}`,
    );
  }
  const shuffled = version === SHUFFLED_VERSION;
  exactFields(form, shuffled ? FIELDS.filter((name) => name !== "flip_threshold") : FIELDS, "manifest");
  const known = shuffled ? "shuffle" : "local";
  const trust = shuffled ? form.trust?.model : exactFields(form.trust, ["model"], "trust model").model;
  checkText(form);
  const domain = domainFromWire(form.domain);
  if (domain.size < 2n) throw new WireError("a domain of one value has nothing to ask");
  const quantiles = quantilesOf(form);
  const shuffle = shuffled && trust === known ? (await shuffleTerms()).termsFromWire(form.trust) : null;
  const coin = coinOf(form, shuffle);
  const interval = form.interval === null ? null : inside(realFromWire(form.interval, "interval"), "interval");
  if (trust !== known) throw new TrustError(`trust model ${shown(trust)} is unknown; this version knows '${known}'`);
  const protocol = protocolOf(form);
  const plannedUsers = wholeIn(form.planned_users, 1, Number.MAX_SAFE_INTEGER, "planned_users");
  const times = timesOf(form);
  checkHash(form.issuer, "issuer");
  if (typeof form.nonce !== "string" || !/^[0-9a-f]{32}$/.test(form.nonce)) {
    throw new WireError("nonce is 32 lower-case hex digits");
  }
  const { measurement, question, issuer, nonce } = form;
  return {
    version, measurement, question, domain, quantiles, ...coin, trust, protocol, interval, plannedUsers, ...times,
    issuer, nonce, shuffle,
  };
}

async function verifies(publicKey, signature, message) {
  try {
    const key = await crypto.subtle.importKey("raw", fromHex(publicKey), { name: "Ed25519" }, false, ["verify"]);
    return await crypto.subtle.verify({ name: "Ed25519" }, key, fromHex(signature), message);
  } catch {
    return false; // not a key that can have signed anything
  }
}

/**
 * SignatureError unless the key (in hex) signed `body` with Ed25519 as this kind of message, and no other; `what` names
 * it.
 */
export async function checkSignature(kind, body, signature, publicKey, what) {
  if (typeof signature !== "string" || !/^[0-9a-f]{128}$/.test(signature)) {
    throw new SignatureError(`the signature of the ${what} is not 128 lower-case hex digits`);
  }
  if (!(await verifies(publicKey, signature, concat(ascii(`privquant/${kind}\0`), body)))) {
    throw new SignatureError(`the ${what}'s signature does not verify`);
  }
}

/** The manifest of an envelope, if it is the one named and signed by the key named; else WireError. */
export async function openEnvelope(bytes, { campaignId, keyFingerprint }) {
  const form = parseJson(bytes, MAX_MANIFEST);
  const names = ["manifest", "signature"];
  exactFields(form, Object.hasOwn(form ?? {}, "accepted") ? [...names, "accepted"] : names, "message");
  let manifest;
  try {
    manifest = await manifestFromForm(form.manifest);
  } catch (error) {
    if (error instanceof InvalidInput) throw new WireError(error.message, { cause: error });
    throw error;
  }
  const body = canonical(form.manifest);
  const id = toHex(await sha256(body));
  if (id !== campaignId) throw new SignatureError(`the manifest's hash is ${id}, the invite names ${campaignId}`);
  const mark = await fingerprint(manifest.issuer);
  if (mark !== keyFingerprint) {
    throw new SignatureError(
      `the manifest's issuer has the fingerprint ${mark}, the invite names ${keyFingerprint}`,
    );
  }
  if (Object.hasOwn(form, "accepted") && manifest.shuffle === null) {
    throw new WireError("a campaign in the local trust model has no shuffler to accept it");
  }
  await checkSignature(`manifest/${manifest.version}`, body, form.signature, manifest.issuer, "manifest");
  if (manifest.shuffle !== null) {
    await checkSignature("accepted/2", fromHex(id), form.accepted, manifest.shuffle.key, "shuffler's acceptance");
  }
  return Object.freeze({ ...manifest, id });
}
