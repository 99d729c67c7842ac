// The device's transport, watched: the page shows what leaves it because it sees the very requests.

import { parseProblem } from "../../js/src/exchange.js";
import { FetchTransport } from "../../js/src/transport-fetch.js";

/** Sends as the device's own transport does, and tells `seen` of each request, and of each that failed, by its code. */
export class WatchedTransport extends FetchTransport {
  constructor(seen) {
    super();
    this.seen = seen;
  }

  async send(origin, request) {
    const body = request.body === null ? "" : new TextDecoder().decode(request.body);
    this.seen({ what: request.path.split("/").at(-1), body });
    try {
      const answer = await super.send(origin, request);
      if (answer.status >= 400) this.seen({ failed: parseProblem(answer.status, answer.body).code });
      return answer;
    } catch (error) {
      this.seen({ failed: "lost" });
      throw error;
    }
  }
}
