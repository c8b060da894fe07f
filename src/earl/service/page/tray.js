// The images shown, as a list from which some are selected; teaching acts on the selection.

import { bar, byId, counted, make } from "./dom.js";
import { answered, refreshAnswers } from "./asking.js";
import { changed, chosen, putAway, select, store, watch } from "./store.js";

const shown = new Map(); // item -> its option
let anchor = null; // where a selection with Shift begins

export function openTray() {
  const tray = byId("tray");
  tray.addEventListener("click", (event) => press(event, itemAt(event.target)));
  tray.addEventListener("keydown", onTrayKey);
  watch(["items", "selection"], show);
}

const itemAt = (element) => [...shown].find(([, option]) => option.contains(element))?.[0] ?? null;
const untaught = () => store.items.filter((item) => item.sample === null);
const between = (a, b) => {
  const [from, to] = [store.items.indexOf(a), store.items.indexOf(b)].sort((x, y) => x - y);
  return store.items.slice(Math.max(0, from), to + 1);
};

function press(event, item) {
  if (!item) return;
  if (event.shiftKey && anchor) select(between(anchor, item), item);
  else if (event.ctrlKey || event.metaKey || store.several) toggle(item);
  else select([item]);
  if (!event.shiftKey) anchor = item;
  shown.get(item)?.focus();
  refreshAnswers();
}

function toggle(item) {
  const rest = chosen().filter((other) => other !== item);
  select(store.selected.has(item) && rest.length ? rest : [...rest, item], item);
}

/** Keys of the list: move, select, put away, go to the label. */
export function onTrayKey(event) {
  const step = { ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1 }[event.key];
  const ends = { Home: store.items[0], End: store.items.at(-1) };
  const item = ends[event.key] ?? store.items[store.items.indexOf(store.current) + step];
  if (item) {
    event.preventDefault();
    if (event.shiftKey) select(between(anchor ?? store.current, item), item);
    else {
      anchor = item;
      select([item]);
    }
    focusCurrent();
    refreshAnswers();
  } else if (event.key === " ") {
    event.preventDefault();
    toggle(store.current);
  } else if (event.key === "Enter") {
    event.preventDefault();
    byId("label")?.focus();
  } else if (event.key === "Delete" || event.key === "Backspace") {
    event.preventDefault();
    putAway(chosen());
    focusCurrent();
  } else if (event.key.toLowerCase() === "a" && (event.ctrlKey || event.metaKey)) {
    event.preventDefault();
    selectAll();
  }
}

/** Put the focus on the current image; it is drawn in the next turn of events. */
export function focusCurrent() {
  queueMicrotask(() => (shown.get(store.current) ?? byId("choose")).focus());
}

function selectAll() {
  const open = untaught();
  select(open.length ? open : store.items, store.current);
}

function show() {
  const tray = byId("tray");
  const several = store.items.length > 1;
  tray.hidden = byId("tray-bar").hidden = !several;
  byId("drop").classList.toggle("small", store.items.length > 0);
  for (const [item, option] of shown) {
    if (!store.items.includes(item)) {
      option.remove();
      shown.delete(item);
    }
  }
  for (const item of store.items) {
    if (!shown.has(item)) {
      shown.set(item, optionOf(item));
      tray.append(shown.get(item));
    }
    update(item, shown.get(item));
  }
  if (several) byId("tray-bar").replaceChildren(...barOf());
}

function optionOf(item) {
  const image = make("img", { src: item.url, alt: "", draggable: "false" });
  if (Math.max(item.width, item.height) < 64) image.classList.add("pixels");
  return make("li", { role: "option", class: "option" }, image, make("span", { class: "option-words" }));
}

function update(item, option) {
  const { words, kind } = wordsAbout(item);
  option.setAttribute("aria-selected", store.selected.has(item));
  option.tabIndex = item === (store.current ?? store.items[0]) ? 0 : -1;
  option.dataset.kind = kind;
  option.setAttribute("aria-label", `${item.name}: ${words}`);
  option.title = item.name;
  const line = option.querySelector(".option-words");
  const p = item.sample ? null : item.answer?.probabilities[0]?.p ?? null;
  line.replaceChildren(make("span", { class: "cut" }, words), ...(p === null ? [] : [bar(p, kind)]));
}

function wordsAbout(item) {
  if (item.teaching) return { words: "teaching …", kind: "soft" };
  if (item.error) return { words: "not taught", kind: "bad" };
  if (item.sample) return { words: item.sample.label, kind: "taught" };
  if (item.state === "asking") return { words: "asking …", kind: "soft" };
  if (!item.answer) return { words: item.silence ? "no answer" : "no label", kind: "soft" };
  if (answered(item) === null) return { words: "unknown", kind: "unknown" };
  return { words: answered(item), kind: item.answer.probabilities[0]?.p >= 0.5 ? "sure" : "unsure" };
}

function barOf() {
  const taught = store.items.length - untaught().length;
  const number = store.selected.size;
  const words = number > 1 ? `${number} of ${store.items.length} selected`
    : `${counted(store.items.length, "image")}, ${taught} taught`;
  return [
    make("p", { class: "soft" }, words),
    make("button", { type: "button", class: "quiet", onclick: () => { selectAll(); focusCurrent(); } }, "Select all"),
    make("button", {
      type: "button", class: "quiet", "aria-pressed": String(store.several), title: "Each press adds an image to the selection",
      onclick: () => { store.several = !store.several; changed("selection"); },
    }, "Select several"),
    number > 1 && chosen().some((item) => item.sample === null) ? make("button", { type: "button", class: "quiet", onclick: () => { putAway(chosen()); focusCurrent(); } }, "Put selected away")
      : make("button", { type: "button", class: "quiet", disabled: taught === 0, onclick: () => putAway(store.items.filter((item) => item.sample)) }, "Put taught ones away"),
  ];
}
