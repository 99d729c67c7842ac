// Invites: a URL that names a campaign, its issuer's key, and a secret that is never sent as part of a URL.
//
// The path has the campaign's id; the fragment, which no client sends, has the one-time token (or the secret of an
// open link) and the fingerprint of the issuer's key. The address is read by a grammar of its own and not by the
// platform's URL reader, which repairs what it is given.

import { WireError, shown } from "./errors.js";
import { checkCode, checkHash, checkToken, typedCode } from "./form.js";

export const LOOPBACK = new Set(["localhost", "127.0.0.1", "::1"]);

const ADDRESS = /^(https?):\/\/(\[[0-9a-f:.]+\]|[a-z0-9._~-]+)(?::([0-9]{1,5}))?((?:\/[^/?#\\ ]+)*)$/i;

/** Where a server listens: https://host:port/prefix. */
export class Origin {
  constructor(base) {
    const parts = ADDRESS.exec(base);
    if (parts === null) {
      throw new WireError(
        "an invite's address is https://host[:port][/path] without user, query or closing slash, " +
          `got ${shown(base, 80)}`,
      );
    }
    const [, scheme, host, port, prefix] = parts;
    this.secure = scheme.toLowerCase() === "https";
    this.host = host.replace(/^\[|\]$/g, "").toLowerCase();
    this.port = port === undefined ? (this.secure ? 443 : 80) : Number(port);
    if (this.port < 1 || this.port > 65535) throw new WireError(`an invite's port is 1 to 65535, got ${port}`);
    this.prefix = prefix;
    Object.freeze(this);
  }

  /** Whether the server is this machine itself. */
  get local() {
    return LOOPBACK.has(this.host);
  }

  /** The host and, unless it is the scheme's own, the port: what the Host header says. */
  get authority() {
    const name = this.host.includes(":") ? `[${this.host}]` : this.host;
    return this.port === (this.secure ? 443 : 80) ? name : `${name}:${this.port}`;
  }

  url(path) {
    return `${this.secure ? "https" : "http"}://${this.authority}${this.prefix}${path}`;
  }
}

/**
 * Where to answer, and the trust anchor. Exactly one of `token` and `link` is given, the other is null; an open link may
 * need a `code`, which is part of the address or told apart from it.
 */
export class Invite {
  constructor({ base, campaignId, keyFingerprint, token = null, link = null, code = null }) {
    this.base = base;
    this.origin = new Origin(base);
    this.campaignId = checkHash(campaignId, "campaign id");
    if (typeof keyFingerprint !== "string" || !/^[0-9a-f]{32}$/.test(keyFingerprint)) {
      throw new WireError("a key fingerprint is 32 lower-case hex digits");
    }
    this.keyFingerprint = keyFingerprint;
    if ((token === null) === (link === null)) {
      throw new WireError("an invite has either a token or an open link's secret");
    }
    checkToken(token ?? link);
    this.token = token;
    this.link = link;
    if (code !== null && link === null) {
      throw new WireError("a code belongs to an open link; an invite with a token of its own has none");
    }
    this.code = code === null ? null : checkCode(code);
    Object.freeze(this);
  }

  /** The invite with the code that was told apart from it, as it was typed. */
  withCode(typed) {
    return new Invite({ ...this, code: typedCode(typed) });
  }

  static parse(url) {
    if (typeof url !== "string" || url.length > 2000 || !/^[ -~]*$/.test(url)) {
      throw new WireError("an invite is a URL of at most 2000 printable ASCII characters");
    }
    const text = url.trim();
    const mark = text.indexOf("#");
    const cut = text.slice(0, Math.max(mark, 0)).lastIndexOf("/c/");
    if (mark < 0 || cut < 1) {
      throw new WireError("an invite has the form https://host/c/<campaign>#t=<token>&k=<fingerprint>");
    }
    const found = new Map();
    for (const part of text.slice(mark + 1).split("&")) {
      const equals = part.indexOf("=");
      const name = equals < 0 ? part : part.slice(0, equals);
      if (!["t", "l", "k", "c"].includes(name) || found.has(name)) {
        throw new WireError(`unknown or repeated part ${shown(name, 20)} in an invite; it has t or l, k, maybe c`);
      }
      found.set(name, equals < 0 ? "" : part.slice(equals + 1));
    }
    return new Invite({
      base: text.slice(0, cut),
      campaignId: text.slice(cut + 3, mark),
      keyFingerprint: found.get("k"),
      token: found.get("t") ?? null,
      link: found.get("l") ?? null,
      code: found.get("c") ?? null,
    });
  }
}
