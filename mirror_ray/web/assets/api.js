// The way to the gateway: a stream of pictures, questions, and acts, with a token where there is one.

const KEY = "mirror-ray-token";
const AGAIN_MS = 2000;

/** The gateway does not know the token, or wants one. */
export class Unknown extends Error {}

export const token = () => sessionStorage.getItem(KEY) ?? "";

/** Keeps a token, or forgets it where there is none; what is followed is followed by the new one. @param {string} value */
export function keep(value) {
  if (value) sessionStorage.setItem(KEY, value);
  else sessionStorage.removeItem(KEY);
  follow.stop?.abort();
}

const known = () => (token() ? { Authorization: `Bearer ${token()}` } : {});

async function told(answer) {
  const body = await answer.json();
  if (answer.ok) return body;
  throw answer.status === 401 ? new Unknown(body.error) : new Error(body.error);
}

/** @param {string} path */
export const get = async (path) => told(await fetch(path, { headers: known() }));

/** @param {string} name @param {object} body */
export async function act(name, body) {
  return told(await fetch(`/api/v1/${name}`, {
    method: "POST",
    headers: { "Content-Type": "application/json", ...known() },
    body: JSON.stringify(body),
  }));
}

/**
 * Call `show` with each new picture, and with null when the gateway can't be reached; `locked` when it wants a token.
 * Connects again by itself, and at once when another token is kept.
 * @param {(picture: any|null) => void} show @param {() => void} locked
 */
export async function follow(show, locked) {
  let last = "";
  for (;;) {
    follow.stop = new AbortController();
    const { signal } = follow.stop;
    try {
      // An EventSource can't carry a token.
      const answer = await fetch("/api/v1/stream", { headers: { ...known(), ...(last && { "Last-Event-ID": last }) }, signal });
      if (!answer.ok) await told(answer);
      for await (const frame of frames(answer.body)) {
        last = frame.id ?? last;
        show(JSON.parse(frame.data));
      }
      show(null);
    } catch (error) {
      if (error instanceof Unknown) locked();
      else if (!signal.aborted) show(null);
    }
    await pause(signal);
  }
}

/** Waits a moment; no longer than until another token is kept. */
function pause(signal) {
  return new Promise((done) => {
    if (signal.aborted) return done();
    const timer = setTimeout(done, AGAIN_MS);
    signal.addEventListener("abort", () => { clearTimeout(timer); done(); });
  });
}

/** The fields of each server-sent event. */
async function* frames(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const whole = (text + value).split("\n\n");
    text = whole.pop();
    for (const each of whole) yield Object.fromEntries(each.split("\n").map((line) => line.split(/: (.*)/s)));
  }
}
