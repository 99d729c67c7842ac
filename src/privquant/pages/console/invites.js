// Handing out invites: one-time ones as a file, or one open link with its QR code.

import { el, replace } from "../shared/dom.js";
import { postForText } from "./api.js";
import { codeText, codedBox, linkOf, makeLink, outOfReach, qrOf, roomAddress } from "./links.js";
import { save } from "./save.js";

/** The part of a campaign's view about invites. planned: how many people it was planned for. */
export function invitesPart(campaign, planned, trouble) {
  const fault = el("p", { class: "fault", role: "alert" });
  const shown = el("div");
  const guarded = (work) => async (event) => {
    event.preventDefault();
    fault.textContent = "";
    try {
      await work();
    } catch (error) {
      if (!trouble(error)) fault.textContent = error.message;
    }
  };
  const many = number("invites", planned);
  const places = number("places", planned);
  const [coded, codedLine] = codedBox();
  const file = guarded(async () => {
    const text = await postForText(`v1/campaigns/${campaign}/invites`, { count: Number(many.value) });
    save(text, `invites-${campaign.slice(0, 8)}.csv`, "text/csv");
  });
  const link = guarded(async () => {
    await makeLink(campaign, Number(places.value), coded.checked);
    await show();
  });
  const show = async () => {
    const made = linkOf(campaign);
    if (made === null) return;
    const { invite, code } = made;
    const hint = outOfReach(invite);
    replace(
      shown,
      el("div", { class: "qr small", role: "img", "aria-label": "QR code of the open link" }, await qrOf(invite)),
      code === null ? null : el("p", {}, "Code to type: ", el("strong", { class: "code", text: codeText(code) })),
      hint === null ? null : el("p", { class: "quiet", text: hint }),
      el("p", {}, el("label", { for: "link", text: "Open link" }), el("input", { id: "link", type: "text", readonly: true, value: invite })),
      el("p", {},
        el("a", { class: "button", href: invite, target: "_blank", rel: "noreferrer", text: "Answer here" }), " ",
        el("a", { class: "button second", href: roomAddress(invite), target: "_blank", rel: "noreferrer", text: "Page with the QR code" }),
      ),
    );
  };
  show();
  return el("section", { class: "card", "aria-labelledby": "invites-title" },
    el("h2", { id: "invites-title", text: "Invite people" }),
    el("form", { class: "line", onsubmit: file },
      el("p", {}, el("label", { for: "invites", text: "One-time invites" }), many),
      el("button", { type: "submit", class: "second", text: "Download CSV" }),
    ),
    el("form", { class: "line", onsubmit: link },
      el("p", {}, el("label", { for: "places", text: "Link for a room, places" }), places),
      codedLine,
      el("button", { type: "submit", class: "second", text: "Make the link" }),
    ),
    el("p", { class: "quiet", text: "One open link a campaign: a new one replaces the old, places taken stay taken. An open link cannot prevent that somebody answers from several browsers; one-time invites do." }),
    fault,
    shown,
  );
}

function number(id, value) {
  return el("input", { id, type: "number", min: "1", max: "100000", required: true, value: Math.min(value, 100000) });
}
