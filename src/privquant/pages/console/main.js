// The console: signs in, and shows the view that stands after the # of its address.

import { el, replace } from "../shared/dom.js";
import { NotAllowed, get, signIn, signOut, signedIn } from "./api.js";
import { campaignView } from "./campaign.js";
import { createView } from "./create.js";
import { listView } from "./list.js";
import { roomView } from "./room.js";

const place = document.querySelector("#app");
const top = document.querySelector("#top");
let leave = () => {};

const VIEWS = [
  [/^#\/campaign\/([0-9a-f]{64})$/, campaignView],
  [/^#\/room\/([0-9a-f]{64})$/, roomView],
  [/^#\/new$/, createView],
  [/^(?:#\/)?$/, listView],
];

/** Show the view of the address; each gives back what ends it. */
function show() {
  leave();
  leave = () => {};
  document.body.classList.toggle("is-room", location.hash.startsWith("#/room/"));
  if (!signedIn()) return signInView();
  bar();
  for (const [pattern, view] of VIEWS) {
    const found = pattern.exec(location.hash);
    if (found === null) continue;
    leave = view(place, ...found.slice(1), trouble) ?? (() => {});
    place.querySelector("h1")?.focus();
    return undefined;
  }
  location.hash = "#/";
  return undefined;
}

function bar() {
  const out = () => {
    signOut();
    show();
  };
  replace(
    top,
    el("nav", { "aria-label": "Console" },
      el("a", { href: "#/", class: "brand", text: "privquant" }),
      el("a", { href: "#/new", text: "New campaign" }),
      el("button", { type: "button", class: "second", onclick: out, text: "Sign out" }),
    ),
  );
}

/** A token that is no longer known leads back to the form; any other trouble is for the view to show. */
function trouble(error) {
  if (!(error instanceof NotAllowed)) return false;
  signOut();
  show();
  return true;
}

function signInView() {
  const field = el("input", { id: "token", type: "password", autocomplete: "off", required: true, "aria-describedby": "token-hint token-fault" });
  const fault = el("p", { class: "fault", id: "token-fault", role: "alert" });
  const enter = async (event) => {
    event.preventDefault();
    signIn(field.value.trim());
    try {
      await get("v1/campaigns");
      show();
    } catch (error) {
      signOut();
      fault.textContent = error instanceof NotAllowed ? "The server does not know this token." : error.message;
      field.focus();
    }
  };
  replace(top);
  replace(
    place,
    el("h1", { text: "Console" }),
    el("form", { class: "card narrow", onsubmit: enter },
      el("label", { for: "token", text: "Operator's token" }),
      field,
      el("p", { class: "hint", id: "token-hint" }, "From ", el("code", { text: "privquant operator add NAME" }), ". It is kept in this tab's memory and forgotten when the tab is closed or loaded again."),
      fault,
      el("button", { type: "submit", text: "Sign in" }),
    ),
  );
  field.focus();
}

// A link may bring the token along after the #, which no browser sends; it is taken out of the address at once.
const brought = /^#token=(pqo_[A-Za-z0-9_-]+)(?:&to=(\/[a-z0-9/]*))?$/.exec(location.hash);
if (brought !== null) {
  signIn(brought[1]);
  history.replaceState(null, "", `#${brought[2] ?? "/"}`);
}
addEventListener("hashchange", show);
show();
