// Elements without markup in strings: whatever a text holds, it stays a text.

/**
 * An element with attributes and children. An attribute that is null or false is left out, `on...` is a listener and
 * `text` a shorthand for one child. Children that are null are left out.
 */
export function el(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "text") made.append(String(value));
    else if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else made.setAttribute(name, value === true ? "" : String(value));
  }
  made.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return made;
}

/** A sentence with marked words: "with a chance of **26.9 %**" is a text, a <strong> and so on. */
export function marked(text) {
  return text.split("**").map((part, k) => (k % 2 === 0 ? part : el("strong", { text: part })));
}

export function replace(place, ...children) {
  place.replaceChildren(...children.flat().filter((child) => child !== null && child !== undefined));
}
