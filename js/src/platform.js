// What an answer needs of the engine it runs in, and a sentence where it is missing.

import { PlatformRefused, TryLater } from "./refusals.js";

// RFC 8032, test 1: any key will do, what is asked is whether the engine knows the curve.
const A_KEY = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a";

/** Why this engine cannot answer, in a sentence for its user; null if it can. */
export async function whatIsMissing(engine = globalThis) {
  if (engine.crypto?.subtle === undefined) {
    return engine.isSecureContext === false
      ? "This page was opened over plain http, where browsers withhold cryptography. Open it over https."
      : "This browser is too old to answer: it has no web cryptography. Update it, or use another one.";
  }
  try {
    const raw = Uint8Array.from(A_KEY.match(/../g), (pair) => parseInt(pair, 16));
    await engine.crypto.subtle.importKey("raw", raw, { name: "Ed25519" }, false, ["verify"]);
  } catch {
    return (
      "This browser cannot check who asks, since it does not know Ed25519 signatures. " +
      "Chrome and Edge from 137, Firefox from 129, Safari from 17 and Node from 20 do."
    );
  }
  return null;
}

export async function checkPlatform() {
  const missing = await whatIsMissing();
  if (missing !== null) throw new PlatformRefused("platform", missing);
}

/** A module that only some campaigns need, as it is being imported; TryLater if it does not come. */
export async function onDemand(module) {
  try {
    return await module;
  } catch (error) {
    throw new TryLater("unreachable", "a part of the device could not be loaded", null, { cause: error });
  }
}
