// HTTP by the platform's fetch, for browsers and web views: one request, one answer, bounded in bytes and in time.
//
// No redirects, no cookies, no referrer, no cache. A browser adds headers of its own (a user agent among them) and does
// not say why a connection failed; an invalid certificate is therefore "unreachable" here, and nothing was sent.

import { TransportRefused, TryLater } from "./refusals.js";

export const MEDIA = "application/json";

/** An answer in the form every transport gives: status, the raw Retry-After header or null, and the body's bytes. */
export class FetchTransport {
  async send(origin, { method, path, body, limit, seconds }) {
    const giveUp = new AbortController();
    const timer = setTimeout(() => giveUp.abort(), Math.max(0, 1000 * seconds));
    try {
      const answer = await fetch(origin.url(path), {
        method,
        body,
        headers: body === null ? { Accept: MEDIA } : { Accept: MEDIA, "Content-Type": MEDIA },
        redirect: "manual",
        credentials: "omit",
        referrerPolicy: "no-referrer",
        cache: "no-store",
        signal: giveUp.signal,
      });
      if (answer.type === "opaqueredirect") {
        throw new TransportRefused("redirect", `${origin.host} sends the device elsewhere; it does not go`);
      }
      const bytes = await bodyOf(answer, limit);
      return { status: answer.status, retryAfter: answer.headers.get("Retry-After"), body: bytes };
    } catch (error) {
      if (error instanceof TransportRefused) throw error;
      if (giveUp.signal.aborted) {
        throw new TryLater("deadline", `${origin.host} did not answer in time`, null, { cause: error });
      }
      throw new TryLater("unreachable", `${origin.host} cannot be reached`, null, { cause: error });
    } finally {
      clearTimeout(timer);
      giveUp.abort();
    }
  }

  close() {}
}

export function tooLarge(limit) {
  return new TransportRefused("too-large", `the server sent more than the ${limit} bytes that are allowed here`);
}

async function bodyOf(answer, limit) {
  const whole = new Uint8Array(limit);
  let length = 0;
  if (answer.body === null) return whole.subarray(0, 0);
  const reader = answer.body.getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return whole.slice(0, length);
    if (length + value.length > limit) throw tooLarge(limit);
    whole.set(value, length);
    length += value.length;
  }
}
