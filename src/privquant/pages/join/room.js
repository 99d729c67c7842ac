// The page for a room: a code to scan, for an open link that stands after the # and is sent nowhere but to be drawn.

import { Coin, Device, Invite } from "../../js/src/browser.js";
import { chosen } from "../shared/languages.js";
import { el, replace } from "../shared/dom.js";
import { lookOnly } from "./policy.js";
import { Numbers } from "./numbers.js";
import words from "./room-words.js";

const place = document.querySelector("#app");

/** The invite of `/join#c=<campaign>&l=<secret>&k=<fingerprint>`; null where there is none. */
function invite() {
  const { c, ...rest } = Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
  const base = location.href.replace(/\/join.*$/, "");
  try {
    return Invite.parse(`${base}/c/${c}#l=${rest.l}&k=${rest.k}`) && `${base}/c/${c}#l=${rest.l}&k=${rest.k}`;
  } catch {
    return null;
  }
}

async function show() {
  const code = chosen();
  document.documentElement.lang = code;
  const room = words[code];
  const address = invite();
  document.querySelector("#plain").remove();
  place.hidden = false;
  if (address === null) return replace(place, el("h1", { text: room.title }), el("p", { text: room.none }));
  const manifest = await new Device(lookOnly()).campaign(address);
  const drawn = await fetch("join/qr", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ invite: address }),
    credentials: "omit",
  });
  if (!drawn.ok) throw new Error(room.failed);
  const picture = new DOMParser().parseFromString(await drawn.text(), "image/svg+xml").documentElement;
  const flip = new Numbers(code).share(new Coin(manifest.flipThreshold).flip);
  return replace(
    place,
    el("h1", { text: manifest.question }),
    el("p", { class: "lead", text: room.title }),
    el("div", { class: "qr", role: "img", "aria-label": room.code }, document.importNode(picture, true)),
    el("p", { text: room.text }),
    el("p", { text: room.flip(flip) }),
    el("p", {}, el("a", { class: "button", href: address, text: room.here })),
  );
}

addEventListener("hashchange", () => location.reload());
show().catch((error) => replace(place, el("h1", { text: document.title }), el("p", { role: "alert", text: error.message })));
