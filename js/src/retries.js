// Asking again: how long, how often, and when to leave it for another day.
//
// Pauses double and are cut by a random share; where the server names a time (Retry-After), it is that and a random share
// of the first pause. A wait that does not fit into what is left of the patience is not begun: the caller is told to
// try later, and when. How long it takes depends on the server and on chance, never on the value.

import { InvalidInput, shown } from "./errors.js";
import { parseProblem } from "./exchange.js";
import { isPrintable } from "./form.js";
import { ServerRefused, TransportRefused, TryLater } from "./refusals.js";

/** Seconds: for an answer in total, for one request, for the first pause and for the longest. */
export class Patience {
  constructor({ total = 60, request = 10, firstPause = 0.5, longestPause = 30, ...unknown } = {}) {
    Object.assign(this, { total, request, firstPause, longestPause });
    if (Object.keys(unknown).length > 0) {
      const names = Object.keys(this).join(", ");
      throw new InvalidInput(`patience: unknown ${Object.keys(unknown).join(", ")}; it has ${names}`);
    }
    for (const [name, seconds] of Object.entries(this)) {
      if (typeof seconds !== "number" || !(seconds > 0 && seconds <= 86400)) {
        throw new InvalidInput(`patience: ${name} must be above 0 and at most 86400 s, got ${shown(seconds)}`);
      }
    }
    Object.freeze(this);
  }

  /** The pause after so many failures in a row; `chance` is uniform in [0, 1). */
  pause(failures, chance) {
    const full = Math.min(this.longestPause, this.firstPause * 2 ** Math.min(failures - 1, 60));
    return full * (0.5 + 0.5 * chance);
  }
}

function now() {
  return performance.now() / 1000;
}

/** Makes the requests of one answer, within one patience. */
export class Caller {
  constructor(transport, origin, patience) {
    this.transport = transport;
    this.origin = origin;
    this.patience = patience;
    this.end = now() + patience.total;
  }

  /** The body of the first answer that is a success (200 or 201); ServerRefused on a final no, TryLater in the end. */
  async call(method, path, body, limit) {
    for (let failures = 1; ; failures += 1) {
      let failure;
      try {
        const seconds = Math.min(this.end - now(), this.patience.request);
        const response = await this.transport.send(this.origin, { method, path, body, limit, seconds });
        if (response.status === 200 || response.status === 201) return response.body;
        failure = this.failure(response);
      } catch (error) {
        if (!(error instanceof TryLater)) throw error;
        failure = error;
      }
      const chance = crypto.getRandomValues(new Uint32Array(1))[0] / 2 ** 32;
      let wait = this.patience.pause(failures, chance);
      if (failure.retryAfter !== null) {
        const least = this.patience.firstPause; // "at once, for ever" is no time to wait
        wait = Math.max(failure.retryAfter, least) + least * chance;
      }
      if (now() + wait >= this.end) throw failure;
      await new Promise((resolve) => setTimeout(resolve, 1000 * wait));
    }
  }

  failure({ status, retryAfter, body }) {
    const { host } = this.origin;
    if (status >= 300 && status < 400) {
      throw new TransportRefused("redirect", `${host} sends the device elsewhere (HTTP ${status}); it does not go`);
    }
    if (status < 400 || status > 599) {
      throw new TransportRefused("not-http", `${host} answered with the unexpected HTTP status ${status}`);
    }
    const problem = parseProblem(status, body);
    const said = [...problem.detail].filter(isPrintable).join(""); // it may end up on a terminal
    if (problem.final) throw new ServerRefused("server-refused", `${host} refused: ${said}`);
    const waiting = status === 425 || ["campaign-paused", "all-places-taken"].includes(problem.code);
    const reason = waiting ? "not-yet" : "server-error";
    return new TryLater(reason, `${host} cannot take an answer now: ${said}`, secondsOf(retryAfter));
  }
}

/** Retry-After as seconds. Its form as a date is not used: it needs a clock that is right. */
function secondsOf(header) {
  const text = (header ?? "").trim();
  return /^[0-9]{1,9}$/.test(text) ? Number(text) : null;
}
