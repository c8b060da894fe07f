"use strict";

// Tables: a heading sorts its column; numbers begin with the largest, empty cells stay last.
for (const table of document.querySelectorAll("table.sortable")) {
  const headings = Array.from(table.tHead.rows[0].cells);
  headings.forEach((heading, column) => {
    heading.querySelector("button").addEventListener("click", () => sortBy(table, headings, column));
  });
}

function sortBy(table, headings, column) {
  const body = table.tBodies[0];
  const rows = Array.from(body.rows, (row) => ({ row, key: keyOf(row.cells[column]) }));
  const numeric = rows.some(({ key }) => typeof key === "number");
  const before = headings[column].getAttribute("aria-sort");
  const first = numeric ? "descending" : "ascending";
  const second = numeric ? "ascending" : "descending";
  const order = before === first ? second : first;
  const sign = order === "ascending" ? 1 : -1;
  rows.sort((a, b) => compare(a.key, b.key, sign));
  for (const heading of headings) heading.removeAttribute("aria-sort");
  headings[column].setAttribute("aria-sort", order);
  body.append(...rows.map(({ row }) => row));
}

function keyOf(cell) {
  if ("value" in cell.dataset) return Number(cell.dataset.value);
  const text = cell.textContent.trim();
  return text === "–" ? null : text;
}

function compare(a, b, sign) {
  if (a === null || b === null) return (a === null) - (b === null);
  if (typeof a === "number" && typeof b === "number") return sign * (a - b);
  return sign * String(a).localeCompare(String(b), "en", { numeric: true });
}

// Curves: drawn anew whenever a method is hidden or the colour scheme changes.
const panels = JSON.parse(document.getElementById("panels").textContent);
const darkness = matchMedia("(prefers-color-scheme: dark)");
const finger = matchMedia("(pointer: coarse)");
const hidden = panels.map(() => new Set());

function draw(number, dark) {
  const ink = dark ? "#e8eaed" : "#1b1f24";
  const rule = dark ? "#343a41" : "#e3e6ea";
  const page = dark ? "#15181c" : "#ffffff";
  for (const chart of panels[number].charts) {
    const traces = chart.traces.map((trace) => painted(trace, dark, hidden[number]));
    const layout = structuredClone(chart.layout);
    for (const axis of [layout.xaxis, layout.yaxis]) {
      Object.assign(axis, { gridcolor: rule, linecolor: rule, zeroline: false, automargin: true });
    }
    for (const shape of layout.shapes) shape.line.color = dark ? "#6b747d" : "#9aa2ab";
    Object.assign(layout, {
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      font: { color: ink, size: 13, family: getComputedStyle(document.body).fontFamily },
      hoverlabel: { bgcolor: page, bordercolor: rule, font: { color: ink } },
      modebar: { bgcolor: "rgba(0,0,0,0)", color: dark ? "#7b848d" : "#9aa2ab", activecolor: ink },
      uirevision: "keep",
      dragmode: finger.matches ? false : "zoom", // a finger that scrolls must not zoom
    });
    Plotly.react(chart.id, traces, layout, {
      responsive: true,
      displaylogo: false,
      // Named one by one: plotly's own choice has a button that uploads the chart.
      modeBarButtons: [["toImage", "zoom2d", "pan2d", "zoomIn2d", "zoomOut2d", "resetScale2d"]],
      showSendToCloud: false,
      plotlyServerURL: "",
      toImageButtonOptions: { filename: chart.id, scale: 2 },
    });
  }
}

function painted(trace, dark, without) {
  const copy = { ...trace, visible: !without.has(trace.meta.line) };
  if (trace.meta.fills) return { ...copy, fillcolor: trace.meta.fills[Number(dark)] };
  const color = trace.meta.colours[Number(dark)];
  return { ...copy, line: { ...trace.line, color }, marker: { ...trace.marker, color } };
}

function drawAll(dark) {
  panels.forEach((_, number) => draw(number, dark));
}

for (const panel of document.querySelectorAll(".panel")) {
  const number = Number(panel.dataset.panel);
  for (const button of panel.querySelectorAll(".legend button")) {
    button.addEventListener("click", () => {
      const line = Number(button.dataset.line);
      if (!hidden[number].delete(line)) hidden[number].add(line);
      button.setAttribute("aria-pressed", String(!hidden[number].has(line)));
      draw(number, darkness.matches);
    });
  }
}

// On paper everything is unfolded, and dark on white.
const opened = [];
addEventListener("beforeprint", () => {
  for (const part of document.querySelectorAll("details:not([open])")) {
    part.open = true;
    opened.push(part);
  }
  if (darkness.matches) drawAll(false);
});
addEventListener("afterprint", () => {
  for (const part of opened.splice(0)) part.open = false;
  if (darkness.matches) drawAll(true);
});

darkness.addEventListener("change", () => drawAll(darkness.matches));
drawAll(darkness.matches);
