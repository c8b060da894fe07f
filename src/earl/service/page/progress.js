// Accuracy, throughput, room and queue.

import { bar, byId, bytes, counted, make, percent } from "./dom.js";
import { drawCurve } from "./curve.js";
import { store, watch } from "./store.js";

let drawn; // the curve that is shown

export function openProgress() {
  const figure = byId("curve");
  let width = 0;
  new ResizeObserver(() => {
    if (figure.clientWidth !== width && store.status?.curve) drawCurve(figure, store.status.curve);
    width = figure.clientWidth;
  }).observe(figure);
  watch(["status"], show);
}

function show() {
  const now = store.status;
  if (!now) return;
  byId("model").textContent = [now.method, now.backbone].filter(Boolean).join(" · ");
  document.title = now.samples ? `${percent(now.recent)} · earl` : "earl";
  byId("headline").replaceChildren(...headline(now));
  byId("curve").hidden = now.samples < 2;
  if (now.curve !== drawn) drawCurve(byId("curve"), now.curve); // not with every event: a pointer may be on it
  drawn = now.curve;
  byId("numbers").replaceChildren(...numbers(now));
  const health = byId("health");
  health.hidden = now.health === "ok" && !now.catching_up;
  health.textContent = now.catching_up ? "The service has just started and repeats what it was taught before. It answers meanwhile."
    : `Something is wrong with the service: ${(now.reasons ?? []).join("; ") || now.health}.`;
  byId("first-steps").hidden = now.samples > 0 || now.waiting > 0;
}

function headline(now) {
  if (!now.samples) return [make("p", { class: "empty" }, "Nothing has been learned yet. Each image is asked about before it is learned; the share of right answers will be drawn here.")];
  const last = Math.min(32, now.samples);
  return [make("p", { class: "headline" },
    make("strong", {}, percent(now.recent)),
    make("span", { class: "soft" }, `of the last ${counted(last, "image")} ${last === 1 ? "was" : "were"} answered right before being taught`))];
}

function numbers(now) {
  const queue = now.waiting ? `${now.waiting} waiting` : "empty";
  const kept = now.memory ?? { used: 0, size: 0 };
  return [
    number("Learned", counted(now.samples, "image"), `${percent(now.accuracy)} answered right since the beginning`),
    number("Speed", now.rate > 0 ? `${now.rate.toFixed(now.rate < 10 ? 1 : 0)} a second` : "at rest", "samples learned a second"),
    number("Queue", queue, `${now.waiting} of ${now.limit_waiting} places taken`, now.waiting / now.limit_waiting, full(now.waiting / now.limit_waiting)),
    number("Classes", now.capacity ? `${now.classes} of ${now.capacity}` : String(now.classes), "known, and how many there is room for",
      now.capacity ? now.classes / now.capacity : null),
    number("Memory", `${kept.used} of ${kept.size}`, "images that are kept and repeated", kept.size ? kept.used / kept.size : null),
    number("On disk", bytes(now.bytes?.journal ?? 0), `of ${bytes(now.bytes?.journal_cap ?? 0)} for taught images; the model has ${bytes(now.bytes?.model ?? 0)}`,
      now.bytes?.journal_cap ? now.bytes.journal / now.bytes.journal_cap : null, full(now.bytes?.journal / now.bytes?.journal_cap)),
  ];
}

/** Room that refuses samples when it is used up; a full memory, in contrast, is as it should be. */
const full = (share) => (share > 0.9 ? "bad" : "");

function number(name, value, title, share = null, kind = "") {
  return make("div", { title }, make("dt", {}, name), make("dd", {}, value, share === null ? null : bar(share, kind)));
}
