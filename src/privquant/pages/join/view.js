// The join page as it looks in each state of `Answering`.

import { Coin } from "../../js/src/coin.js";
import { typedCode } from "../../js/src/form.js";
import { el, marked, replace } from "../shared/dom.js";
import { readValue } from "./numbers.js";

const MUCH = 2; // an epsilon above this protects so little that the page asks before it answers

export class JoinView {
  /** campaignState: what the server says of the campaign; own: the part of the page about programs of one's own. */
  constructor({ place, title, campaignState, own, onAnswer, onCode, onHurry }) {
    Object.assign(this, { place, title, campaignState, own, onAnswer, onCode, onHurry });
    this.typed = "";
    this.shown = null;
    this.ticking = null;
  }

  speak(words, numbers) {
    Object.assign(this, { words, numbers });
    if (this.shown !== null) this.show(this.shown);
  }

  show(state) {
    const before = this.shown?.state;
    this.shown = state;
    clearInterval(this.ticking);
    const { manifest } = state;
    const now = el("section", { class: "card", id: "now", "aria-labelledby": "now-title" }, this.#now(state));
    replace(
      this.place,
      el("h1", { text: manifest?.question ?? this.title }),
      manifest === null ? null : el("p", { class: "lead" }, marked(this.words.lead)),
      manifest === null ? null : el("p", { class: "quiet", text: this.#campaignState(manifest) }),
      now,
      manifest === null ? null : this.#tells(manifest),
      this.#trust(),
      manifest === null ? null : this.#names(manifest),
    );
    // Whoever does not see the page hears where it has come to: the new part's title is read. A page that has just
    // been opened is read from its top.
    const opened = before === undefined || before === "looking" || state.state === "looking";
    if (!opened && before !== state.state) now.querySelector("h2").focus();
  }

  #now(state) {
    switch (state.state) {
      case "looking":
        return [this.#title(this.words.looking)];
      case "asking":
        return this.#form(state);
      case "coding":
        return this.#coding(state);
      case "sending":
        return this.#sending(state);
      case "waiting":
        return this.#waiting(state);
      case "answered":
        return this.#answered(state);
      default:
        return this.#refused(state);
    }
  }

  #title(text) {
    return el("h2", { id: "now-title", tabindex: "-1", text });
  }

  #form({ manifest }) {
    const { form } = this.words;
    const { domain, epsilon } = manifest;
    const input = field("value", { inputmode: "edges" in domain ? "decimal" : "numeric" });
    input.value = this.typed;
    input.addEventListener("input", () => {
      this.typed = input.value;
    });
    const fault = el("p", { class: "fault", id: "value-fault", role: "alert" });
    const agreed = el("input", { id: "agreed", type: "checkbox" });
    const truth = this.numbers.share(1 - new Coin(manifest.flipThreshold).flip);
    const { shuffle } = manifest;
    const agreement = shuffle ? form.trusting(shuffle.address, truth) : form.consent(epsilon, truth);
    const consent =
      shuffle || epsilon > MUCH
        ? el("p", { class: "consent" }, agreed, el("label", { for: "agreed", text: agreement }))
        : null;
    const submit = (event) => {
      event.preventDefault();
      const read = readValue(input.value, domain);
      const wrong = consent !== null && !agreed.checked ? "consent" : null;
      const name = read.fault ?? wrong;
      input.setAttribute("aria-invalid", String(read.fault !== undefined));
      if (name !== null && name !== undefined) {
        const text = form.faults[name];
        fault.textContent = typeof text === "function" ? text(this.#value(read.value)) : text;
        (read.fault === undefined ? agreed : input).focus();
        return;
      }
      this.typed = "";
      this.onAnswer(read.value);
    };
    const hint =
      "edges" in domain
        ? form.real(this.numbers.whole(domain.size))
        : form.whole(this.numbers.whole(domain.low), this.numbers.whole(domain.high));
    return [
      this.#title(form.title),
      el(
        "form",
        { onsubmit: submit, novalidate: true },
        el("label", { for: "value", text: form.label }),
        input,
        el("p", { class: "hint", id: "value-hint", text: `${hint} ${form.stays}` }),
        consent,
        fault,
        el("button", { type: "submit", text: form.send }),
      ),
    ];
  }

  /** The code that an open link may need; the number that was typed waits for it. */
  #coding({ wrong }) {
    const { coding } = this.words;
    const input = field("code");
    const fault = el("p", { class: "fault", id: "code-fault", role: "alert", text: wrong ? coding.wrong : "" });
    const submit = (event) => {
      event.preventDefault();
      try {
        typedCode(input.value);
      } catch {
        input.setAttribute("aria-invalid", "true");
        fault.textContent = coding.malformed;
        input.focus();
        return;
      }
      this.onCode(input.value);
    };
    return [
      this.#title(coding.title),
      el(
        "form",
        { onsubmit: submit, novalidate: true },
        el("label", { for: "code", text: coding.label }),
        input,
        el("p", { class: "hint", id: "code-hint", text: coding.hint }),
        fault,
        el("button", { type: "submit", text: coding.send }),
      ),
    ];
  }

  #sending({ sent, code }) {
    const { sending, waiting } = this.words;
    if (code in waiting) return [this.#title(waiting.title), el("p", { role: "status", text: waiting[code] }), el("p", { text: waiting.self })];
    if (sent === null) return [this.#title(sending.title), el("p", { role: "status", text: sending.asking })];
    const { bit } = JSON.parse(sent);
    if (bit === undefined) return [this.#title(sending.title), el("p", { role: "status", text: sending.sealed })];
    return [
      this.#title(sending.title),
      el("p", { role: "status", text: sending.says(`${bit} (${sending.bit[bit]})`) }),
      el("p", { class: "bit", "aria-hidden": "true", text: bit }),
    ];
  }

  #waiting({ until, reason, code, drawn }) {
    const { waiting, seconds } = this.words;
    const names = { "ledger-busy": "busy", unreachable: "lost", deadline: "lost", "not-yet": "not-yet" };
    const why = waiting[code] ?? waiting[names[reason] ?? "trouble"];
    const left = el("p", { class: "countdown" });
    const tick = () => {
      left.textContent = waiting.next(seconds(Math.max(0, Math.round((until - Date.now()) / 1000))));
    };
    tick();
    this.ticking = setInterval(tick, 1000);
    return [
      this.#title(waiting.title),
      el("p", { role: "status", text: why }),
      left,
      el("p", { text: `${waiting.self} ${drawn ? waiting.drawn : waiting.undrawn}` }),
      el("button", { type: "button", class: "second", onclick: this.onHurry, text: waiting.now }),
    ];
  }

  #answered({ receipt, sent }) {
    const { answered, sending } = this.words;
    const line = (name, value, kind = "span") => [el("dt", { text: name }), el("dd", {}, el(kind, { text: value }))];
    const now = receipt.status !== "answered before";
    return [
      this.#title(now ? answered.title : answered.before),
      el("p", { class: "bit", "aria-hidden": "true", text: receipt.bit }),
      el("p", { text: answered.asked(this.#value(receipt.asked)) }),
      el("p", { role: "status" }, marked(answered.sent(`${sending.bit[receipt.bit]} (${receipt.bit})`))),
      el("p", { text: `${answered.secret} ${answered.once}` }),
      el(
        "details",
        { open: now },
        el("summary", { text: answered.receipt }),
        el(
          "dl",
          {},
          line(answered.status, answered.statuses[receipt.status]),
          line(answered.about, receipt.measurement),
          line(answered.epsilon, this.numbers.short(receipt.epsilon, 4)),
          line(answered.total, answered.spent(this.#decimal(receipt.spent), this.#decimal(receipt.lifetime))),
          line(answered.campaign, receipt.campaign, "code"),
          sent === null ? null : line(answered.bytes, sent, "code"),
        ),
      ),
    ];
  }

  #refused({ reason, code, text }) {
    const { refused } = this.words;
    const ledger = reason.startsWith("ledger-") ? "ledger" : reason;
    const said = reason === "server-refused" ? refused.codes[code] : refused.reasons[ledger];
    return [
      this.#title(this.shown.sent === null ? refused.title : refused.after),
      el("p", { role: "alert", text: said ?? refused.reasons.other }),
      el("p", { class: "quiet" }, `${refused.why} `, el("q", { lang: "en", text })),
    ];
  }

  #tells(manifest) {
    const { tells } = this.words;
    const coin = new Coin(manifest.flipThreshold);
    const flip = this.numbers.share(coin.flip);
    const truth = this.numbers.share(1 - coin.flip);
    const [first, second, third] = tells.steps;
    const bar = el(
      "div",
      { class: "bar", role: "img", "aria-label": tells.bar(truth, flip) },
      el("span", { class: "bar-truth", text: `${tells.truth} ${truth}` }),
      el("span", { class: "bar-flip", text: `${tells.flip} ${flip}` }),
    );
    bar.style.setProperty("--flip", `${Math.max(100 * coin.flip, 0)}%`);
    return el(
      "section",
      { class: "card", "aria-labelledby": "tells" },
      el("h2", { id: "tells", text: tells.title }),
      el(
        "ol",
        {},
        el("li", {}, marked(first)),
        el("li", {}, marked(manifest.shuffle ? tells.shuffled.coin(flip) : second(flip))),
        manifest.shuffle ? el("li", {}, marked(tells.shuffled.mixed(manifest.shuffle.address))) : null,
        el("li", {}, marked(third(this.numbers.whole(manifest.plannedUsers), this.#wanted(manifest)))),
      ),
      bar,
      el("p", { text: this.#promise(manifest, coin) }),
      el("p", { class: "quiet", text: tells.once }),
    );
  }

  /** What whoever gets hold of the bit can make of it. */
  #promise({ epsilon, shuffle }, coin) {
    const { tells } = this.words;
    const odds = (each) => this.numbers.short(Math.exp(each));
    const said = this.numbers.short(epsilon, 4);
    if (!shuffle) return tells.odds(odds(coin.epsilon), said);
    const least = this.numbers.whole(Math.min(...shuffle.rounds.map(({ batch }) => batch)));
    return tells.shuffled.odds(least, odds(epsilon), said, shuffle.delta.toExponential(0), odds(coin.epsilon));
  }

  #trust() {
    const { trust } = this.words;
    return el(
      "section",
      { class: "more" },
      el("details", {}, el("summary", { text: trust.title }), trust.text.map((text) => el("p", { text }))),
      el("details", { lang: "en" }, el("summary", { lang: this.numbers.language, text: trust.own }), this.own),
    );
  }

  #names(manifest) {
    const line = (name, value) => el("p", {}, `${name} `, el("code", { text: value }));
    return el("footer", {}, line(this.words.campaign, manifest.id), line(this.words.key, manifest.issuer));
  }

  #wanted({ quantiles }) {
    const names = quantiles.map((q) => (q === 0.5 ? this.words.median : this.words.quantile(this.numbers.short(q))));
    const last = names.pop();
    return names.length === 0 ? last : `${names.join(", ")}${this.words.and}${last}`;
  }

  #campaignState({ opens, deadline }) {
    const { state } = this.words;
    const now = Date.now() / 1000;
    if (this.campaignState === "closed") return state.closed;
    if (now >= deadline) return state.over(this.numbers.moment(deadline));
    if (now < opens) return state.soon(this.numbers.moment(opens));
    return this.campaignState === "paused" ? state.paused : state.open(this.numbers.moment(deadline));
  }

  #value(value) {
    return value === Infinity ? "∞" : this.numbers.whole(value);
  }

  /** A decimal that is exact, of which the first digits are enough for a reader. */
  #decimal(text) {
    return this.numbers.short(Number(text), 4);
  }
}

/** A field that keeps what is typed as it is typed, described by the hint and the fault of the same name. */
function field(id, attributes = {}) {
  return el("input", {
    id,
    type: "text",
    autocomplete: "off",
    autocapitalize: "off",
    spellcheck: "false",
    required: true,
    "aria-describedby": `${id}-hint ${id}-fault`,
    ...attributes,
  });
}
