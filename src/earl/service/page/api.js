// The service's routes, and its refusals in plain words.

const ROOT = new URL("../", import.meta.url); // where the page lies, also behind a proxy's prefix
const KEPT = "earl-token";
const TRIES = 6; // when the service asks to come again later

let token = "";
let onSignedOut = () => {};

/** What the service, or the way to it, refused; the message is for people. */
export class Refused extends Error {
  constructor(status, message, wait = 0) {
    super(message);
    this.status = status;
    this.wait = wait;
  }
}

/** Take the token of the link, out of the address bar too, or the one this tab has kept. */
export function findToken() {
  const given = new URLSearchParams(location.hash.slice(1)).get("token");
  if (given) {
    history.replaceState(null, "", location.pathname + location.search);
    keepToken(given);
  } else token = sessionStorage.getItem(KEPT) ?? "";
  return token;
}

export function keepToken(given) {
  token = given.trim();
  if (token) sessionStorage.setItem(KEPT, token);
  else sessionStorage.removeItem(KEPT);
}

export function whenSignedOut(listener) {
  onSignedOut = listener;
}

const WORDS = {
  0: "The service cannot be reached. Is it still running?",
  401: "The service does not know this token.",
  403: "This token may not do that.",
  404: "The service has no such sample any more.",
  413: "The image is too large for the service.",
  429: "The service has more to learn than it can take at the moment. Try again shortly.",
  503: "The service cannot write to its disk, so nothing was taught.",
  507: "The service has no room left for more samples.",
};

async function refusal(answer) {
  const said = await answer.json().catch(() => ({}));
  const words = WORDS[answer.status];
  const detail = typeof said.detail === "string" && answer.status !== 401 ? sentence(said.detail) : "";
  const message = [words, detail].filter(Boolean).join(" ") || `The service answered ${answer.status}.`;
  return new Refused(answer.status, message, Number(answer.headers.get("Retry-After")) || 1);
}

const sentence = (text) => text && text[0].toUpperCase() + text.slice(1) + (text.endsWith(".") ? "" : ".");

/** Ask the service; what is not a success is thrown as Refused. */
export async function ask(path, options = {}) {
  const headers = { ...options.headers, ...(token ? { Authorization: `Bearer ${token}` } : {}) };
  let answer;
  try {
    answer = await fetch(new URL(path, ROOT), { cache: "no-store", ...options, headers });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refused(0, WORDS[0]);
  }
  if (answer.ok) return answer;
  const refused = await refusal(answer);
  if (answer.status === 401) onSignedOut(refused.message);
  throw refused;
}

/** Ask again while the service says that it is only busy. */
async function patiently(path, options) {
  for (let tries = 1; ; tries += 1) {
    try {
      return await (await ask(path, options)).json();
    } catch (error) {
      if (error.status !== 429 || tries === TRIES) throw error;
      await new Promise((done) => setTimeout(done, 1000 * Math.min(error.wait, 10)));
    }
  }
}

const json = async (path) => (await ask(path)).json();

export const getStatus = () => json("status");
export const getClasses = async () => (await json("classes")).classes;

export async function getSamples({ label = null, limit = 10 } = {}) {
  const query = new URLSearchParams({ limit, ...(label === null ? {} : { label }) });
  return (await json(`samples?${query}`)).samples;
}

export const getImage = async (id) => (await ask(`samples/${id}/image`)).blob();

/** Return the answers about images, and as of which seq. */
export async function predict(blobs, { neighbours = false, top = 5 } = {}) {
  const body = new FormData();
  for (const blob of blobs) body.append("image", blob, "image");
  const query = new URLSearchParams({ top, neighbours });
  return patiently(`predict?${query}`, { method: "POST", body });
}

/** Teach one image. The key makes a repetition after a broken connection harmless. */
export function learn(blob, label, key) {
  const body = new FormData();
  body.append("image", blob, "image");
  body.append("label", label);
  body.append("source", "page");
  return patiently("learn", { method: "POST", body, headers: { "Idempotency-Key": key } });
}

/** Teach images, each given as {blob, label, key}: all of them or none. */
export async function learnMany(given) {
  const samples = await Promise.all(given.map(async ({ blob, label, key }) => (
    { image: await base64(blob), label, key, source: "page" })));
  const headers = { "Content-Type": "application/json" };
  const options = { method: "POST", headers, body: JSON.stringify({ samples }) };
  return (await patiently("learn/batch", options)).accepted;
}

export function relabel(id, label) {
  const headers = { "Content-Type": "application/json" };
  return patiently(`samples/${id}`, { method: "PATCH", headers, body: JSON.stringify({ label }) });
}

export const forget = (id) => patiently(`samples/${id}`, { method: "DELETE" });

function base64(blob) {
  return new Promise((done, failed) => {
    const reader = new FileReader();
    reader.onload = () => done(reader.result.slice(reader.result.indexOf(",") + 1));
    reader.onerror = () => failed(new Refused(0, "The image could not be read."));
    reader.readAsDataURL(blob);
  });
}
