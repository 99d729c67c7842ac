// The room view: for a projector. A code to scan, how many have answered, and the answer when there are enough.

import { el, replace } from "../shared/dom.js";
import { follow } from "./api.js";
import { codeText, codedBox, linkOf, makeLink, outOfReach, qrOf } from "./links.js";
import { count, quantile, range, value } from "./words.js";

export function roomView(place, id, trouble) {
  const title = el("h1", { tabindex: "-1", text: "Room" });
  const code = el("div", { class: "room-code" });
  const number = el("p", { class: "room-count", role: "status" });
  const answers = el("div", { class: "room-answers", "aria-live": "polite" });
  const note = el("p", { class: "quiet" });
  const lag = el("p", { class: "quiet", text: "The numbers run behind by a batch of answers, so that nobody can read a single answer from this screen." });
  replace(place,
    el("p", { class: "crumb" }, el("a", { href: `#/campaign/${id}`, text: "Back to the campaign" })),
    title,
    el("div", { class: "room-columns" }, code, el("div", {}, number, answers, lag, note)),
  );
  let planned = 0;
  const draw = async () => {
    const link = linkOf(id);
    if (link === null) return replace(code, ask());
    const { invite, code: typed } = link;
    const hint = outOfReach(invite);
    return replace(code,
      el("div", { class: "qr", role: "img", "aria-label": "QR code to answer" }, await qrOf(invite)),
      typed === null ? null : el("p", { class: "room-typed" }, "Code: ", el("strong", { class: "code", text: codeText(typed) })),
      el("p", {}, el("a", { href: invite, target: "_blank", rel: "noreferrer", text: "Answer on this device" })),
      hint === null ? null : el("p", { class: "quiet", text: hint }),
    );
  };
  const failed = (error) => {
    if (!trouble(error)) note.textContent = error.message;
  };
  const ask = () => {
    const places = el("input", { id: "places", type: "number", min: "1", required: true, value: Math.max(1, planned) });
    const [coded, codedLine] = codedBox();
    const make = (event) => {
      event.preventDefault();
      makeLink(id, Number(places.value), coded.checked).then(draw).catch(failed);
    };
    return el("form", { class: "card", onsubmit: make },
      el("p", {}, el("label", { for: "places", text: "Places of the link" }), places),
      codedLine,
      el("button", { type: "submit", text: "Make a link for the room" }),
      el("p", { class: "quiet", text: "A link made here is known to this tab alone. A new one replaces the old." }),
    );
  };
  const show = (kind, form) => {
    if (kind !== "picture") return failed(new Error(form.detail));
    if (planned === 0) {
      planned = form.planned_users;
      if (form.shuffle === null) draw().catch(failed);
      else replace(code, el("p", { text: `People are invited by the shuffler at ${form.shuffle.shuffler}: "privquant shuffler link" there.` }));
    }
    note.textContent = "";
    title.textContent = form.manifest.question;
    number.textContent = `${count(form.heard)} of ${count(form.planned_users)} answered`;
    return replace(answers, form.estimates.map(answer));
  };
  return follow(`v1/campaigns/${id}/live`, show, (error) => error !== null && failed(error));
}

/** The answer with its range; without a range there are too few to show one. */
function answer(estimate) {
  const found = estimate.value === null ? null : range(estimate);
  const name = el("h2", { text: quantile(estimate.quantile) });
  if (found === null) return el("section", {}, name, el("p", { text: "Shown when enough have answered." }));
  return el("section", {}, name, el("p", { class: "room-answer", text: estimate.bin ?? value(estimate.value) }), el("p", { text: `typically ${found.text}` }));
}
