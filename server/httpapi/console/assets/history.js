// Charts of an hour, a day, a week and a quarter.
import { make, span, remember } from "./ui.js";
import { call } from "./api.js";
import { chart } from "./chart.js";

const hour = 3600e3;
const local = options => at => new Date(at).toLocaleString("en-GB", options);
const hours = { period: "hours", every: hour, title: "an hour" };
const ranges = {
  day: { ...hours, label: "Day", count: 24, when: local({ hour: "2-digit", minute: "2-digit" }) },
  week: { ...hours, label: "Week", count: 168, when: local({ weekday: "short", hour: "2-digit", minute: "2-digit" }) },
  quarter: { period: "days", every: 24 * hour, title: "a day", label: "Quarter", count: 90, when: local({ day: "numeric", month: "short", timeZone: "UTC" }) },
};

// axis formats a time in ms in one unit.
function axis(ms) {
  const [unit, size] = [["d", 24 * hour], ["h", hour], ["m", 60e3], ["s", 1e3], ["ms", 1]].find(([, size]) => ms >= size) ?? ["ms", 1];
  return Math.round(10 * ms / size) / 10 + " " + unit;
}

// figures returns the charts of what happened, below a path, in a range: numbers of jobs, and mean times.
async function figures(path, name) {
  const { period, every, title, count, when } = ranges[name];
  const got = await call("GET", path + "/history", { query: { period, count } });
  const last = Math.floor(got.now / every), found = new Map(got.periods.map(p => [p.begin / every, p]));
  const of = f => Array.from({ length: count }, (_, i) => found.get(last - count + 1 + i)).map(p => p ? f(p) : 0);
  const mean = (sum, n) => of(p => p[n] ? p[sum] / p[n] : 0);
  const draw = (id, text, series, more) => chart(id, text, series, last * every, every, { when, least: 0, range: "the last " + name, ...more });
  return [
    draw("history", "Jobs " + title, [["put", "puts"], ["done", "done"], ["failed", "delayed"], ["parked", "buried"]].map(([label, className]) => ({ label, className, values: of(p => p[label]) }))),
    draw("times", "Mean times", [{ label: "wait", values: mean("wait_ms", "first"), className: "ready" }, { label: "run", values: mean("run_ms", "done"), className: "reserved" }], { text: span, axis }),
  ];
}

// Charts shows the charts of one range, which the buttons above them choose. ofHour returns those of the last hour; null:
// there are none.
export class Charts {
  constructor(path, ofHour) {
    Object.assign(this, { path, ofHour, range: remember.get("range", "hour") });
    if (!ranges[this.range] && !(ofHour && this.range === "hour")) this.range = ofHour ? "hour" : "day";
    const names = [ofHour && ["hour", "Hour"], ...Object.entries(ranges).map(([name, r]) => [name, r.label])].filter(Boolean);
    this.buttons = names.map(([name, label]) => make("button", { type: "button", "data-range": name, onclick: () => this.choose(name) }, label));
    this.figures = make("div", { className: "charts" });
    this.element = make("div", { className: "ranges gap" }, make("div", { className: "tabs", role: "group", "aria-label": "Charts of" }, this.buttons), this.figures);
    this.mark();
  }

  mark() { for (const b of this.buttons) b.setAttribute("aria-pressed", b.dataset.range === this.range); }

  choose(name) {
    this.range = name;
    remember.set("range", name);
    this.mark();
    return this.read();
  }

  // read loads and draws the charts. If that fails the old ones stay: the state of the stream shows that the server is unreachable.
  async read() {
    const range = this.range;
    try {
      const drawn = await (range === "hour" ? this.ofHour() : figures(this.path, range));
      if (range === this.range) this.figures.replaceChildren(...drawn);
    } catch { /* see above */ }
  }
}
