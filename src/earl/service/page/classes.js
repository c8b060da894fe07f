// Classes in order of arrival, and whether each has been taught enough.

import { bar, byId, counted, make, percent } from "./dom.js";
import { store, watch } from "./store.js";
import { RULE_IN_WORDS, summary, verdict } from "./verdicts.js";

const MANY = 8; // classes above which they can be searched and put in another order
const ORDERS = {
  arrival: ["in order of arrival", () => 0],
  need: ["what needs more first", (a, b) => rank(a) - rank(b) || a.recent - b.recent],
  name: ["by name", (a, b) => a.label.localeCompare(b.label)],
};
const rank = (one) => ["bad", "middle", "good"].indexOf(verdict(one).kind);

let order = "arrival";
let wanted = "";
let parts = null;
let onPick = () => {};

/** `pick` is called with a label whose images shall be listed. */
export function openClasses(pick) {
  onPick = pick;
  const search = make("input", { type: "search", placeholder: "Find a class", "aria-label": "Find a class", oninput: (event) => { wanted = event.target.value; show(); } });
  const sort = make("select", { "aria-label": "Order", onchange: (event) => { order = event.target.value; show(); } },
    ...Object.entries(ORDERS).map(([value, [words]]) => make("option", { value }, words)));
  const rule = make("details", { class: "rule" }, make("summary", {}, "What do these words mean?"),
    make("dl", {}, ...RULE_IN_WORDS.flatMap(([word, means]) => [make("dt", {}, word), make("dd", {}, means)])),
    make("p", { class: "soft" }, "They are a rule of thumb. If the images you have taught differ from those you will ask about, believe your own eyes more."),
    make("div", { id: "collapse" }));
  parts = {
    summary: make("p", { class: "summary" }), tools: make("div", { class: "row tools" }, search, sort),
    list: make("ol", { class: "classes" }), rule,
  };
  byId("class-list").append(parts.summary, parts.tools, parts.list, rule);
  watch(["classes"], show);
  watch(["status"], showCollapse);
  show();
}

function show() {
  const { classes } = store;
  parts.summary.textContent = summary(classes);
  parts.tools.hidden = classes.length <= MANY;
  parts.rule.hidden = classes.length === 0;
  const letters = wanted.trim().toLowerCase();
  const rows = classes.filter((one) => one.label.toLowerCase().includes(letters)).sort(ORDERS[order][1]);
  const focused = document.activeElement?.dataset?.label;
  parts.list.replaceChildren(...rows.map(rowOf));
  if (focused !== undefined) [...parts.list.querySelectorAll("button")].find((button) => button.dataset.label === focused)?.focus();
  byId("labels").replaceChildren(...classes.slice(-500).map(({ label }) => make("option", { value: label })));
}

function rowOf(one) {
  const { word, kind, reason } = verdict(one);
  const button = make("button", { type: "button", class: "link cut", title: "List its images", "data-label": one.label, onclick: () => onPick(one.label) }, one.label);
  return make("li", {},
    make("div", { class: "class-name" }, button, make("span", { class: `pill ${kind}` }, word)),
    make("div", { class: "class-facts" },
      fact("images", one.samples.toLocaleString("en"), null, kept(one)),
      fact("right before", percent(one.recent), one.recent, "of its last 32 images, before they were taught"),
      fact("at its vector", one.learned === null || one.learned === undefined ? "–" : one.learned.toFixed(2), one.learned ?? 0, "mean cosine of its remembered images to the vector of the class; 1 is perfect")),
    reason && make("p", { class: "soft reason" }, reason));
}

const kept = (one) => `${counted(one.samples, "image")} taught, ${one.remembered ?? 0} of them remembered`;

function fact(name, value, share, title) {
  return make("span", { class: "fact", title }, make("span", { class: "soft" }, name), make("span", { class: "number" }, value), share === null ? null : bar(share));
}

function showCollapse() {
  const found = store.status?.collapse;
  const rows = [
    ["NC1", "spread within classes against that between them"],
    ["NC2", "distance of the class means from equal angles"],
    ["NC3", "distance of the class means from their vectors"],
  ];
  byId("collapse").replaceChildren(...(found ? [
    make("p", {}, "All classes together, by the measures of neural collapse (0 is best):"),
    make("dl", { class: "collapse" }, ...rows.flatMap(([name, means]) => [
      make("dt", {}, `${name}  ${typeof found[name] === "number" ? found[name].toFixed(3) : "–"}`), make("dd", {}, means)])),
  ] : []));
}
