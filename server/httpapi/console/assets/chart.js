// Charts: lines over time, as SVG.
import { make, number } from "./ui.js";

const svg = (tag, attributes, ...children) => {
  const e = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [key, value] of Object.entries(attributes)) e.setAttribute(key, value);
  e.append(...children);
  return e;
};

// spark returns a sparkline.
export function spark(values, width = 96, height = 24) {
  const box = svg("svg", { class: "spark", viewBox: `0 0 ${width} ${height}`, width, height, "aria-hidden": "true" });
  if (values.length < 2) return box;
  const top = Math.max(...values, 1);
  const x = i => (i * width / (values.length - 1)).toFixed(1), y = v => (height - 2 - v * (height - 5) / top).toFixed(1);
  const line = values.map((v, i) => `${x(i)} ${y(v)}`).join("L");
  if (values.some(v => v > 0)) box.append(svg("path", { class: "area", d: `M0 ${height}L${line}L${width} ${height}Z` }));
  box.append(svg("path", { class: "line" + (values.some(v => v > 0) ? "" : " flat"), d: "M" + line }));
  return box;
}

const w = 600, h = 170, left = 46, right = 8, top = 10, bottom = 20;
const inner = w - left - right, tall = h - top - bottom;
const clock = at => new Date(at).toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" });

// chart returns a line chart. series is [{label, values, className}]. end is the time of the last value,
// every the interval, both in ms. id is its data-chart attribute. text formats a value, axis one at the axis, and when a time. The
// chart has room for least points, by default five minutes of an hour.
export function chart(id, title, series, end, every, { text = number, axis = short, when = clock, least = 31, range } = {}) {
  const points = Math.max(...series.map(s => s.values.length), 2), span = Math.max(points, least);
  const max = nice(Math.max(...series.flatMap(s => s.values), 1));
  const x = i => left + (span - points + i) * inner / (span - 1), y = v => top + tall - v * tall / max;
  const latest = s => text(s.values.at(-1) ?? 0);
  const box = svg("svg", { class: "chart", viewBox: `0 0 ${w} ${h}`, role: "img", "aria-label": `${title} of ${range ?? `the last ${Math.round(points * every / 60000)} minutes`}. Now: ` + series.map(s => `${s.label} ${latest(s)}`).join(", ") });
  for (const part of [0, 0.5, 1]) {
    box.append(svg("line", { class: "rule", x1: left, x2: w - right, y1: y(max * part), y2: y(max * part) }),
      svg("text", { class: "tick", x: left - 8, y: y(max * part) + 4, "text-anchor": "end" }, axis(max * part)),
      svg("text", { class: "tick", x: left + inner * part, y: h - 4, "text-anchor": ["start", "middle", "end"][part * 2] }, when(end - (1 - part) * (span - 1) * every)));
  }
  for (const s of series) {
    if (s.values.length < 2) continue;
    const from = points - s.values.length;
    const line = s.values.map((v, i) => `${x(from + i).toFixed(1)} ${y(v).toFixed(1)}`).join("L");
    box.append(svg("path", { class: "area " + s.className, d: `M${x(from).toFixed(1)} ${y(0)}L${line}L${x(points - 1).toFixed(1)} ${y(0)}Z` }), svg("path", { class: "line " + s.className, d: "M" + line }));
  }
  const figures = series.map(s => make("b", {}, latest(s))), at = make("span", { className: "when" });
  point(box, i => {
    at.textContent = i === null ? "" : when(end - (points - 1 - i) * every);
    series.forEach((s, n) => { figures[n].textContent = i === null ? latest(s) : text(s.values[i - (points - s.values.length)] ?? 0); });
  }, x, points);
  return make("figure", { className: "card", "data-chart": id }, make("figcaption", {}, make("span", {}, title, " ", at),
    make("span", { className: "legend" }, series.map((s, n) => make("span", { className: s.className }, s.label + " ", figures[n])))), box);
}

// point draws a line at the pointer, and calls onpoint with the index of the point there, or null.
function point(box, onpoint, x, points) {
  const line = svg("line", { class: "cursor", y1: top, y2: top + tall, visibility: "hidden" });
  box.append(line);
  box.addEventListener("pointermove", event => {
    const at = box.getBoundingClientRect(), step = x(1) - x(0);
    const i = Math.round(((event.clientX - at.left) * w / at.width - x(0)) / step);
    if (i < 0 || i >= points) return;
    line.setAttribute("x1", x(i));
    line.setAttribute("x2", x(i));
    line.setAttribute("visibility", "visible");
    onpoint(i);
  });
  box.addEventListener("pointerleave", () => { line.setAttribute("visibility", "hidden"); onpoint(null); });
}

// nice rounds up to a suitable maximum for an axis.
function nice(n) {
  const size = 10 ** Math.floor(Math.log10(n));
  return [1, 2, 4, 5, 10].map(m => m * size).find(m => m >= n);
}

function short(n) {
  if (n >= 1e6) return n / 1e6 + "M";
  return n >= 1e4 ? n / 1e3 + "k" : String(Math.round(n * 10) / 10);
}
