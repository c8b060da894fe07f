// Teaching, correcting, forgetting, and taking each of them back.

import { forget, getImage, learn, learnMany, relabel } from "./api.js";
import { counted, say } from "./dom.js";
import { parts } from "./parts.js";
import { changed, store } from "./store.js";

const AT_ONCE = 32; // samples of one request
const BYTES = 3_000_000; // of images in one request; base64 makes a third more of it
const LABEL_BYTES = 128;

const done = []; // {words, back}: the last one is undone first

/** Return a label as the service takes it; throw what is wrong with it. */
export function checkLabel(text) {
  const label = text.normalize("NFC").trim();
  if (!label) throw new Error("A label needs at least one letter.");
  if (new TextEncoder().encode(label).length > LABEL_BYTES) throw new Error("The label is too long: 128 bytes at most.");
  return label;
}

/** A new key for a sample; crypto.randomUUID is missing where the page is served without TLS. */
function newKey() {
  const numbers = crypto.getRandomValues(new Uint32Array(4));
  return `page-${[...numbers].map((number) => number.toString(36)).join("-")}`;
}

/** Teach images as labelOf(item) says; those that were taught before are corrected. */
export async function teach(given, labelOf) {
  const items = given.filter((item) => !item.teaching); // what is on its way cannot be changed yet
  const fresh = items.filter((item) => item.sample === null);
  const old = items.filter((item) => item.sample !== null && item.sample.label !== labelOf(item));
  const undo = [];
  for (const item of [...fresh, ...old]) Object.assign(item, { teaching: true, error: "" });
  changed("items");
  try {
    for (const part of parts(fresh, AT_ONCE, BYTES)) {
      const taught = await send(part, labelOf);
      part.forEach((item, place) => { item.sample = { ...taught[place], right: null }; });
      undo.push(() => untaught(part));
    }
    for (const item of old) {
      const before = item.sample.label;
      await correct(item.sample.id, labelOf(item));
      undo.push(() => correct(item.sample.id, before));
    }
  } catch (error) {
    for (const item of items) if (item.sample?.label !== labelOf(item)) item.error = error.message;
    say(`Not taught: ${error.message}`);
  }
  for (const item of items) item.teaching = false;
  const labels = new Set(items.map(labelOf));
  const as = labels.size === 1 ? `as ${[...labels][0]}` : "as answered";
  if (undo.length) remember(`${counted(fresh.length + old.length, "image")} taught ${as}`, () => all(undo.reverse()));
  changed("items");
  return undo.length > 0;
}

async function send(part, labelOf) {
  const rows = part.map((item) => ({ blob: item.blob, label: labelOf(item), key: keyOf(item, labelOf(item)) }));
  return rows.length > 1 ? learnMany(rows) : [await learn(rows[0].blob, rows[0].label, rows[0].key)];
}

/** The same key for the same attempt, so that a repetition after a lost answer teaches nothing twice. */
function keyOf(item, label) {
  if (item.attempt?.label !== label) item.attempt = { label, key: newKey() };
  return item.attempt.key;
}

async function untaught(items) {
  for (const item of items) {
    await forget(item.sample.id);
    release(item);
  }
  changed("items");
}

/** An image that is no longer taught may be taught again, which is a new attempt. */
function release(item) {
  Object.assign(item, { sample: null, attempt: null, asked: 0 });
}

async function all(steps) {
  for (const step of steps) await step();
}

/** Give a taught sample another label, here and among the images shown. */
async function correct(id, label) {
  const { seq } = await relabel(id, label);
  for (const item of store.items) if (item.sample?.id === id) Object.assign(item.sample, { label, seq });
  for (const sample of store.samples) if (sample.id === id) sample.label = label;
  changed("items", "samples");
}

/** Correct one sample of the list of taught ones. */
export async function correctSample(sample, label) {
  const before = sample.label;
  if (before === label) return;
  await correct(sample.id, label);
  remember(`${before} corrected to ${label}`, () => correct(sample.id, before));
}

/** Forget one sample. To take that back it is taught again, so its image is fetched first. */
export async function forgetSample(sample) {
  const { id, label } = sample;
  const blob = await getImage(id);
  await forget(id);
  sample.state = "forgotten";
  for (const item of store.items) if (item.sample?.id === id) release(item);
  changed("items", "samples");
  remember(`an image of ${label} forgotten`, () => learn(blob, label, newKey()));
}

function remember(words, back) {
  done.push({ words, back });
  say(`${words}.`);
  changed("undo");
}

/** What would be undone now, in words; null if there is nothing. */
export const undoable = () => done.at(-1)?.words ?? null;

/** Take back what was done last; if the service refuses, it can be tried again. */
export async function undo() {
  const last = done.at(-1);
  if (!last || last.busy) return;
  last.busy = true;
  try {
    await last.back();
    done.splice(done.indexOf(last), 1);
    say(`Undone: ${last.words}.`);
  } finally {
    last.busy = false;
    changed("undo", "samples", "items");
  }
}
