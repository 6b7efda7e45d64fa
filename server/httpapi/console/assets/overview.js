// All tubes, live.
import { make, number, rate, span, plural, remember, attempt, button, ask, note, wrongDuration, durations } from "./ui.js";
import { call, tubes, follow, stream, setFollowing, may, mayOn, readRights, tubePath, tubePage } from "./api.js";
import { Rows } from "./rows.js";
import { spark } from "./chart.js";

const charts = new Map(); // name -> numbers of ready jobs
let chartsAt = 0;
const narrow = matchMedia("(max-width: 720px)");

const zero = "0";
const count = (key, label, title, more) => ({ key, label, title, number: true, cell: t => t[key] ? number(t[key]) : zero, className: t => t[key] ? key === "buried" ? " warn" : "" : " zero", ...more });

// columns are all that can be shown; those with "off" are not at first, those with phone are on
// narrow screens.
const columns = [
  { key: "name", label: "Tube", min: 150, grow: 4, always: true, stamp: t => t.name + " " + !!t.paused_until + t.policy + (t.paused_because ?? ""), cell: t => {
    const e = make("span", { className: "tubename" }, make("a", { href: tubePage(t.name), tabIndex: -1, title: t.name }, t.name));
    if (t.paused_until) e.append(make("span", { className: "badge pause", title: t.paused_because || "Workers get no jobs of this tube" }, "paused"));
    if (t.policy) e.append(make("span", { className: "badge soft", title: "This tube has a policy" }, "policy"));
    return e;
  } },
  { key: "spark", label: "Last 10 min", title: "Ready jobs", min: 104, grow: 0.01, sortable: false, stamp: t => charts.get(t.name), cell: t => spark(charts.get(t.name) ?? []) },
  count("ready", "Ready", "Jobs that wait to be reserved", { phone: true, min: 56 }),
  count("urgent", "Urgent", "Ready jobs with a priority below 1024", { min: 56 }),
  count("reserved", "Reserved", "Jobs that are being worked on", { phone: true, min: 66 }),
  count("delayed", "Delayed", "Jobs that are not due yet", { min: 60 }),
  count("buried", "Buried", "Jobs that were set aside", { phone: true, min: 56 }),
  count("waiting", "Waiting", "Workers that wait for a job", { min: 60 }),
  { key: "put_rate", label: "Puts/s", number: true, min: 60, cell: t => rate(t.put_rate), className: t => t.put_rate ? "" : " zero" },
  { key: "delete_rate", label: "Done/s", title: "Jobs deleted a second", number: true, min: 60, cell: t => rate(t.delete_rate), className: t => t.delete_rate ? "" : " zero" },
  { key: "oldest", label: "Oldest", title: "Age of the oldest ready job", number: true, min: 70, cell: t => t.oldest_at ? span(Date.now() - t.oldest_at) : "–", className: t => t.oldest_at ? "" : " zero" },
  { key: "wait_p95_ms", label: "p95 wait", title: "95 of 100 jobs were delivered within this time after they were due", number: true, min: 76, cell: t => t.wait_p95_ms < 0 ? "–" : "≤ " + span(t.wait_p95_ms), className: t => t.wait_p95_ms < 0 ? " zero" : "" },
  count("watching", "Watching", "Connections that watch the tube", { off: true }),
  count("using", "Using", "Connections that use the tube", { off: true }),
  count("total", "Total", "Jobs ever put", { off: true }),
  count("deletes", "Deleted", "Jobs ever deleted", { off: true }),
];

const value = (t, key) => key === "oldest" ? (t.oldest_at ? -t.oldest_at : -Infinity) : t[key];

async function readCharts() {
  chartsAt = Date.now();
  const news = await call("GET", "/v1/charts", { query: { points: 60 } });
  for (const name of charts.keys()) if (!Object.hasOwn(news.tubes, name)) charts.delete(name);
  for (const [name, c] of Object.entries(news.tubes)) charts.set(name, c.ready);
}

// fits returns what tells whether a name fits a filter: a part of it, or /an expression/.
export function fits(filter) {
  const expression = /^\/(.+)\/(i?)$/.exec(filter);
  if (expression) {
    try {
      const is = new RegExp(expression[1], expression[2]);
      return name => is.test(name);
    } catch { /* then it is a part of a name */ }
  }
  const word = filter.toLowerCase();
  return name => name.toLowerCase().includes(word);
}

export function overview(main) {
  const view = new Overview(main);
  return () => view.end();
}

class Overview {
  constructor(main) {
    Object.assign(this, { main, filter: remember.get("filter", ""), busy: remember.get("busy", false), order: remember.get("sort", { key: "name", down: false }), list: [], mark: may("admin") ? new Set() : null });
    this.sums = make("div", { className: "sums" });
    this.empty = make("p", { className: "empty", hidden: true });
    this.actions = make("div", { className: "marked", role: "group", "aria-label": "With the marked tubes", hidden: true });
    this.tally = make("span", { className: "soft", role: "status" });
    this.rows = new Rows({
      label: "Tubes", columns: this.chosen(), sort: this.order, mark: this.mark, idOf: t => t.name, open: t => { location.hash = tubePage(t.name); },
      onsort: s => { this.order = s; remember.set("sort", s); this.draw(); },
    });
    this.rows.highlight = remember.get("highlight", false);
    this.rows.element.addEventListener("marked", () => this.drawMarked());
    main.append(this.bar(), this.sums, this.actions, this.rows.element, this.empty, this.tally);
    this.widened = () => { this.rows.setColumns(this.chosen()); this.fillPicker(); };
    narrow.addEventListener("change", this.widened);
    this.stop = follow(() => this.news());
    this.clock = setInterval(() => { if (stream.state === "live") this.rows.soon(); }, 5000); // ages go on when nothing changes
    this.draw();
    attempt(async () => { await readCharts(); this.draw(); });
  }

  end() {
    this.stop();
    clearInterval(this.clock);
    narrow.removeEventListener("change", this.widened);
  }

  // shown is the set of the columns that are shown, which the browser keeps.
  shown() {
    return new Set(narrow.matches ? remember.get("columns.narrow", columns.filter(c => c.phone).map(c => c.key)) : remember.get("columns", columns.filter(c => !c.off).map(c => c.key)));
  }

  chosen() {
    const shown = this.shown();
    return columns.filter(c => c.always || shown.has(c.key)).map(c => narrow.matches && c.always ? { ...c, min: 98 } : c);
  }

  bar() {
    const filter = make("input", { type: "search", id: "filter", placeholder: "Filter: a part, or /regexp/", "aria-label": "Filter by name", value: this.filter, oninput: e => { this.filter = e.target.value; remember.set("filter", this.filter); this.draw(); } });
    const busy = make("input", { type: "checkbox", id: "busy", checked: this.busy, onchange: e => { this.busy = e.target.checked; remember.set("busy", this.busy); this.draw(); } });
    this.follow = make("button", { type: "button", id: "follow", onclick: () => setFollowing(stream.state === "paused") });
    this.menu = make("div", { className: "menu" });
    this.fillPicker();
    const picker = make("details", { className: "picker", id: "columns", "aria-label": "View", onkeydown: e => { if (e.key === "Escape") { picker.open = false; picker.firstChild.focus(); e.stopPropagation(); } } }, make("summary", {}, "View"), this.menu);
    picker.addEventListener("focusout", e => { if (e.relatedTarget && !picker.contains(e.relatedTarget)) picker.open = false; });
    return make("div", { className: "bar" }, make("h1", {}, "Tubes"), filter, make("label", { className: "check" }, busy, " with jobs only"), this.follow, picker);
  }

  fillPicker() {
    const box = (name, checked, label, f) => make("label", {}, make("input", { type: "checkbox", name, checked, onchange: e => f(e.target.checked) }), " " + label);
    const shown = this.shown(), key = narrow.matches ? "columns.narrow" : "columns";
    this.menu.replaceChildren(make("b", {}, "Columns"), ...columns.filter(c => !c.always).map(c => box("column-" + c.key, shown.has(c.key), c.label, on => {
      on ? shown.add(c.key) : shown.delete(c.key);
      remember.set(key, [...shown]);
      this.rows.setColumns(this.chosen());
    })), make("hr", {}), box("highlight", remember.get("highlight", false), "Highlight what changes", on => {
      remember.set("highlight", on);
      this.rows.highlight = on;
    }));
  }

  news() {
    this.draw();
    if (Date.now() - chartsAt > 10_000 && stream.state === "live") readCharts().then(() => this.draw(), () => {});
  }

  // draw sorts the tubes, which are nearly sorted from the time before, and shows them.
  draw() {
    const is = fits(this.filter), seen = new Set();
    const fit = t => is(t.name) && (!this.busy || t.ready + t.reserved + t.delayed + t.buried > 0);
    const list = this.list.filter(t => tubes.get(t.name) === t && fit(t) && seen.add(t));
    if (list.length < tubes.size) for (const t of tubes.values()) if (!seen.has(t) && fit(t)) list.push(t);
    const { key, down } = this.order, sign = down ? -1 : 1;
    list.sort((a, b) => {
      const x = value(a, key), y = value(b, key);
      return (x < y ? -1 : x > y ? 1 : 0) * sign || (a.name < b.name ? -1 : 1);
    });
    this.list = list;
    this.rows.set(list);
    this.drawSums();
    this.drawAround();
  }

  drawAround() {
    const known = stream.at > 0;
    this.empty.hidden = this.list.length > 0;
    this.rows.element.hidden = !this.list.length;
    this.empty.textContent = !known ? "" : tubes.size ? "No tube fits the filter." : "There is no tube yet. Put a job, and there is.";
    const tally = this.list.length < tubes.size ? `${number(this.list.length)} of ${plural(tubes.size, "tube")}` : "";
    if (this.tally.textContent !== tally) this.tally.textContent = tally;
    const paused = stream.state === "paused";
    this.follow.setAttribute("aria-pressed", !paused);
    this.follow.textContent = paused ? "Follow live" : "Stand still";
    if (known) this.main.dataset.ready = "true";
    if (this.mark?.size) this.drawMarked();
  }

  drawSums() {
    const sum = { ready: 0, reserved: 0, delayed: 0, buried: 0, put_rate: 0, delete_rate: 0, waiting: 0, urgent: 0 };
    for (const t of this.list) for (const key in sum) sum[key] += t[key];
    const tile = (key, label, text, className = "") => {
      let e = this.sums.querySelector(`[data-sum="${key}"]`);
      if (!e) this.sums.append(e = make("div", { className: "tile " + className, "data-sum": key }, make("b", {}), make("span", {})));
      if (e.firstChild.textContent !== text) e.firstChild.textContent = text;
      if (e.lastChild.textContent !== label) e.lastChild.textContent = label;
    };
    tile("tubes", this.list.length === 1 ? "tube" : "tubes", number(this.list.length));
    for (const state of ["ready", "reserved", "delayed", "buried"]) tile(state, state, number(sum[state]), state);
    tile("put_rate", "puts/s", rate(sum.put_rate));
    tile("delete_rate", "done/s", rate(sum.delete_rate));
    tile("waiting", "waiting", number(sum.waiting));
  }

  // marked returns the tubes that are marked and still there.
  marked() { return [...this.mark].map(n => tubes.get(n)).filter(Boolean); }

  drawMarked() {
    const n = this.marked().length;
    this.actions.hidden = n === 0;
    if (!n) { this.count = null; return; }
    if (!this.count) {
      this.count = make("b", {});
      this.actions.replaceChildren(this.count, button("kick", "Kick", () => this.kick()), button("pause", "Pause", () => this.pause()), button("resume", "Go on", () => this.resume()),
        button("flush", "Flush", () => this.flush(), "danger"), button("unmark", "Unmark", () => { this.mark.clear(); this.rows.marked(); }, "quiet"));
    }
    this.count.textContent = plural(n, "tube") + " marked";
  }

  // each does something to the marked tubes on which one may, one after the other.
  async each(f, done) {
    const all = this.marked();
    await readRights(all.map(t => t.name));
    let n = 0, tried = 0, wrong = "";
    for (const t of all.filter(t => mayOn(t.name, "admin"))) {
      tried++;
      try { n += (await f(tubePath(t.name)))?.count ?? 1; } catch (err) { wrong ||= `${t.name}: ${err.message}`; }
    }
    const left = all.length - tried;
    note(done(n) + (left ? ` ${plural(left, "tube")} left alone: you may not change them.` : "") + (wrong ? ` ${wrong}` : ""), !!(left || wrong));
  }

  sum(...keys) { return this.marked().reduce((n, t) => n + keys.reduce((m, k) => m + t[k], 0), 0); }

  async kick() {
    const kicked = () => this.marked().reduce((n, t) => n + (t.buried || t.delayed), 0);
    if (!await ask({ name: "kick", title: `Kick all of ${plural(this.marked().length, "tube")}?`, text: "Of each tube all buried jobs become ready; if none is buried, all delayed ones.", hits: () => `It concerns ${plural(kicked(), "job")}.`, action: "Kick" })) return;
    await this.each(path => call("POST", path + "/kick", { query: { n: 4294967295 } }), n => `${plural(n, "job")} kicked.`);
  }

  async pause() {
    const v = await ask({ name: "pause", title: `Pause ${plural(this.marked().length, "tube")}?`, text: "Workers get no jobs of them for that long. Puts go on.", hits: () => `${plural(this.sum("ready"), "ready job")} will wait, and so will ${plural(this.sum("waiting"), "worker")}.`, action: "Pause",
      fields: [{ name: "for", label: "For", value: "10m", help: durations }, { name: "reason", label: "Reason", maxLength: 200 }], check: v => wrongDuration(v.for) });
    if (v) await this.each(path => call("POST", path + "/pause", { query: { for: v.for, reason: v.reason } }), n => `${plural(n, "tube")} paused.`);
  }

  resume() { return this.each(path => call("POST", path + "/pause", { query: { for: "0" } }), n => `${plural(n, "tube")} ${n === 1 ? "goes" : "go"} on.`); }

  async flush() {
    const all = this.marked().length, hit = state => state ? this.sum(state) : this.sum("ready", "delayed", "buried");
    const v = await ask({ name: "flush", title: `Flush ${plural(all, "tube")}?`, text: "Jobs are deleted. This cannot be undone.", hits: v => `${plural(hit(v.state), "job")} will be deleted.`, action: "Delete them", danger: true,
      fields: [{ name: "state", label: "Which", value: "", options: [{ value: "", label: "ready, delayed and buried" }, "ready", "delayed", "buried", "reserved"] }, { name: "sure", label: `Type ${all} to be sure` }],
      check: v => v.sure.trim() === String(all) ? "" : "That is another number." });
    if (v) await this.each(path => call("DELETE", path + "/jobs", { query: { state: v.state } }), n => `${plural(n, "job")} deleted.`);
  }
}
