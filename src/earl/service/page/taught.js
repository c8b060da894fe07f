// The samples taught last: what each is, whether it was known before, "wrong!" and delete.

import { byId, make } from "./dom.js";
import { picture } from "./pictures.js";
import { changed, store, watch } from "./store.js";
import { checkLabel, correctSample, forgetSample } from "./teaching.js";

const rows = new Map(); // id -> {element, ...}: kept, so that a form in one is not lost

export const FIRST = 10; // samples that are listed until more are asked for
const MOST = 200; // that the service hands over at once

let onList = () => {};

/** `list(label, most)` is called when another label, null for all, or more samples shall be listed. */
export function openTaught(list) {
  onList = list;
  byId("taught-list").append(
    make("div", { class: "row tools", id: "taught-filter" }),
    make("ol", { class: "taught", id: "taught-rows" }),
    make("p", { class: "empty", id: "taught-empty" }),
    make("button", { type: "button", class: "quiet", id: "taught-more", onclick: () => onList(store.filter, Math.min(MOST, 3 * store.listed)) }, "Show more"));
  watch(["samples"], show);
  show();
}

function show() {
  const { samples, filter } = store;
  const list = byId("taught-rows");
  byId("taught-filter").hidden = filter === null;
  byId("taught-filter").replaceChildren(make("p", {}, "Only ", make("b", {}, filter ?? "")),
    make("button", { type: "button", class: "quiet", onclick: () => onList(null, FIRST) }, "Show all"));
  byId("taught-empty").textContent = samples.length ? "" : "What you teach is listed here, newest first, and can be corrected or deleted.";
  byId("taught-more").hidden = samples.length < store.listed || store.listed === MOST;
  const wanted = new Set(samples.map((sample) => sample.id));
  for (const [id, row] of rows) {
    if (!wanted.has(id)) {
      row.element.remove();
      rows.delete(id);
    }
  }
  samples.forEach((sample, place) => {
    if (!rows.has(sample.id)) rows.set(sample.id, rowOf(sample.id));
    const row = rows.get(sample.id);
    row.sample = sample;
    update(row);
    if (list.children[place] !== row.element) list.insertBefore(row.element, list.children[place] ?? null);
  });
}

function rowOf(id) {
  const row = { sample: null };
  row.label = make("b", { class: "cut" });
  row.words = make("span", { class: "soft" });
  row.error = make("p", { class: "wrong", role: "alert" });
  row.place = make("div", { class: "correction" });
  row.wrong = make("button", { type: "button", class: "quiet", onclick: () => openForm(row) }, "Wrong!");
  row.remove = make("button", { type: "button", class: "quiet", onclick: () => attempt(row, () => forgetSample(row.sample)) }, "Delete");
  row.element = make("li", {}, picture(id, ""),
    make("div", { class: "taught-words" }, row.label, row.words),
    make("div", { class: "row buttons" }, row.wrong, row.remove), row.place, row.error);
  return row;
}

function update(row) {
  const { sample } = row;
  const gone = sample.state === "forgotten";
  row.label.textContent = sample.label;
  row.words.textContent = wordsAbout(sample);
  row.element.dataset.kind = gone ? "gone" : sample.right === true ? "right" : sample.right === false ? "wrong" : "waiting";
  row.wrong.hidden = row.remove.hidden = gone;
  row.wrong.setAttribute("aria-label", `Wrong! Correct the label ${sample.label}`);
  row.remove.setAttribute("aria-label", `Delete this image of ${sample.label}`);
  if (gone) row.place.replaceChildren();
}

function wordsAbout(sample) {
  const said = sample.predicted?.label ?? (typeof sample.predicted === "string" ? sample.predicted : null);
  if (sample.state === "forgotten") return "deleted";
  if (sample.state === "waiting") return "waiting to be learned";
  const before = sample.taught !== sample.label ? `first taught as ${sample.taught}; ` : "";
  if (sample.right) return `${before}answered right beforehand`;
  return before + (said === null ? "not known beforehand" : `answered ${said} beforehand`);
}

function openForm(row) {
  const input = make("input", { list: "labels", autocomplete: "off", autocapitalize: "none", maxlength: "128", "aria-label": "The right label", placeholder: "What is it?" });
  const close = () => { row.place.replaceChildren(); row.wrong.focus(); };
  const form = make("form", { class: "row", onkeydown: (event) => { if (event.key === "Escape") close(); } },
    input, make("button", { class: "primary" }, "Correct"), make("button", { type: "button", class: "quiet", onclick: close }, "Cancel"));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    attempt(row, async () => {
      await correctSample(row.sample, checkLabel(input.value));
      close();
    });
  });
  row.place.replaceChildren(form);
  input.focus();
}

/** Do something with a sample; what goes wrong is said beside it. */
async function attempt(row, action) {
  row.error.textContent = "";
  row.remove.disabled = true;
  try {
    await action();
  } catch (error) {
    row.error.textContent = error.message;
  }
  row.remove.disabled = false;
  changed("samples");
}
