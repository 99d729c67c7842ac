// The operator's API. The token lives in this variable and nowhere else: a page that is loaded again asks for it again.

let token = null;

export class NotAllowed extends Error {}

/** What the server said no with. */
export class Refusal extends Error {}

export function signIn(given) {
  token = given;
}

export function signedIn() {
  return token !== null;
}

export function signOut() {
  token = null;
}

async function send(method, path, form, more = {}) {
  let answer;
  try {
    answer = await fetch(path, {
      method,
      body: form === undefined ? undefined : JSON.stringify(form),
      headers: { Authorization: `Bearer ${token}`, ...(form === undefined ? {} : { "Content-Type": "application/json" }) },
      credentials: "omit",
      referrerPolicy: "no-referrer",
      cache: "no-store",
      ...more,
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refusal("The server cannot be reached.", { cause: error });
  }
  if (answer.ok) return answer;
  const said = await answer.json().catch(() => ({}));
  const Kind = answer.status === 401 ? NotAllowed : Refusal;
  throw new Kind(said.detail ?? `The server answered with status ${answer.status}.`);
}

export async function get(path) {
  return (await send("GET", path)).json();
}

export async function post(path, form = {}) {
  return (await send("POST", path, form)).json();
}

export async function postForText(path, form) {
  return (await send("POST", path, form)).text();
}

/**
 * Server-sent events by fetch, since an EventSource cannot send a token. Calls `tell` with the kind and the data of each
 * event, and `lost` with an error or null whenever the connection goes or comes; begins again by itself. Returns a
 * function that ends it.
 */
export function follow(path, tell, lost) {
  const end = new AbortController();
  (async () => {
    for (let failures = 0; !end.signal.aborted; failures += 1) {
      try {
        const answer = await send("GET", path, undefined, { signal: end.signal });
        lost(null);
        failures = 0;
        await events(answer.body, tell);
      } catch (error) {
        if (end.signal.aborted) return;
        lost(error);
        if (error instanceof NotAllowed) return;
      }
      await new Promise((resolve) => setTimeout(resolve, Math.min(10_000, 500 * 2 ** failures)));
    }
  })();
  return () => end.abort();
}

async function events(body, tell) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let kept = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const parts = (kept + value).split("\n\n");
    kept = parts.pop();
    for (const part of parts) {
      const lines = part.split("\n");
      const of = (name) => lines.find((line) => line.startsWith(`${name}: `))?.slice(name.length + 2);
      if (of("data") !== undefined) tell(of("event"), JSON.parse(of("data")));
    }
  }
}
