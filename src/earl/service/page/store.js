// What the page knows, in one place; parts of the page watch what they show.

export const store = {
  status: null, // as of /status
  classes: [], // as of /classes, in order of arrival
  samples: [], // taught last, newest first
  listed: 10, // how many of them are asked for
  filter: null, // a label, if only its samples are listed
  newest: 0, // the seq of the newest model that is known of
  items: [], // images shown; `take` in intake.js makes them
  selected: new Set(), // of items; teaching acts on these
  current: null, // the item the arrow keys go on from
  doubt: 0, // an image whose nearness to every class is below this is called unknown; app.js decides
  several: false, // a press adds to the selection
};

const watchers = [];
const waiting = new Set();

/** Call `show` after any of the named facts has changed. */
export function watch(names, show) {
  watchers.push([names, show]);
}

/** Say that a fact has changed; several in one turn of events are shown once. */
export function changed(...names) {
  if (waiting.size === 0) queueMicrotask(showAll);
  for (const name of names) waiting.add(name);
}

function showAll() {
  const names = new Set(waiting);
  waiting.clear();
  for (const [wanted, show] of watchers) if (wanted.some((name) => names.has(name))) show();
}

/** The images teaching acts on, in the order in which they lie. */
export const chosen = () => store.items.filter((item) => store.selected.has(item));

/** Select these images only; the first of them is the current one unless another is named. */
export function select(items, current = items[0] ?? null) {
  store.selected = new Set(items);
  store.current = current;
  changed("selection");
}

/** Go on to the next image that has not been taught, if there is one. */
export function advance() {
  const place = store.items.indexOf(store.current);
  const order = [...store.items.slice(place + 1), ...store.items.slice(0, place + 1)];
  const next = order.find((item) => item.sample === null && !item.teaching) ?? store.current;
  if (next) select([next]);
}

/** Put images away and give their memory back. */
export function putAway(items) {
  const gone = new Set(items);
  const place = store.items.findIndex((item) => gone.has(item));
  for (const item of gone) URL.revokeObjectURL(item.url);
  store.items = store.items.filter((item) => !gone.has(item));
  const next = store.items[Math.min(place, store.items.length - 1)];
  select(next ? [next] : []);
  changed("items");
}
