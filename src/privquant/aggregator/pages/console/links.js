// Open links made in this tab. The server keeps only their hashes, so a link that is not here must be made anew.

import { postForText, post } from "./api.js";

const made = new Map();

export function linkOf(campaign) {
  return made.get(campaign) ?? null;
}

export async function makeLink(campaign, places) {
  const { invite } = await post(`v1/campaigns/${campaign}/link`, { places });
  made.set(campaign, invite);
  return invite;
}

/** The address that shows the link's code to a room, for anybody to open. */
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

/** The code of an invite as an SVG element. */
export async function codeOf(invite) {
  const text = await postForText("v1/qr", { invite });
  return document.importNode(new DOMParser().parseFromString(text, "image/svg+xml").documentElement, true);
}
