// A text as a file of the reader's.

import { el } from "../shared/dom.js";

export function save(text, name, kind) {
  const address = URL.createObjectURL(new Blob([text], { type: kind }));
  el("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}
