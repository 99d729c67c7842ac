// The device's transport, watched: the page shows what leaves it because it sees the very requests.

import { FetchTransport } from "../../js/src/browser.js";

const TYPE = "urn:privquant:problem:";

/** Sends as the device's own transport does, and tells `seen` of each request, and of each that failed, by its code. */
export class WatchedTransport extends FetchTransport {
  constructor(seen) {
    super();
    this.seen = seen;
  }

  async send(origin, request) {
    this.seen({ what: request.path.split("/").at(-1), body: textOf(request.body) });
    try {
      const answer = await super.send(origin, request);
      if (answer.status >= 400) this.seen({ failed: codeOf(answer.body) });
      return answer;
    } catch (error) {
      this.seen({ failed: "lost" });
      throw error;
    }
  }
}

function textOf(body) {
  return body === null ? "" : new TextDecoder().decode(body);
}

function codeOf(body) {
  try {
    const { type } = JSON.parse(textOf(body));
    return String(type).startsWith(TYPE) ? String(type).slice(TYPE.length) : "";
  } catch {
    return ""; // a proxy's refusal has any form
  }
}
