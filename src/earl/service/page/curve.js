// The accuracy so far as a curve, drawn as SVG.

import { make, percent, svg } from "./dom.js";

const WINDOW = 32; // samples; as the service counts what is recent
const HEIGHT = 150;
const LEFT = 42;
const BOTTOM = 20;
const TOP = 8;

/** Turn points (samples so far, accuracy since the last point) into means of the last WINDOW and of all. */
export function smooth(points) {
  const rows = [];
  let before = 0;
  let right = 0;
  for (const [n, accuracy] of points) {
    right += accuracy * (n - before);
    rows.push({ n, right });
    before = n;
  }
  let start = 0;
  return rows.map(({ n, right: sum }) => {
    while (rows[start + 1].n <= n - WINDOW) start += 1;
    // The last point that lies a whole window back; before there is one, everything counts.
    const from = rows[start].n <= n - WINDOW ? rows[start] : { n: 0, right: 0 };
    return { n, recent: (sum - from.right) / (n - from.n), all: sum / n };
  });
}

/** Draw the curve into a figure; nothing is drawn before there are two points. */
export function drawCurve(figure, points) {
  if (points.length < 2) return;
  const rows = smooth(points);
  const width = Math.max(240, figure.clientWidth);
  const last = rows.at(-1);
  const x = (n) => LEFT + ((width - LEFT - 6) * n) / last.n;
  const y = (share) => TOP + (HEIGHT - TOP - BOTTOM) * (1 - share);
  const path = (name) => rows.map((row, place) => `${place ? "L" : "M"}${x(row.n).toFixed(1)} ${y(row[name]).toFixed(1)}`).join("");
  const area = `${path("recent")}L${x(last.n).toFixed(1)} ${y(0)}L${x(rows[0].n).toFixed(1)} ${y(0)}Z`;
  const words = `Accuracy before teaching, over ${last.n} images: ${percent(last.recent)} of the last ${Math.min(WINDOW, last.n)}, `
    + `${percent(last.all)} of all.`;
  const picture = svg("svg", { viewBox: `0 0 ${width} ${HEIGHT}`, width, height: HEIGHT, role: "img", "aria-label": words },
    ...[0, 0.5, 1].flatMap((share) => [
      svg("line", { class: "grid", x1: LEFT, x2: width - 6, y1: y(share), y2: y(share) }),
      svg("text", { x: LEFT - 6, y: y(share) + 4, "text-anchor": "end" }, percent(share)),
    ]),
    svg("text", { x: LEFT, y: HEIGHT - 4 }, "0"),
    svg("text", { x: width - 6, y: HEIGHT - 4, "text-anchor": "end" }, `${last.n.toLocaleString("en")} images taught`),
    svg("path", { class: "area", d: area }),
    svg("path", { class: "line-all", d: path("all") }),
    svg("path", { class: "line-recent", d: path("recent") }),
    svg("circle", { class: "tip", cx: x(last.n), cy: y(last.recent), r: 3.5 }));
  const legend = make("figcaption", {},
    make("span", { class: "key recent" }, `last ${WINDOW}`), make("span", { class: "key all" }, "since the beginning"));
  const shown = make("output", { class: "point", hidden: true, "aria-hidden": "true" });
  follow(picture, shown, rows, x);
  figure.replaceChildren(picture, shown, legend);
}

/** Show the numbers of the point below the pointer. */
function follow(picture, shown, rows, x) {
  const cross = svg("line", { class: "cross", y1: TOP, y2: HEIGHT - BOTTOM, visibility: "hidden" });
  picture.append(cross);
  picture.addEventListener("pointermove", (event) => {
    const place = event.clientX - picture.getBoundingClientRect().left;
    const row = rows.reduce((a, b) => (Math.abs(x(b.n) - place) < Math.abs(x(a.n) - place) ? b : a));
    cross.setAttribute("x1", x(row.n));
    cross.setAttribute("x2", x(row.n));
    cross.setAttribute("visibility", "visible");
    shown.hidden = false;
    shown.textContent = `image ${row.n}: ${percent(row.recent)} of the last ${WINDOW}, ${percent(row.all)} of all`;
  });
  picture.addEventListener("pointerleave", () => {
    cross.setAttribute("visibility", "hidden");
    shown.hidden = true;
  });
}
