// All campaigns, newest news first.

import { el, replace } from "../shared/dom.js";
import { get } from "./api.js";
import { count, moment } from "./words.js";

const EVERY = 3000; // milliseconds

export function listView(place, trouble) {
  const body = el("tbody");
  const note = el("p", { class: "quiet", role: "status", text: "Loading ..." });
  const table = el("table", { hidden: true },
    el("thead", {}, el("tr", {}, ...["Measurement", "State", "Answered", "Planned", "Deadline"].map((name) => el("th", { scope: "col", text: name })))),
    body,
  );
  replace(
    place,
    el("h1", { tabindex: "-1", text: "Campaigns" }),
    note,
    el("div", { class: "wide", tabindex: "0", role: "region", "aria-label": "Campaigns" }, table),
    el("p", {}, el("a", { class: "button", href: "#/new", text: "New campaign" })),
  );
  let ended = false;
  const look = async () => {
    try {
      const lines = await get("v1/campaigns");
      if (ended) return;
      table.hidden = lines.length === 0;
      note.textContent = lines.length === 0 ? "There are no campaigns yet." : "Numbers lag behind by a batch, so that no single answer can be read from them.";
      replace(body, lines.toReversed().map(row));
    } catch (error) {
      if (ended || trouble(error)) return;
      note.textContent = error.message;
    }
  };
  look();
  const timer = setInterval(look, EVERY);
  return () => {
    ended = true;
    clearInterval(timer);
  };
}

function row({ id, measurement, state, heard, planned_users: planned, deadline }) {
  return el("tr", {},
    el("td", {}, el("a", { href: `#/campaign/${id}`, text: measurement }), " ", el("code", { class: "quiet", text: id.slice(0, 8) })),
    el("td", {}, el("span", { class: `state state-${state}`, text: state })),
    el("td", { class: "number", text: count(heard) }),
    el("td", { class: "number", text: count(planned) }),
    el("td", { text: moment(deadline) }),
  );
}
