// Charts: lines over time, as SVG.
import { make, number, rate } from "./ui.js";

const svg = (tag, attributes, ...children) => {
  const e = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [key, value] of Object.entries(attributes)) e.setAttribute(key, value);
  e.append(...children);
  return e;
};

// spark is a small chart of numbers.
export function spark(values, width = 96, height = 24) {
  const box = svg("svg", { class: "spark", viewBox: `0 0 ${width} ${height}`, width, height, "aria-hidden": "true" });
  if (values.length < 2) return box;
  const top = Math.max(...values, 1);
  const x = i => (i * width / (values.length - 1)).toFixed(1), y = v => (height - 2 - v * (height - 4) / top).toFixed(1);
  const line = values.map((v, i) => `${x(i)} ${y(v)}`).join("L");
  box.append(svg("path", { class: "area", d: `M0 ${height}L${line}L${width} ${height}Z` }), svg("path", { class: "line", d: "M" + line }));
  return box;
}

// chart shows several lines: series is [{label, values, className}]; the last value is of the
// time end, and every is between two, in ms.
export function chart(title, series, end, every, perSecond) {
  const w = 600, h = 150, left = 46, bottom = 18, inner = w - left - 6, tall = h - bottom - 8;
  const points = Math.max(...series.map(s => s.values.length), 2);
  const top = nice(Math.max(...series.flatMap(s => s.values), 1));
  const x = i => left + i * inner / (points - 1), y = v => 8 + tall - v * tall / top;
  const text = perSecond ? rate : number;
  const box = svg("svg", { class: "chart", viewBox: `0 0 ${w} ${h}`, role: "img", "aria-label": title + ": " + series.map(s => `${s.label} ${text(s.values.at(-1) ?? 0)}`).join(", ") });
  for (const part of [0, 0.5, 1]) {
    box.append(svg("line", { class: "rule", x1: left, x2: w - 6, y1: y(top * part), y2: y(top * part) }),
      svg("text", { class: "tick", x: left - 6, y: y(top * part) + 4, "text-anchor": "end" }, short(top * part)));
  }
  for (const part of [0, 0.5, 1]) {
    const time = new Date(end - (1 - part) * (points - 1) * every);
    box.append(svg("text", { class: "tick", x: left + inner * part, y: h - 3, "text-anchor": ["start", "middle", "end"][part * 2] },
      time.toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" })));
  }
  for (const s of series) {
    const from = points - s.values.length;
    const line = s.values.map((v, i) => `${x(from + i).toFixed(1)} ${y(v).toFixed(1)}`).join("L");
    if (s.values.length > 1) box.append(svg("path", { class: "line " + s.className, d: "M" + line }));
  }
  return make("figure", { className: "card" }, make("figcaption", {}, title,
    make("span", { className: "legend" }, series.map(s => make("span", { className: s.className }, s.label + " ", make("b", {}, text(s.values.at(-1) ?? 0)))))), box);
}

// nice rounds up to a number that reads well on an axis.
function nice(n) {
  const size = 10 ** Math.floor(Math.log10(n));
  return [1, 2, 4, 5, 10].map(m => m * size).find(m => m >= n);
}

function short(n) {
  if (n >= 1e6) return n / 1e6 + "M";
  return n >= 1e4 ? n / 1e3 + "k" : String(Math.round(n * 10) / 10);
}
