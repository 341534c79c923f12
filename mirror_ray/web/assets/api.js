// The way to the gateway: a stream of snapshots, queries, and commands, with a token where there is one.

const KEY = "mirror-ray-token";
const AGAIN_MS = 2000;

/** The gateway does not know the token that it was asked with, or wants one. */
export class Unknown extends Error {
  /** @param {string} message @param {string} asked */
  constructor(message, asked) {
    super(message);
    this.asked = asked;
  }
}

export const token = () => sessionStorage.getItem(KEY) ?? "";

/** Keeps a token, or forgets it where there is none; what is followed is followed by the new one. @param {string} value */
export function keep(value) {
  if (value) sessionStorage.setItem(KEY, value);
  else sessionStorage.removeItem(KEY);
  follow.stop?.abort();
}

const known = () => (token() ? { Authorization: `Bearer ${token()}` } : {});

/** Forgets the token that was refused, unless another one is kept by now; whether it was that one. @param {Unknown} error */
export function forget(error) {
  if (error.asked !== token()) return false;
  if (token()) keep("");
  return true;
}

async function parsed(answer, asked) {
  const body = await answer.json();
  if (answer.ok) return body;
  throw answer.status === 401 ? new Unknown(body.error, asked) : new Error(body.error);
}

/** @param {string} path */
export async function get(path) {
  const asked = token();
  return parsed(await fetch(path, { headers: known() }), asked);
}

/** The first of many rows, and how many there are. @param {string} path */
export async function page(path) {
  const asked = token();
  const answer = await fetch(path, { headers: known() });
  return { rows: await parsed(answer, asked), total: Number(answer.headers.get("Mirror-Ray-Total")) };
}

/** @param {string} name @param {object} body */
export async function act(name, body) {
  const asked = token();
  return parsed(await fetch(`/api/v1/${name}`, {
    method: "POST",
    headers: { "Content-Type": "application/json", ...known() },
    body: JSON.stringify(body),
  }), asked);
}

/**
 * Call `show` with each new snapshot, and with null when the gateway can't be reached; `locked` when it wants a token.
 * Connects again by itself, and at once when another token is kept.
 * @param {(snapshot: any|null) => void} show @param {(error: Unknown) => void} locked
 */
export async function follow(show, locked) {
  let last = "";
  for (;;) {
    follow.stop = new AbortController();
    const { signal } = follow.stop;
    const asked = token();
    try {
      // An EventSource can't carry a token.
      const answer = await fetch("/api/v1/stream", { headers: { ...known(), ...(last && { "Last-Event-ID": last }) }, signal });
      if (!answer.ok) await parsed(answer, asked);
      for await (const frame of frames(answer.body)) {
        last = frame.id ?? last;
        show(JSON.parse(frame.data));
      }
      show(null);
    } catch (error) {
      if (error instanceof Unknown) locked(error);
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
    const parts = (text + value).split("\n\n");
    text = parts.pop();
    for (const part of parts) yield Object.fromEntries(part.split("\n").map((line) => line.split(/: (.*)/s)));
  }
}
