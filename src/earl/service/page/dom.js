// Elements are made here and nowhere else. Text is only ever set as text: a label may say
// anything, and none of it is read as HTML.

const SVG = "http://www.w3.org/2000/svg";

export const byId = (id) => document.getElementById(id);

/** Make an element; `on…` attributes are listeners, null and false leave an attribute out. */
export function make(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

export function svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.filter(Boolean));
  return element;
}

/** A bar from 0 to 1. Its width is set by script, since inline styles are forbidden here. */
export function bar(share, kind = "") {
  const inner = make("span", { class: "bar-fill" });
  inner.style.inlineSize = `${100 * Math.min(1, Math.max(0, share || 0))}%`;
  return make("span", { class: `meter ${kind}`, "aria-hidden": "true" }, inner);
}

export const percent = (share) =>
  Number.isFinite(share) ? (share > 0 && share < 0.005 ? "< 1 %" : `${Math.round(100 * share)} %`) : "–";

export const counted = (n, one, many = `${one}s`) => `${n.toLocaleString("en")} ${n === 1 ? one : many}`;

export function bytes(n) {
  for (const unit of ["B", "kB", "MB", "GB"]) {
    if (n < 1000 || unit === "GB") return `${n < 10 && unit !== "B" ? n.toFixed(1) : Math.round(n)} ${unit}`;
    n /= 1000;
  }
}

/** Tell those who cannot see the page, and say it again if it was said before. */
export function say(text) {
  const line = byId("say");
  line.textContent = "";
  requestAnimationFrame(() => { line.textContent = text; });
}
