// HTTP for Node: one request, one answer, bounded in bytes and in time, and the same bytes as the Python device's.
//
// It promises, whatever the other side does: an end (the clock runs over the whole request, not over single reads), a
// bound (the body limit and 64 KiB of headers), no detour (no redirects, no proxy of the environment, no cookies) and
// no header that tells devices apart. Connections are kept open and used again until close().

import http from "node:http";
import https from "node:https";

import { TransportRefused, TryLater } from "./refusals.js";
import { MEDIA, tooLarge } from "./transport-fetch.js";

const HEADER_ALLOWANCE = 64 << 10;
const CERTIFICATE = /^(CERT_|UNABLE_TO_|SELF_SIGNED_|DEPTH_ZERO_|ERR_TLS_CERT_|HOSTNAME_MISMATCH|INVALID_CA)/;

export class NodeTransport {
  /** tls: options for https as node:tls takes them, e.g. {ca}. Certificates are always checked. */
  constructor({ tls = {} } = {}) {
    this.plain = new http.Agent({ keepAlive: true });
    this.secure = new https.Agent({ ...tls, keepAlive: true, rejectUnauthorized: true });
  }

  /** Close all connections. */
  close() {
    this.plain.destroy();
    this.secure.destroy();
  }

  /** As FetchTransport.send. A kept connection that the server closed meanwhile is replaced: no request hurts twice. */
  async send(origin, request) {
    const end = performance.now() + 1000 * request.seconds;
    for (;;) {
      const exchange = new Exchange(origin, request, end, origin.secure ? this.secure : this.plain);
      try {
        return await exchange.run();
      } catch (error) {
        const failure = refusalOf(error, origin);
        if (failure.reason !== "unreachable" || !exchange.kept) throw failure;
      }
    }
  }
}

/** One request over one connection. */
class Exchange {
  constructor(origin, { method, path, body, limit }, end, agent) {
    const { host, port, prefix } = origin;
    const options = { host, port, method, agent, path: prefix + path, maxHeaderSize: HEADER_ALLOWANCE };
    this.request = (origin.secure ? https : http).request({ ...options, headers: headersOf(origin, body) });
    this.request.removeHeader("Connection"); // HTTP/1.1 keeps connections without being told
    Object.assign(this, { origin, body, limit, end });
  }

  /** Whether the request went over a connection that an earlier one had opened. */
  get kept() {
    return this.request.reusedSocket;
  }

  run() {
    return new Promise((resolve, reject) => {
      const { request } = this;
      const fail = (error) => {
        clearTimeout(timer);
        reject(error);
        request.destroy();
      };
      const late = () => fail(new TryLater("deadline", `${this.origin.host} did not answer in time`));
      const timer = setTimeout(late, Math.max(0, this.end - performance.now()));
      // Provisional answers (1xx) cost bytes too and would otherwise go on for ever.
      let before = 0;
      const count = () => {
        if (request.socket.bytesRead - before > HEADER_ALLOWANCE + this.limit) fail(tooLarge(this.limit));
      };
      request.once("socket", (socket) => {
        before = socket.bytesRead;
      });
      request.on("continue", count);
      request.on("information", count);
      request.on("error", fail);
      request.once("upgrade", (answer) => fail(notHttp(this.origin, `status ${answer.statusCode}`)));
      request.once("response", (answer) => {
        this.read(answer, fail, (response) => {
          clearTimeout(timer);
          resolve(response);
        });
      });
      request.end(this.body ?? undefined);
    });
  }

  read(answer, fail, done) {
    if (answer.statusCode < 100) fail(notHttp(this.origin, `status ${answer.statusCode}`));
    if (Number(answer.headers["content-length"]) > this.limit) fail(tooLarge(this.limit));
    const parts = [];
    let length = 0;
    answer.on("data", (part) => {
      length += part.length;
      if (length > this.limit) fail(tooLarge(this.limit));
      else parts.push(part);
    });
    answer.on("error", fail);
    answer.once("end", () => {
      const retryAfter = answer.headers["retry-after"] ?? null;
      done({ status: answer.statusCode, retryAfter, body: new Uint8Array(Buffer.concat(parts)) });
    });
  }
}

/** In the order of the Python device, so that an onlooker cannot tell the two apart. */
function headersOf(origin, body) {
  const headers = { Host: origin.authority, "Accept-Encoding": "identity" };
  if (body === null) return { ...headers, Accept: MEDIA };
  return { ...headers, "Content-Length": body.length, Accept: MEDIA, "Content-Type": MEDIA };
}

function notHttp(origin, what, cause) {
  return new TransportRefused("not-http", `${origin.host} does not speak HTTP: ${what}`, { cause });
}

/** What a fault of the connection means. */
function refusalOf(error, origin) {
  if (error instanceof TransportRefused || error instanceof TryLater) return error;
  const code = String(error.code ?? "");
  const cause = { cause: error };
  if (code === "HPE_HEADER_OVERFLOW") {
    return new TransportRefused("too-large", "the server sent more header bytes than are allowed", cause);
  }
  if (code.startsWith("HPE_") && code !== "HPE_INVALID_EOF_STATE") return notHttp(origin, code, error);
  if (CERTIFICATE.test(code)) {
    return new TransportRefused("insecure", `${origin.host} has no valid certificate: ${error.message}`, cause);
  }
  if (code === "ECONNREFUSED") {
    return new TryLater("unreachable", `nothing listens at ${origin.host}:${origin.port}`, null, cause);
  }
  if (code === "ECONNRESET") {
    return new TryLater("unreachable", `${origin.host} broke the connection off`, null, cause);
  }
  return new TryLater("unreachable", `${origin.host} cannot be reached: ${code || error.message}`, null, cause);
}
