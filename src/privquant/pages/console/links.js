// Open links made in this tab. The server keeps only their hashes, so a link that is not here must be made anew.

import { el } from "../shared/dom.js";
import { postForText, post } from "./api.js";

const made = new Map();

/** {invite, code} of the link this tab has made for a campaign; code is null where none is needed. */
export function linkOf(campaign) {
  return made.get(campaign) ?? null;
}

/** coded: it needs a code that is typed beside it, so that the address alone can be passed around. */
export async function makeLink(campaign, places, coded) {
  const { invite, code } = await post(`v1/campaigns/${campaign}/link`, { places, code: coded });
  made.set(campaign, { invite, code: code ?? null });
}

/** A code as it is read out and written on a wall: two groups of four. */
export function codeText(code) {
  return `${code.slice(0, 4)}-${code.slice(4)}`;
}

/** The box that asks for a link with a code, and the line it stands in. */
export function codedBox() {
  const box = el("input", { id: "coded", type: "checkbox" });
  const label = el("label", { for: "coded", text: "People must also type a code that I tell them" });
  return [box, el("p", { class: "consent" }, box, label)];
}

/** The address that shows the link's QR code to a room, for anybody to open. */
export function roomAddress(invite) {
  const [address, fragment] = invite.split("#");
  const cut = address.lastIndexOf("/c/");
  return `${address.slice(0, cut)}/join#c=${address.slice(cut + 3)}&${fragment}`;
}

/** Why a phone could not open this link, in a sentence; null if it can. */
export function outOfReach(invite) {
  const { protocol, hostname } = new URL(invite);
  if (["localhost", "127.0.0.1", "[::1]"].includes(hostname)) {
    return "This address is of this machine alone. For phones start the server with --public-url https://...";
  }
  if (protocol !== "https:") {
    return "Over plain http browsers withhold cryptography. For phones start the server with --public-url https://...";
  }
  return null;
}

/** The QR code of an invite as an SVG element. */
export async function qrOf(invite) {
  const text = await postForText("v1/qr", { invite });
  return document.importNode(new DOMParser().parseFromString(text, "image/svg+xml").documentElement, true);
}
