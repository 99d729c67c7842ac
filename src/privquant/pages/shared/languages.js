// Which language a page speaks. To add one: write join/words-xx.js beside the others and a line below.

const LANGUAGES = new Map([
  ["en", "English"],
  ["de", "Deutsch"],
]);
const KEPT = "privquant language";

/** The language somebody chose on this page before, else the first the browser prefers that there is, else English. */
export function chosen(preferred = navigator.languages) {
  const codes = [kept(), ...preferred.map((each) => each.slice(0, 2).toLowerCase())];
  return codes.find((code) => LANGUAGES.has(code)) ?? "en";
}

export function choose(code) {
  try {
    sessionStorage.setItem(KEPT, code);
  } catch {
    // a browser that stores nothing forgets the choice
  }
}

export function all() {
  return [...LANGUAGES];
}

function kept() {
  try {
    return sessionStorage.getItem(KEPT);
  } catch {
    return null;
  }
}
