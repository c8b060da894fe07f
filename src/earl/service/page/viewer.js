// The selected image, or images, at large: the answer, the labels to teach, and why it answered so.

import { bar, byId, counted, make, percent } from "./dom.js";
import { answered, likeliest, nearness, refreshAnswers } from "./asking.js";
import { picture } from "./pictures.js";
import { advance, chosen, putAway, store, watch } from "./store.js";
import { checkLabel, teach } from "./teaching.js";
import { focusCurrent } from "./tray.js";

const MOSAIC = 12; // images of a larger selection that are shown
const NEIGHBOURS = 8;

let field = null; // stays while all around it is drawn anew: somebody may be typing
let parts = null;
let drawn = ""; // what the labels showed last

export function openViewer() {
  field = make("input", {
    id: "label", list: "labels", autocomplete: "off", autocapitalize: "none", spellcheck: "false", maxlength: "128",
    enterkeyhint: "send",
  });
  const problem = make("p", { class: "wrong", role: "alert", id: "label-error" });
  const button = make("button", { class: "primary" }, "Teach");
  const form = make("form", { class: "label-form" }, make("label", { for: "label" }), make("div", { class: "row" }, field, button), problem);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    teachChosen(field.value, "label");
  });
  field.addEventListener("input", () => { problem.textContent = ""; });
  const [image, answer, labels, why] = ["viewer-image", "viewer-answer", "viewer-labels", "viewer-why"].map((name) => make("div", { class: name }));
  parts = { image, answer, labels, why, form, problem };
  byId("viewer").append(image, make("div", { class: "viewer-side" }, answer, labels, form), why);
  watch(["items", "selection", "classes"], show);
}

/** Teach the selected images as a text says, and go on to the next. */
async function teachChosen(text, focus) {
  const items = chosen();
  let label;
  try {
    label = checkLabel(text);
  } catch (error) {
    parts.problem.textContent = error.message;
    return;
  }
  await teachAll(items, () => label, focus);
}

async function teachAll(items, labelOf, focus) {
  field.value = "";
  parts.problem.textContent = "";
  const taught = teach(items, labelOf);
  if (store.items.length > items.length) {
    advance(); // at once: the service takes what was sent while the next image is looked at
    refreshAnswers();
  }
  if (focus === "label") field.focus();
  else focusCurrent();
  await taught;
  const failed = items.filter((item) => item.error);
  if (failed.length) parts.problem.textContent = `${counted(failed.length, "image")} not taught. ${failed[0].error}`;
}

/** Teach with a number key; tell whether there is a label with that number. */
export function teachByNumber(number) {
  const label = likeliest(chosen())[number - 1]?.label;
  if (label === undefined || store.selected.size === 0) return false;
  teachChosen(label, "tray");
  return true;
}

function show() {
  const items = chosen();
  byId("viewer").hidden = items.length === 0;
  if (items.length === 0) return;
  const one = items.length === 1 ? items[0] : null;
  showImages(items);
  parts.answer.replaceChildren(...(one ? answerOf(one) : answerOfMany(items)));
  showLabels(items);
  const taught = items.every((item) => item.sample);
  const first = parts.labels.querySelector("button") === null; // there is nothing to choose from yet
  parts.form.querySelector("label").textContent = !one ? `Teach ${items.length} images as` : taught ? "Or it is" : first ? "Teach it as" : "Or teach it as";
  field.placeholder = first ? "a label, such as cat" : "new or other label";
  parts.form.querySelector("button").textContent = taught ? "Correct" : "Teach";
  parts.why.replaceChildren(...(one ? whyOf(one) : []));
}

function showImages(items) {
  const images = items.slice(0, MOSAIC).map((item) => {
    const tiny = Math.max(item.width, item.height) < 64;
    return make("img", { src: item.url, alt: items.length === 1 ? item.name : "", class: tiny ? "pixels" : null });
  });
  const known = parts.image.querySelectorAll("img");
  const same = known.length === images.length && images.every((image, place) => image.src === known[place].src);
  if (same) return; // drawing them anew would make them flicker
  parts.image.classList.toggle("many", items.length > 1);
  const away = make("button", { type: "button", class: "quiet away", title: "Put away without teaching (Delete)",
    "aria-label": "Put away without teaching", onclick: () => { putAway(chosen()); focusCurrent(); } }, "×");
  const rest = items.length > MOSAIC ? [make("span", { class: "rest" }, `+ ${items.length - MOSAIC}`)] : [];
  parts.image.replaceChildren(...images, ...rest, ...(items.length > 1 ? [] : [away]));
}

function answerOf(item) {
  const near = item.answer ? ` · nearness ${nearness(item).toFixed(2)}` : "";
  const name = make("p", { class: "soft cut", title: "Nearness: the cosine to the nearest class, 1 is at the class" }, item.name + near);
  const heading = (text, ...more) => [name, make("p", { class: "answer" }, text), ...more];
  const note = (...text) => make("p", { class: "soft" }, ...text);
  if (item.teaching) return heading("Teaching …");
  if (item.sample) return heading(`Taught as ${item.sample.label}`, note(...afterwards(item)));
  if (item.state === "asking") return heading("Asking …");
  if (item.state === "unanswered") return heading("No answer", make("p", { class: "wrong" }, item.silence));
  if (!item.answer) return heading("What is it?", note("Nothing has been taught yet, so it has no answer. Give it a label."));
  const [first] = item.answer.probabilities;
  if (answered(item) === null) {
    return heading("Unknown", note("It is far from everything taught so far. Nearest is ", make("b", {}, first.label), "."));
  }
  const unsure = first.p < 0.5 ? "It is not sure. " : "";
  return heading(answered(item), note(`${unsure}Teach it, right or wrong, with one press:`));
}

/** What a taught image was answered before, and what it is answered now. */
function afterwards(item) {
  const { right, predicted, label } = item.sample;
  const before = right === true ? "It was answered right beforehand. "
    : right === false ? (predicted ? `Beforehand it was answered as ${predicted}. ` : "Beforehand it was not known. ") : "";
  if (item.asked < item.sample.seq || !item.answer) return [before, "Learning …"];
  const now = answered(item);
  const p = item.answer.probabilities[0]?.p;
  return [before, now === label ? `It now answers ${now}, ${percent(p)}.` : `It now answers ${now ?? "unknown"}: more images will help.`];
}

function answerOfMany(items) {
  const fresh = items.filter((item) => !item.sample);
  const sure = fresh.filter((item) => answered(item) !== null);
  const each = make("button", { type: "button", onclick: () => teachAll(sure, answered, "tray") }, `Teach each as answered (${sure.length})`);
  return [
    make("p", { class: "answer" }, counted(items.length, "image")),
    make("p", { class: "soft" }, fresh.length ? "One label for all of them, or each as it was answered, once you have looked:" : "All of them are taught. Another label corrects them:"),
    ...(sure.length > 1 ? [each] : []),
  ];
}

function showLabels(items) {
  const labels = likeliest(items);
  const one = items.length === 1 ? items[0] : null;
  const now = JSON.stringify([labels, one?.sample?.label]);
  if (now === drawn) return; // a button under somebody's finger must not be replaced without need
  drawn = now;
  const list = make("ol", { class: "labels", "aria-label": "Teach as" }, ...labels.map(({ label, p }, place) => {
    const taught = one?.sample?.label === label;
    const words = `${taught ? "Taught as" : "Teach as"} ${label}, ${percent(p)}, key ${place + 1}`;
    return make("li", {}, make("button", {
      type: "button", class: taught ? "choice taught" : "choice", "aria-label": words, onclick: () => teachChosen(label, "tray"),
    }, make("kbd", {}, String(place + 1)), make("span", { class: "cut" }, label), bar(p), make("span", { class: "number" }, percent(p))));
  }));
  const place = [...parts.labels.querySelectorAll("button")].indexOf(document.activeElement);
  parts.labels.replaceChildren(list);
  if (place >= 0) list.querySelectorAll("button")[place]?.focus();
}

function whyOf(item) {
  const found = (item.answer?.neighbours ?? []).slice(0, NEIGHBOURS);
  if (found.length === 0) return [];
  return [
    make("h3", {}, "Remembered images that corrected this answer"),
    make("ul", { class: "neighbours" }, ...found.map(({ id, label, weight }) => make("li", {},
      id === null ? make("span", { class: "picture" }) : picture(id, ""),
      make("span", { class: "cut" }, label), make("span", { class: "soft number" }, percent(weight))))),
  ];
}

