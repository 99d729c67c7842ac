// One campaign as it runs.

import { el, replace } from "../shared/dom.js";
import { follow, get, post } from "./api.js";
import { Chart, sharesChart, traceChart } from "./charts.js";
import { invitesPart } from "./invites.js";
import { save } from "./save.js";
import { count, moment, percent, quantile, range, value } from "./words.js";

/** Shows a campaign until the function it gives back is called. */
export function campaignView(place, id, trouble) {
  const view = new CampaignView(place, id, trouble);
  return () => view.end();
}

class CampaignView {
  constructor(place, id, trouble) {
    Object.assign(this, { place, id, trouble });
    this.parts = null;
    this.seen = []; // [milliseconds, heard] of the last snapshots, for the rate
    this.way = new Map(); // by reports, what was told of each snapshot: a server that restarts forgets the earlier ones
    this.note = el("p", { class: "quiet", role: "status", text: "Loading ..." });
    replace(place, el("h1", { tabindex: "-1", text: "Campaign" }), this.note);
    this.end = follow(
      `v1/campaigns/${id}/live`,
      (kind, form) => (kind === "picture" ? this.show(form) : this.lost(new Error(form.detail))),
      (error) => this.lost(error),
    );
  }

  lost(error) {
    const final = this.state === "closed" ? "Closed. These are the final numbers." : null;
    const live = "Live. Numbers lag behind by a batch, so that no single answer can be read from them.";
    if (error === null) this.note.textContent = final ?? live;
    else if (!this.trouble(error)) this.note.textContent = `${error.message} Trying again ...`;
  }

  show(form) {
    if (this.parts === null) this.build(form);
    const { parts } = this;
    this.state = form.state;
    this.lost(null);
    this.seen = [...this.seen.slice(-20), [Date.now(), form.heard]];
    replace(parts.state, el("span", { class: `state state-${form.state}`, text: form.state }));
    replace(parts.numbers, ...this.numbers(form));
    parts.bar.value = form.heard;
    for (const row of form.trace) this.way.set(row[0], row);
    const trace = [...this.way.values()].sort((one, other) => one[0] - other[0]);
    form.estimates.forEach((estimate, which) => this.estimate(parts.estimates[which], estimate, { ...form, trace }, which));
    replace(parts.alarms, ...form.alarms.map((text) => el("p", { class: "alarm", role: "alert", text })));
    parts.privacy.textContent = form.privacy;
    replace(parts.refusals, ...refusals(form));
    replace(parts.rounds, ...rounds(form.shuffle));
    for (const [name, button] of Object.entries(parts.acts)) button.hidden = !allowed(name, form.state);
    parts.invites.hidden = form.state === "closed" || form.state === "over" || form.shuffle !== null;
  }

  build(form) {
    const { manifest } = form;
    const parts = {
      state: el("span"),
      numbers: el("dl", { class: "numbers" }),
      bar: el("progress", { max: form.planned_users, value: 0, "aria-label": "Answered of planned" }),
      estimates: form.estimates.map(() => ({ value: el("p", { class: "answer" }), said: el("ul", { class: "said" }), shares: new Chart(280), trace: new Chart(220) })),
      alarms: el("div"),
      privacy: el("p"),
      refusals: el("div"),
      rounds: el("div"),
      invites: invitesPart(this.id, form.planned_users, this.trouble),
      acts: this.acts(),
    };
    this.parts = parts;
    this.said = el("p", { role: "status" });
    document.title = `${manifest.measurement} · privquant`;
    replace(
      this.place,
      el("p", { class: "crumb" }, el("a", { href: "#/", text: "Campaigns" })),
      el("h1", { tabindex: "-1", text: manifest.question }),
      el("p", {}, parts.state, ` ${manifest.measurement}, epsilon ${manifest.epsilon}, until ${moment(manifest.deadline)}`),
      this.note,
      parts.alarms,
      el("section", { class: "card", "aria-labelledby": "progress" }, el("h2", { id: "progress", text: "Progress" }), parts.numbers, parts.bar, parts.rounds),
      parts.estimates.map((each, which) => this.estimatePart(each, form.estimates[which], which)),
      el("div", { class: "columns" },
        el("section", { class: "card", "aria-labelledby": "privacy" },
          el("h2", { id: "privacy", text: "Privacy" }), parts.privacy,
          el("h2", { text: "Refused requests of devices" }), parts.refusals,
        ),
        this.liarsPart(),
      ),
      parts.invites,
      el("section", { class: "card", "aria-labelledby": "acts" },
        el("h2", { id: "acts", text: "Acts" }),
        el("p", { class: "buttons" }, Object.values(parts.acts)),
        this.said,
      ),
      el("footer", {}, el("p", {}, "Campaign ", el("code", { text: this.id })), el("p", {}, "Key ", el("code", { text: form.key_fingerprint }))),
    );
    this.place.querySelector("h1").focus();
  }

  estimatePart(parts, estimate, which) {
    return el("section", { class: "card", "aria-labelledby": `estimate-${which}` },
      el("h2", { id: `estimate-${which}`, text: quantile(estimate.quantile) }),
      parts.value,
      el("div", { class: "columns" },
        el("div", {}, el("h3", { text: "Reports and the curve through them" }), parts.shares.place),
        el("div", {}, el("h3", { text: "The search closing in" }), parts.trace.place),
      ),
      el("details", {}, el("summary", { text: "What may be said of it" }), parts.said),
    );
  }

  estimate(parts, estimate, form, which) {
    const found = range(estimate);
    const shown = estimate.value === null ? "No answer yet" : (estimate.bin ?? value(estimate.value));
    replace(parts.value, el("strong", { text: shown }), found === null ? " too few reports to give a range" : ` ${found.text}`);
    replace(parts.said, ...form.said[which].map((text) => el("li", { text: text[0].toUpperCase() + text.slice(1) })));
    if (estimate.value === null || form.drawings.length === 0) {
      parts.shares.draw(null, null, "Nothing to draw yet.");
    } else {
      sharesChart(parts.shares, form.drawings[which], estimate, found);
    }
    traceChart(parts.trace, form.trace, which);
  }

  numbers(form) {
    if (form.shuffle !== null) return this.shuffled(form);
    const line = (name, text) => el("div", {}, el("dt", { text: name }), el("dd", { text }));
    const lines = [
      line("answered", count(form.heard)),
      line(form.behind > 0 ? "in flight or new" : "in flight", count(form.asked_not_answered)),
      line("planned", count(form.planned_users)),
      line(form.open_link === null ? "invited" : "places taken", form.open_link === null ? count(form.tokens) : `${count(form.open_link.taken)} / ${count(form.open_link.places)}`),
      line("rate", this.rate()),
    ];
    if (form.pace) {
      const { waiting, at_a_time: many, wait_seconds: seconds } = form.pace;
      const long = seconds > 0 ? ` (${seconds} s)` : "";
      lines.splice(2, 0, line("waiting", `${count(waiting)}${long}`), line("at a time", count(many)));
    }
    return lines;
  }

  /** Of a shuffled campaign the server knows what was released to it, and nothing of who is on the way. */
  shuffled(form) {
    const { shuffle } = form;
    const line = (name, text) => el("div", {}, el("dt", { text: name }), el("dd", { text }));
    return [
      line("answered", count(form.heard)),
      line("planned", count(form.planned_users)),
      line("rounds filled", `${count(shuffle.counted_rounds)} of ${count(shuffle.planned_rounds)}`),
      line("rounds dropped", count(shuffle.dropped_rounds)),
      line("rate", this.rate()),
    ];
  }

  /** Answers a minute over the snapshots that this tab has seen in the last minute. */
  rate() {
    const recent = this.seen.filter(([at]) => Date.now() - at < 60_000);
    const [first, last] = [recent.at(0), recent.at(-1)];
    if (first === undefined || last[0] - first[0] < 2000) return "–";
    return `${count(Math.round((60_000 * (last[1] - first[1])) / (last[0] - first[0])))} / min`;
  }

  liarsPart() {
    const slider = el("input", { id: "liars", type: "range", min: "0", max: "20", step: "0.5", value: "1", "aria-describedby": "liars-said" });
    const shown = el("output", { for: "liars", text: "1 %" });
    const said = el("p", { id: "liars-said", "aria-live": "polite" });
    let timer;
    const ask = async () => {
      try {
        const { sentence } = await get(`v1/campaigns/${this.id}/liars?share=${Number(slider.value) / 100}`);
        said.textContent = sentence;
      } catch (error) {
        if (!this.trouble(error)) said.textContent = error.message;
      }
    };
    slider.addEventListener("input", () => {
      shown.textContent = percent(Number(slider.value) / 100);
      clearTimeout(timer);
      timer = setTimeout(ask, 150);
    });
    ask();
    return el("section", { class: "card", "aria-labelledby": "liars-title" },
      el("h2", { id: "liars-title", text: "If some lie" }),
      el("p", {}, el("label", { for: "liars", text: "Share of liars" }), slider, " ", shown),
      said,
    );
  }

  acts() {
    const button = (text, work, kind = "second") =>
      el("button", {
        type: "button",
        class: kind,
        text,
        onclick: async () => {
          try {
            this.said.textContent = (await work()) ?? "";
          } catch (error) {
            if (!this.trouble(error)) this.said.textContent = error.message;
          }
        },
      });
    const turn = (name) => async () => {
      const { state } = await post(`v1/campaigns/${this.id}/${name}`);
      return `The campaign is ${state}.`;
    };
    const room = el("a", { class: "button", href: `#/room/${this.id}`, text: "Room view" });
    return {
      room,
      pause: button("Pause", turn("pause")),
      resume: button("Resume", turn("resume")),
      close: button("Close", () => this.ask("Close the campaign? Nothing is counted any more after that, and it cannot be taken back.", turn("close"))),
      verify: button("Verify", async () => {
        const found = await get(`v1/campaigns/${this.id}/verify`);
        return found.ok ? "The log of reports agrees with counts and estimate." : "The log of reports does NOT agree with the counts.";
      }),
      export: button("Export", async () => {
        const found = await get(`v1/campaigns/${this.id}/export`);
        save(JSON.stringify(found, null, 1), `campaign-${this.id.slice(0, 8)}.json`, "application/json");
        return "Exported: manifest, counts and estimates.";
      }),
    };
  }

  /** Ask before an act that cannot be taken back. */
  ask(text, work) {
    return new Promise((resolve, reject) => {
      const dialog = el("dialog", { "aria-label": text },
        el("p", { text }),
        el("form", { method: "dialog", class: "buttons" },
          el("button", { value: "no", class: "second", text: "Cancel" }),
          el("button", { value: "yes", text: "Close it" }),
        ),
      );
      dialog.addEventListener("close", () => {
        dialog.remove();
        if (dialog.returnValue === "yes") work().then(resolve, reject);
        else resolve("");
      });
      this.place.append(dialog);
      dialog.showModal();
    });
  }
}

function allowed(name, state) {
  if (name === "pause") return state === "open";
  if (name === "resume") return state === "paused";
  if (name === "close") return state !== "closed";
  return name !== "room" || state !== "closed";
}

function refusals({ refusals: found, shuffle }) {
  if (shuffle !== null) return [el("p", { class: "quiet", text: "Devices ask the shuffler, not this server." })];
  const rows = Object.entries(found).sort((one, other) => other[1] - one[1]);
  if (rows.length === 0) return [el("p", { class: "quiet", text: "None to tell of since the server's start." })];
  return [
    el("ul", { class: "plain" }, rows.map(([reason, many]) => el("li", { text: `${reason}: ${count(many)}` }))),
    el("p", { class: "quiet", text: "Of this campaign since the server's start, told in batches like the answers." }),
  ];
}

/** What a shuffled campaign waits for, and each of its rounds; nothing for another. */
function rounds(shuffle) {
  if (shuffle === null) return [];
  const head = ["Round", "State", "Needed", "Reports", "Opened"].map((text) => el("th", { scope: "col", text }));
  const rows = shuffle.rounds.map((row) =>
    el("tr", {},
      el("td", { class: "number", text: count(row.round) }),
      el("td", { text: row.extended ? `${row.state}, extended` : row.state }),
      ...[row.needed, row.reports, row.opened].map((many) => el("td", { class: "number", text: count(many ?? 0) })),
    ),
  );
  return [
    el("p", { text: `${shuffle.standing}. Invites come from the shuffler at ${shuffle.shuffler}.` }),
    el("details", {},
      el("summary", { text: "Rounds" }),
      el("div", { class: "wide", tabindex: "0", role: "region", "aria-label": "Rounds" }, el("table", {}, el("thead", {}, el("tr", {}, head)), el("tbody", {}, rows))),
    ),
  ];
}
