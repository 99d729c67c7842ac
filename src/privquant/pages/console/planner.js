// The planner beside the form: of people, epsilon and accuracy two are given and the third is found, live and in words.

import { el, replace } from "../shared/dom.js";
import { post } from "./api.js";
import { Chart, planChart } from "./charts.js";
import { count } from "./words.js";

const SOLVED = [
  ["alpha", "the accuracy"],
  ["users", "the people"],
  ["epsilon", "the epsilon"],
];
const PAUSE = 250; // milliseconds without a change before the server is asked

export class PlannerPart {
  /** take: called with a field's name and the value that was found for it, when the operator takes it over. */
  constructor(trouble, take) {
    Object.assign(this, { trouble, take });
    this.known = null;
    this.asked = 0;
    this.solve = el("select", { id: "solve" }, SOLVED.map(([name, text]) => el("option", { value: name, text })));
    this.alpha = el("input", { id: "alpha", type: "range", min: "0.5", max: "15", step: "0.5", value: "3" });
    this.alphaShown = el("output", { for: "alpha" });
    this.accuracy = el("p", {}, el("label", { for: "alpha", text: "Accuracy wanted" }), this.alpha, " ", this.alphaShown);
    this.confidence = el("select", { id: "confidence" }, ["0.8", "0.9", "0.95", "0.99"].map((c) => el("option", { value: c, selected: c === "0.95", text: `${Math.round(100 * c)} % of collections` })));
    this.verdict = el("p", { class: "verdict", "aria-live": "polite" });
    this.more = el("div");
    this.chart = new Chart(220);
    this.place = el("section", { class: "card", "aria-labelledby": "plan" },
      el("h2", { id: "plan", text: "What it can reach" }),
      el("div", { class: "pair" },
        el("p", {}, el("label", { for: "solve", text: "Find" }), this.solve),
        el("p", {}, el("label", { for: "confidence", text: "Kept in" }), this.confidence),
      ),
      this.accuracy,
      this.verdict,
      this.more,
      this.chart.place,
    );
    this.place.addEventListener("input", () => this.ask(this.known));
    this.#label();
  }

  /** Plan with what the form says: {size, users, epsilon, quantile}, or null where it says nothing to plan with. */
  ask(known) {
    this.known = known;
    this.#label();
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.#ask(), PAUSE);
  }

  #label() {
    this.accuracy.hidden = this.solve.value === "alpha";
    this.alphaShown.textContent = `within ${this.alpha.value} percentile points`;
  }

  async #ask() {
    if (this.known === null) return;
    const { size, users, epsilon, quantile } = this.known;
    const form = { size, quantile, confidence: Number(this.confidence.value) };
    const given = { users, epsilon, alpha: Number(this.alpha.value) / 100 };
    delete given[this.solve.value];
    const turn = (this.asked += 1);
    try {
      const found = await post("v1/plan", { ...form, ...given });
      if (turn === this.asked) this.#show(found, { ...given, ...form });
    } catch (error) {
      if (!this.trouble(error)) this.verdict.textContent = error.message;
    }
  }

  #show(found, given) {
    this.verdict.textContent = found.verdict;
    const taken = { users: (v) => Math.ceil(v), epsilon: (v) => Number(v.toPrecision(3)) }[found.missing];
    const button =
      taken === undefined || found.value === null
        ? null
        : el("button", { type: "button", class: "second", text: `Take ${found.missing === "users" ? count(taken(found.value)) : taken(found.value)}`, onclick: () => this.take(found.missing, taken(found.value)) });
    replace(this.more, button, ...found.warnings.map((text) => el("p", { class: "warning", text })), el("p", { class: "quiet", text: found.poisoning }));
    planChart(this.chart, found.curve, given.users ?? found.value ?? 0);
  }
}
