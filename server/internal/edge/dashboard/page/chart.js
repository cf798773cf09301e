// The chart of outcomes: stacked steps, with a cursor for the mouse and for the keyboard.
import { $, clock, draw, make, names, number, rate, set } from "./words.js";

// Outcomes are drawn from the bottom in this order.
const order = ["allowed", "delayed", "marked", "degraded", "shadow_denied", "uncharged", "error", "denied", "candidate_denied"];
const beside = "candidate_denied"; // a line, because these requests have another outcome too
const height = 208, left = 52, bottom = 20, top = 8;

let shown = null; // the history that is drawn
let cursor = -1; // the step under it, -1 for none
export const hidden = new Set();

// fold adds up neighbouring steps, so that at most most remain.
function fold(h, from, most) {
  const by = Math.max(1, Math.ceil((h.steps - from) / most));
  const count = Math.ceil((h.steps - from) / by);
  const figures = {};
  for (const name of order) {
    const values = h.figures[name];
    if (!values) continue;
    const folded = new Array(count).fill(0);
    for (let i = from; i < h.steps; i++) folded[count - 1 - Math.floor((h.steps - 1 - i) / by)] += values[i];
    if (folded.some((n) => n)) figures[name] = folded;
  }
  return { end: h.end_ms, step: h.step_ms * by, count, figures, rule: h.rule || "", now: h.now };
}

// draws returns the history as the chart has it: its last minutes.
export function show(history, minutes, now) {
  history.now = now;
  const from = Math.max(0, history.steps - Math.round(minutes * 60000 / history.step_ms));
  const missing = Math.round(minutes * 60000 / history.step_ms) - history.steps;
  if (missing > 0) { // the server is younger than the range
    for (const name in history.figures) history.figures[name] = new Array(missing).fill(0).concat(history.figures[name]);
    history.steps += missing;
  }
  const next = fold(history, from, 360);
  if (shown && (shown.rule !== next.rule || shown.step !== next.step)) cursor = -1;
  shown = next;
  redraw();
}

// nice returns the next greater number that reads well.
function nice(n) {
  const power = 10 ** Math.floor(Math.log10(n || 1));
  for (const m of [1, 2, 2.5, 5, 10]) if (n <= m * power) return m * power;
}

export function redraw() {
  const box = $("chart"), h = shown;
  if (!h) return;
  const width = Math.max(280, box.clientWidth), inner = width - left - 4, tall = height - bottom - top;
  const drawn = order.filter((name) => h.figures[name] && !hidden.has(name));
  const ends = Math.min(h.step, Math.max(1000, h.now - h.end + h.step)); // the last step still grows
  const rates = Object.fromEntries(drawn.map((name) => [name, h.figures[name].map((n, i) => n * 1000 / (i < h.count - 1 ? h.step : ends))]));
  const stacked = drawn.filter((name) => name !== beside), sums = new Array(h.count).fill(0);
  for (const name of stacked) rates[name].forEach((n, i) => { sums[i] += n; });
  const most = nice(Math.max(1, ...sums, ...rates[beside] || []));
  const x = (i) => (left + inner * i / h.count).toFixed(1), y = (n) => (top + tall * (1 - n / most)).toFixed(1);
  const svg = draw("svg", { viewBox: `0 0 ${width} ${height}`, height, "aria-hidden": "true" });
  for (const part of [0, 0.5, 1]) {
    svg.append(draw("line", { class: "grid", x1: left, x2: width - 4, y1: y(most * part), y2: y(most * part) }));
    svg.append(draw("text", { x: left - 6, y: +y(most * part) + 4, "text-anchor": "end" }, rate(most * part)));
  }
  const begin = h.end - h.count * h.step, total = h.count * h.step;
  const every = [60e3, 120e3, 300e3, 600e3, 900e3, 1800e3, 3600e3, 7200e3, 14400e3].find((s) => total / s <= width / 90);
  const zone = new Date(begin).getTimezoneOffset() * 60000;
  for (let t = Math.ceil((begin - zone) / every) * every + zone; t < h.end; t += every) {
    const at = left + inner * (t - begin) / total;
    svg.append(draw("line", { class: "grid", x1: at, x2: at, y1: top, y2: height - bottom }));
    svg.append(draw("text", { x: at, y: height - 5, "text-anchor": "middle" }, clock(t, false)));
  }
  const base = new Array(h.count).fill(0);
  for (const name of drawn) {
    let up = "", down = "";
    rates[name].forEach((n, i) => {
      const low = name === beside ? 0 : base[i], high = low + n;
      if (name === beside) {
        if (n) up += `M${x(i)},${y(n)}L${x(i + 1)},${y(n)}`;
        return;
      }
      base[i] = high;
      up += `L${x(i)},${y(high)}L${x(i + 1)},${y(high)}`;
      down = `L${x(i + 1)},${y(low)}L${x(i)},${y(low)}` + down;
    });
    svg.append(draw("path", name === beside ? { class: "beside", d: up } : { class: "f-" + name, d: "M" + up.slice(1) + down + "Z" }));
  }
  if (cursor >= 0) {
    const at = (+x(cursor) + +x(cursor + 1)) / 2;
    svg.append(draw("line", { class: "cursor", x1: at, x2: at, y1: top, y2: height - bottom }));
  }
  box.replaceChildren(svg);
  const all = order.filter((name) => h.figures[name]);
  const words = all.map((name) => `${number(h.figures[name].reduce((a, b) => a + b, 0))} ${names[name]}`);
  box.setAttribute("aria-label", `Requests per second from ${clock(begin)} to ${clock(h.end)}: ${words.join(", ") || "none"}. Arrow keys read single steps.`);
  set($("at"), cursor < 0 ? "" : describe(h, cursor));
  table(h, all);
}

// describe reads a step.
function describe(h, i) {
  const from = h.end - (h.count - i) * h.step;
  const words = order.filter((name) => h.figures[name] && h.figures[name][i]).reverse().map((name) => `${number(h.figures[name][i])} ${names[name]}`);
  return `${clock(from)} to ${clock(from + h.step)}: ${words.join(", ") || "no requests"}`;
}

// table shows the same numbers to those who cannot see the chart.
function table(h, all) {
  if (!$("numbers").open) return;
  const body = make("tbody");
  for (let i = h.count - 1; i >= 0; i--) {
    if (!all.some((name) => h.figures[name][i])) continue;
    body.append(make("tr", null, make("td", { textContent: clock(h.end - (h.count - i) * h.step) }),
      ...all.map((name) => make("td", { className: "n", textContent: number(h.figures[name][i]) }))));
  }
  const head = make("tr", null, make("th", { textContent: "From" }), ...all.map((name) => make("th", { className: "n", textContent: names[name] })));
  $("numbers").lastElementChild.replaceChildren(make("table", null, make("thead", null, head), body));
}

// present returns the outcomes that the chart has, for the legend.
export const present = () => shown ? order.filter((name) => shown.figures[name]).reverse() : [];

// listen lets the mouse and the arrow keys move the cursor.
export function listen() {
  const box = $("chart"), move = (to) => {
    if (!shown || to === cursor) return;
    cursor = to < 0 ? -1 : Math.min(to, shown.count - 1);
    redraw();
  };
  box.addEventListener("pointermove", (e) => {
    const r = box.getBoundingClientRect(), at = (e.clientX - r.left - left) / (r.width - left - 4);
    move(shown && at >= 0 && at < 1 ? Math.floor(at * shown.count) : -1);
  });
  box.addEventListener("pointerleave", () => move(-1));
  box.addEventListener("keydown", (e) => {
    const at = cursor < 0 && shown ? shown.count : cursor;
    const to = { ArrowLeft: Math.max(0, at - 1), ArrowRight: at + 1, Home: 0, End: 1e9, Escape: -1 }[e.key];
    if (to === undefined) return;
    e.preventDefault();
    move(to);
  });
  $("numbers").addEventListener("toggle", redraw);
  new ResizeObserver(redraw).observe(box);
}

// spark draws the last values as a small line of columns.
export function spark(svg, values, label) {
  const most = Math.max(1, ...values), step = 112 / 60;
  const d = values.map((n, i) => n ? `M${((60 - values.length + i) * step).toFixed(1)},22v${(-20 * n / most).toFixed(1)}` : "").join("");
  if (!svg.firstChild) svg.append(draw("path", {}), draw("title", {}));
  svg.firstChild.setAttribute("d", d || "M0,22");
  svg.lastChild.textContent = label;
}
