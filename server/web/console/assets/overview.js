// All tubes, live.
import { make, number, rate, span, plural, remember, attempt } from "./ui.js";
import { call, tubes, follow } from "./api.js";
import { Rows } from "./rows.js";
import { spark } from "./chart.js";

const charts = new Map(); // name -> numbers of ready jobs
let chartsAt = 0;

const count = (key, label, title) => ({ key, label, title, number: true, cell: t => t[key] ? number(t[key]) : make("span", { className: "zero" }, "0"), className: t => t[key] && key === "buried" ? " warn" : "" });

// columns are all that can be shown; those without off are shown at first.
const columns = [
  { key: "name", label: "Tube", width: "minmax(11rem, 3fr)", always: true, cell: t => {
    const e = make("span", { className: "tubename" }, make("a", { href: "#/tube/" + encodeURIComponent(t.name), tabIndex: -1 }, t.name));
    if (t.paused_until) e.append(make("span", { className: "badge" }, "paused"));
    if (t.policy) e.append(make("span", { className: "badge soft", title: "This tube has a policy" }, "policy"));
    return e;
  } },
  { key: "spark", label: "Last 10 min", title: "Ready jobs", width: "112px", sortable: false, cell: t => spark(charts.get(t.name) ?? []) },
  count("ready", "Ready", "Jobs that wait to be reserved"),
  count("urgent", "Urgent", "Ready jobs with a priority below 1024"),
  count("reserved", "Reserved", "Jobs that are being worked on"),
  count("delayed", "Delayed", "Jobs that are not due yet"),
  count("buried", "Buried", "Jobs that were set aside"),
  count("waiting", "Waiting", "Workers that wait for a job"),
  { key: "put_rate", label: "Puts/s", number: true, cell: t => rate(t.put_rate) },
  { key: "delete_rate", label: "Done/s", title: "Jobs deleted a second", number: true, cell: t => rate(t.delete_rate) },
  { key: "oldest", label: "Oldest", title: "Age of the oldest ready job", number: true, cell: t => t.oldest_at ? span(Date.now() - t.oldest_at) : "–" },
  { key: "wait_p95_ms", label: "p95 wait", title: "95 of 100 jobs were delivered within this time after they were due", number: true, cell: t => t.wait_p95_ms < 0 ? "–" : "≤ " + span(t.wait_p95_ms) },
  { ...count("watching", "Watching", "Connections that watch the tube"), off: true },
  { ...count("using", "Using", "Connections that use the tube"), off: true },
  { ...count("total", "Total", "Jobs ever put"), off: true },
  { ...count("deletes", "Deletes", "Jobs ever deleted"), off: true },
];

const value = (t, key) => key === "oldest" ? (t.oldest_at ? -t.oldest_at : -Infinity) : t[key];

async function readCharts() {
  chartsAt = Date.now();
  const news = await call("GET", "/v1/charts", { query: { points: 60 } });
  charts.clear();
  for (const [name, c] of Object.entries(news.tubes)) charts.set(name, c.ready);
}

export function overview(main) {
  let filter = remember.get("filter", ""), onlyBusy = remember.get("busy", false);
  let order = remember.get("sort", { key: "name", down: false });
  const shown = new Set(remember.get("columns", columns.filter(c => !c.off).map(c => c.key)));
  const sums = make("div", { className: "sums" });
  const empty = make("p", { className: "empty", hidden: true });
  const rows = new Rows({
    label: "Tubes", columns: chosen(), sort: order, open: t => { location.hash = "#/tube/" + encodeURIComponent(t.name); },
    onsort: s => { order = s; remember.set("sort", s); draw(); },
  });
  function chosen() { return columns.filter(c => c.always || shown.has(c.key)); }

  const picker = make("details", { className: "picker" }, make("summary", {}, "Columns"),
    make("div", { className: "menu" }, columns.filter(c => !c.always).map(c => make("label", {}, make("input", { type: "checkbox", checked: shown.has(c.key), onchange: e => {
      e.target.checked ? shown.add(c.key) : shown.delete(c.key);
      remember.set("columns", [...shown]);
      rows.setColumns(chosen());
    } }), " " + c.label))));
  main.append(make("div", { className: "bar" },
    make("h1", {}, "Tubes"),
    make("input", { type: "search", placeholder: "Filter  /", "aria-label": "Filter by name", value: filter, oninput: e => { filter = e.target.value; remember.set("filter", filter); draw(); } }),
    make("label", { className: "check" }, make("input", { type: "checkbox", checked: onlyBusy, onchange: e => { onlyBusy = e.target.checked; remember.set("busy", onlyBusy); draw(); } }), " with jobs only"),
    picker), sums, rows.element, empty);

  function draw() {
    const word = filter.toLowerCase();
    let list = [...tubes.values()];
    drawSums(sums, list);
    list = list.filter(t => t.name.toLowerCase().includes(word) && (!onlyBusy || t.ready + t.reserved + t.delayed + t.buried > 0));
    const sign = order.down ? -1 : 1;
    list.sort((a, b) => {
      const x = value(a, order.key), y = value(b, order.key);
      return (x < y ? -1 : x > y ? 1 : 0) * sign || (a.name < b.name ? -1 : 1);
    });
    rows.set(list);
    empty.hidden = list.length > 0;
    empty.textContent = tubes.size ? "No tube fits the filter." : "There is no tube yet.";
  }
  const stop = follow(() => {
    draw();
    if (Date.now() - chartsAt > 10_000) readCharts().then(draw, () => {});
  });
  draw();
  attempt(async () => { await readCharts(); draw(); });
  return stop;
}

function drawSums(e, list) {
  const sum = key => list.reduce((n, t) => n + t[key], 0);
  const tile = (label, text, className = "") => make("div", { className: "tile " + className }, make("b", {}, text), make("span", {}, label));
  e.replaceChildren(tile(list.length === 1 ? "tube" : "tubes", number(list.length)), tile("ready", number(sum("ready")), "ready"), tile("reserved", number(sum("reserved")), "reserved"),
    tile("delayed", number(sum("delayed")), "delayed"), tile("buried", number(sum("buried")), "buried"), tile("puts/s", rate(sum("put_rate"))), tile("done/s", rate(sum("delete_rate"))), tile("workers wait", number(sum("waiting"))));
}
