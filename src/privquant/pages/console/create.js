// A new campaign, with what it can reach beside the form.

import { el, replace } from "../shared/dom.js";
import { post } from "./api.js";
import { PlannerPart } from "./planner.js";

const DAY = 86_400;

export function createView(place, trouble) {
  const fields = {};
  const line = (name, label, attributes, hint = null) => {
    fields[name] = el("input", { id: name, name, type: "text", required: true, "aria-describedby": hint === null ? null : `${name}-hint`, ...attributes });
    return el("p", {}, el("label", { for: name, text: label }), fields[name], hint === null ? null : el("span", { class: "hint", id: `${name}-hint`, text: hint }));
  };
  const fault = el("p", { class: "fault", role: "alert" });
  const planner = new PlannerPart(trouble, (name, value) => {
    fields[name].value = value;
    planner.ask(known());
  });
  const whole = { type: "number", step: "1" };
  const form = el("form", { class: "card", onsubmit: submit },
    line("question", "Question", { maxlength: "500", placeholder: "How long is your way to work, in minutes?" }),
    line("measurement", "Measurement", { pattern: "[a-z0-9][a-z0-9._\\-]{0,99}", placeholder: "commute-minutes" }, "The name by which a device remembers what it answered: a-z 0-9 . _ -"),
    el("div", { class: "pair" },
      line("low", "Smallest value", { ...whole, value: "0" }),
      line("high", "Largest value", { ...whole, value: "600" }),
    ),
    el("div", { class: "pair" },
      line("users", "People", { ...whole, min: "1", value: "1000" }),
      line("epsilon", "Epsilon", { type: "number", step: "any", min: "0.000000001", max: "50", value: "1" }, "Privacy of each answer; smaller is more private."),
    ),
    el("div", { class: "pair" },
      line("quantiles", "Quantiles", { value: "0.5" }, "0.5 is the median; several with commas."),
      line("days", "Days until the deadline", { type: "number", step: "any", min: "0.01", value: "30" }),
    ),
    fault,
    el("button", { type: "submit", text: "Publish the campaign" }),
    el("p", { class: "quiet", text: "A published campaign cannot be changed by anyone: its id is its hash, and it is signed." }),
  );
  replace(place,
    el("p", { class: "crumb" }, el("a", { href: "#/", text: "Campaigns" })),
    el("h1", { tabindex: "-1", text: "New campaign" }),
    el("div", { class: "columns" }, form, planner.place),
  );
  form.addEventListener("input", () => planner.ask(known()));
  planner.ask(known());

  /** What the form says so far, as the planner takes it; null while it cannot be planned with. */
  function known() {
    const size = 1 + Number(fields.high.value) - Number(fields.low.value);
    const first = quantiles()[0];
    const form = { size, users: Number(fields.users.value), epsilon: Number(fields.epsilon.value), quantile: first };
    const right = size >= 2 && Number.isSafeInteger(size) && form.users >= 1 && form.epsilon > 0 && first > 0 && first < 1;
    return right ? form : null;
  }

  function quantiles() {
    return fields.quantiles.value.split(",").map(Number);
  }

  async function submit(event) {
    event.preventDefault();
    fault.textContent = "";
    const now = Math.floor(Date.now() / 1000);
    try {
      const { id } = await post("v1/campaigns", {
        question: fields.question.value.trim(),
        measurement: fields.measurement.value.trim(),
        domain: { kind: "integers", low: fields.low.value, high: fields.high.value },
        epsilon: Number(fields.epsilon.value),
        planned_users: Number(fields.users.value),
        quantiles: quantiles(),
        opens: now,
        deadline: now + Math.max(60, Math.round(DAY * Number(fields.days.value))),
      });
      location.hash = `#/campaign/${id}`;
    } catch (error) {
      if (!trouble(error)) fault.textContent = error.message;
    }
  }
}
