// From what a person typed to the number the question is about, or the name of what is wrong with it.

/**
 * The typed text as a value of the domain: {value} or {fault}, "empty", "no-number", "no-whole-number" or "outside"
 * (with the value it would be taken as). A comma is a decimal point where there is only one and no point.
 */
export function readValue(text, domain) {
  const typed = text.trim().replace(/^[-−]/, "-").replace(/[\s'’\u202f]/g, "");
  if (typed === "") return { fault: "empty" };
  return "edges" in domain ? real(typed) : whole(typed, domain);
}

function whole(typed, domain) {
  if (!/^[+-]?[0-9]{1,40}$/.test(typed)) {
    return { fault: /^[+-]?[0-9]+[.,][0-9]+$/.test(typed) ? "no-whole-number" : "no-number" };
  }
  const value = BigInt(typed);
  if (value < domain.low) return { fault: "outside", value: domain.low };
  return value > domain.high ? { fault: "outside", value: domain.high } : { value };
}

function real(typed) {
  const text = typed.includes(".") ? typed : typed.replace(",", ".");
  if (!/^[+-]?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]{1,3})?$/.test(text)) return { fault: "no-number" };
  const value = Number(text);
  return Number.isFinite(value) ? { value } : { fault: "no-number" };
}
