// The join page: an invite opened in a browser. Without script the page below it stays as it is.

import { whatIsMissing } from "../../js/src/platform.js";
import { all, choose, chosen } from "../shared/languages.js";
import { el, replace } from "../shared/dom.js";
import { Answering } from "./answering.js";
import { Numbers } from "./numbers.js";
import { JoinView } from "./view.js";

const plain = document.querySelector("#plain");
const top = document.querySelector("#top");
const answering = new Answering(location.href, (state) => view.show(state));
const view = new JoinView({
  place: document.querySelector("#app"),
  title: document.querySelector("h1").textContent,
  campaignState: document.body.dataset.state,
  own: document.querySelector("#own"),
  onAnswer: (value) => answering.answer(value),
  onCode: (typed) => answering.withCode(typed),
  onHurry: () => answering.hurry(),
});

async function speak(code) {
  const { default: words } = await import(`./words-${code}.js`);
  document.documentElement.lang = code;
  const buttons = all().map(([each, name]) =>
    el("button", {
      type: "button",
      lang: each,
      text: name,
      "aria-pressed": String(each === code),
      onclick: () => {
        choose(each);
        speak(each);
      },
    }),
  );
  replace(top, el("div", { class: "languages", role: "group", "aria-label": words.languages }, buttons));
  view.speak(words, new Numbers(code));
}

async function begin() {
  await speak(chosen());
  plain.remove();
  document.querySelector("#app").hidden = false;
  const missing = await whatIsMissing();
  if (missing === null) return answering.begin();
  return view.show({ state: "refused", manifest: null, sent: null, code: "", reason: "platform", text: missing });
}

addEventListener("online", () => answering.hurry());
addEventListener("hashchange", () => location.reload()); // another invite pasted into the same tab
begin();
