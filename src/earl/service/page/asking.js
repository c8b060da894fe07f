// Answers about the images shown: asked when they come, and again when something has been learned.

import { predict } from "./api.js";
import { parts } from "./parts.js";
import { changed, store } from "./store.js";

const AT_ONCE = 8; // images of one question
const BYTES = 900_000; // of one question
const KEYS = 6; // labels that have a number key
const AHEAD = 8; // images after the current one whose answers are kept fresh

let busy = false;
let again = false;

/** Ask about images, in parts that the service takes. */
export async function askAbout(items, { neighbours = false } = {}) {
  for (const part of parts(items, AT_ONCE, BYTES)) {
    try {
      const { model_seq: seq, answers } = await predict(part.map((item) => item.blob), { neighbours, top: KEYS });
      part.forEach((item, place) => Object.assign(item, {
        answer: answers[place], asked: seq, explained: neighbours, silence: "", state: "answered",
      }));
      store.newest = Math.max(store.newest, seq);
    } catch (error) {
      const nothing = error.status === 409; // nothing has been taught yet
      for (const item of part) {
        Object.assign(item, { asked: store.newest, explained: true, state: nothing ? "nothing" : "unanswered" });
        if (nothing) item.answer = null;
        item.silence = nothing ? "" : error.message;
      }
    }
    changed("items");
  }
}

/** Bring the answers a person looks at up to what has been learned; one round at a time. */
export async function refreshAnswers() {
  again = true;
  if (busy) return;
  busy = true;
  while (again) {
    again = false;
    const current = store.selected.size === 1 ? store.current : null;
    if (current && (stale(current) || !current.explained)) {
      await askAbout([current], { neighbours: true });
    }
    await askAbout(ahead().filter((item) => item !== current && stale(item)));
  }
  busy = false;
}

const stale = (item) => item.asked < store.newest || item.asked === 0;

function ahead() {
  const place = Math.max(0, store.items.indexOf(store.current));
  const open = (item) => item.sample === null;
  return [...store.items.slice(place), ...store.items.slice(0, place)].filter(open).slice(0, AHEAD);
}

/** How near an image is to the class it is nearest to, as a cosine: 1 at the class. */
export const nearness = (item) => 1 - item.answer.unknown;

/** The label that is answered; null if the image is too far from all classes. */
export const answered = (item) => (item.answer && nearness(item) >= store.doubt ? item.answer.label : null);

/** Return the labels for the number keys: the likeliest for one image, or for several together. */
export function likeliest(items, most = KEYS) {
  const sums = new Map();
  for (const item of items) {
    for (const { label, p } of item.answer?.probabilities ?? []) sums.set(label, (sums.get(label) ?? 0) + p / items.length);
  }
  // Before there are answers, or when classes are few, every known label still has its key.
  for (const { label } of store.classes.slice(0, most)) if (!sums.has(label)) sums.set(label, 0);
  return [...sums].map(([label, p]) => ({ label, p })).sort((a, b) => b.p - a.p).slice(0, most);
}
