// The way to the gateway: a stream of pictures, questions, and acts with a token.

const KEY = "mirror-ray-token";

/** @param {string} path */
export async function get(path) {
  const answer = await fetch(path);
  const body = await answer.json();
  if (!answer.ok) throw new Error(body.error);
  return body;
}

/** @param {string} name @param {object} body */
export async function act(name, body) {
  const answer = await fetch(`/api/v1/${name}`, {
    method: "POST",
    headers: { "Content-Type": "application/json", Authorization: `Bearer ${token()}` },
    body: JSON.stringify(body),
  });
  const told = await answer.json();
  if (!answer.ok) throw new Error(told.error);
  return told;
}

export const token = () => sessionStorage.getItem(KEY) ?? "";
export const keep = (value) => (value ? sessionStorage.setItem(KEY, value) : sessionStorage.removeItem(KEY));

/**
 * Call `show` with each new picture, and with null when the gateway can't be reached. The browser connects again by itself.
 * @param {(picture: any|null) => void} show
 */
export function follow(show) {
  const source = new EventSource("/api/v1/stream");
  source.addEventListener("picture", (message) => show(JSON.parse(message.data)));
  source.addEventListener("error", () => show(null));
}
