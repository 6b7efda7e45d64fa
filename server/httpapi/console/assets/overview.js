// All tubes, live.
import { make, compare, number, rate, span, plural, remember, attempt, problemOf, button, ask, note, wrongDuration, durations } from "./ui.js";
import { call, tubes, follow, stream, setFollowing, may, mayOn, mayEverywhere, readRights, tubePath, tubePage, searchPage } from "./api.js";
import { HungBanner } from "./hung.js";
import { Rows } from "./rows.js";
import { spark } from "./chart.js";

const charts = new Map(); // name -> numbers of ready jobs
let chartsAt = 0;
const narrow = matchMedia("(max-width: 720px)");

const zero = "0";
const count = (key, label, title, more) => ({ key, label, title, number: true, cell: t => t[key] ? number(t[key]) : zero, className: t => t[key] ? key === "buried" ? " warn" : "" : " zero", ...more });

// columns are all columns. Those with off are hidden by default; those with phone are shown on narrow
// screens by default.
const columns = [
  { key: "name", label: "Tube", min: 150, grow: 4, always: true, stamp: t => t.name + " " + !!t.paused_until + t.policy + (t.pause_reason ?? ""), cell: t => {
    const e = make("span", { className: "tubename" }, make("a", { href: tubePage(t.name), tabIndex: -1, title: t.name }, t.name));
    if (t.paused_until) e.append(make("span", { className: "badge pause", title: t.pause_reason || "Workers get no jobs of this tube" }, "paused"));
    if (t.policy) e.append(make("span", { className: "badge soft", title: "This tube has a policy" }, "policy"));
    return e;
  } },
  { key: "spark", label: "Last 10 min", title: "Ready jobs", min: 104, grow: 0.01, sortable: false, stamp: t => charts.get(t.name), cell: t => spark(charts.get(t.name) ?? []) },
  count("ready", "Ready", "Jobs that wait to be reserved", { phone: true, min: 56 }),
  count("urgent", "Urgent", "Ready jobs with a priority below 1024", { min: 56 }),
  count("reserved", "Reserved", "Jobs that workers hold", { phone: true, min: 66 }),
  count("delayed", "Delayed", "Jobs that are not due yet", { min: 60 }),
  count("buried", "Buried", "Jobs that were set aside (dead letters)", { phone: true, min: 56 }),
  count("waiting", "Waiting", "Workers that wait for a job", { min: 60 }),
  { key: "put_rate", label: "Puts/s", number: true, min: 60, cell: t => rate(t.put_rate), className: t => t.put_rate ? "" : " zero" },
  { key: "delete_rate", label: "Done/s", title: "Jobs deleted per second", number: true, min: 60, cell: t => rate(t.delete_rate), className: t => t.delete_rate ? "" : " zero" },
  { key: "oldest", label: "Oldest", title: "Age of the oldest ready job", number: true, min: 70, cell: t => t.oldest_at ? span(Date.now() - t.oldest_at) : "–", className: t => t.oldest_at ? "" : " zero" },
  { key: "wait_p95_ms", label: "p95 wait", title: "95th percentile of the time from ready to delivery", number: true, min: 76, cell: t => t.wait_p95_ms < 0 ? "–" : "≤ " + span(t.wait_p95_ms), className: t => t.wait_p95_ms < 0 ? " zero" : "" },
  count("watching", "Watching", "Connections that watch the tube", { off: true }),
  count("using", "Using", "Connections that use the tube", { off: true }),
  count("total", "Total", "Jobs put so far", { off: true }),
  count("deletes", "Deleted", "Jobs deleted so far", { off: true }),
];

const value = (t, key) => key === "oldest" ? (t.oldest_at ? -t.oldest_at : -Infinity) : t[key];

async function readCharts() {
  chartsAt = Date.now();
  const data = await call("GET", "/v1/charts", { query: { points: 60 } });
  for (const name of charts.keys()) if (!Object.hasOwn(data.tubes, name)) charts.delete(name);
  for (const [name, c] of Object.entries(data.tubes)) charts.set(name, c.ready);
}

// matcher returns a function that reports whether a name matches a filter: a part of the name, or
// /a regular expression/. An invalid one is an error.
function matcher(filter) {
  const expression = /^\/(.+)\/(i?)$/.exec(filter);
  if (expression) {
    const pattern = new RegExp(expression[1], expression[2]);
    return name => pattern.test(name);
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
    Object.assign(this, { main, filter: remember.get("filter", ""), busy: remember.get("busy", false), order: remember.get("sort", { key: "name", down: false }), list: [], selection: may("admin") ? new Set() : null });
    this.sums = make("div", { className: "sums" });
    this.empty = make("p", { className: "empty", hidden: true });
    this.hung = new HungBanner();
    this.actions = make("div", { className: "selection", role: "group", "aria-label": "Selected tubes", hidden: true });
    this.matches = make("span", { className: "soft", role: "status" });
    this.rows = new Rows({
      label: "Tubes", columns: this.chosen(), sort: this.order, selection: this.selection, idOf: t => t.name, open: t => { location.hash = tubePage(t.name); },
      onsort: s => { this.order = s; remember.set("sort", s); this.draw(); },
    });
    this.rows.highlight = remember.get("highlight", false);
    this.rows.element.addEventListener("selectionchanged", () => this.drawSelection());
    main.append(this.bar(), this.hung.element, this.sums, this.actions, this.rows.element, this.empty, this.matches);
    this.resized = () => { this.rows.setColumns(this.chosen()); this.fillPicker(); };
    narrow.addEventListener("change", this.resized);
    this.stop = follow(() => this.update());
    this.clock = setInterval(() => { if (stream.state === "live") { this.rows.soon(); this.update(); } }, 5000); // ages grow, and workers hang, even if nothing changes
    this.draw();
    attempt(() => this.readMore());
  }

  end() {
    this.stop();
    clearInterval(this.clock);
    narrow.removeEventListener("change", this.resized);
  }

  // shown returns the set of shown columns, which is stored in the browser.
  shown() {
    return new Set(narrow.matches ? remember.get("columns.narrow", columns.filter(c => c.phone).map(c => c.key)) : remember.get("columns", columns.filter(c => !c.off).map(c => c.key)));
  }

  chosen() {
    const shown = this.shown();
    return columns.filter(c => c.always || shown.has(c.key)).map(c => narrow.matches && c.always ? { ...c, min: 98 } : c);
  }

  bar() {
    const filter = make("input", { type: "search", id: "filter", placeholder: "Filter: text or /regexp/", "aria-label": "Filter by name", value: this.filter, oninput: e => { this.filter = e.target.value; remember.set("filter", this.filter); this.draw(); } });
    this.problem = problemOf(filter);
    const busy = make("input", { type: "checkbox", id: "busy", checked: this.busy, onchange: e => { this.busy = e.target.checked; remember.set("busy", this.busy); this.draw(); } });
    this.follow = make("button", { type: "button", id: "follow", onclick: () => setFollowing(stream.state === "paused") });
    this.menu = make("div", { className: "menu" });
    this.fillPicker();
    const picker = make("details", { className: "picker", id: "columns", "aria-label": "View", onkeydown: e => { if (e.key === "Escape") { picker.open = false; picker.firstChild.focus(); e.stopPropagation(); } } }, make("summary", {}, "View"), this.menu);
    picker.addEventListener("focusout", e => { if (e.relatedTarget && !picker.contains(e.relatedTarget)) picker.open = false; });
    return make("div", { className: "bar" }, make("h1", {}, "Tubes"), filter, this.problem.element, make("label", { className: "check" }, busy, " only with jobs"), this.follow, picker);
  }

  fillPicker() {
    const box = (name, checked, label, f) => make("label", {}, make("input", { type: "checkbox", name, checked, onchange: e => f(e.target.checked) }), " " + label);
    const shown = this.shown(), key = narrow.matches ? "columns.narrow" : "columns";
    this.menu.replaceChildren(make("b", {}, "Columns"), ...columns.filter(c => !c.always).map(c => box("column-" + c.key, shown.has(c.key), c.label, on => {
      on ? shown.add(c.key) : shown.delete(c.key);
      remember.set(key, [...shown]);
      this.rows.setColumns(this.chosen());
    })), make("hr", {}), box("highlight", remember.get("highlight", false), "Highlight changes", on => {
      remember.set("highlight", on);
      this.rows.highlight = on;
    }));
  }

  update() {
    this.draw();
    if (Date.now() - chartsAt > 10_000 && stream.state === "live") this.readMore().catch(() => {});
  }

  // readMore reads what the stream does not have.
  async readMore() {
    await readCharts();
    this.draw();
    await this.hung.read();
  }

  // matcher returns the matcher of the filter. If that is invalid it says so, and no tube matches: what is selected can be flushed.
  matcher() {
    try {
      const matches = matcher(this.filter);
      this.problem.say("");
      return matches;
    } catch (err) {
      this.problem.say(err.message + ".");
      return () => false;
    }
  }

  // draw sorts and shows the tubes. It starts from the previous order, which is nearly sorted.
  draw() {
    const matches = this.matcher(), seen = new Set();
    const fit = t => matches(t.name) && (!this.busy || t.ready + t.reserved + t.delayed + t.buried > 0);
    const list = this.list.filter(t => tubes.get(t.name) === t && fit(t) && seen.add(t));
    if (list.length < tubes.size) for (const t of tubes.values()) if (!seen.has(t) && fit(t)) list.push(t);
    const { key, down } = this.order, sign = down ? -1 : 1;
    list.sort((a, b) => compare(value(a, key), value(b, key)) * sign || compare(a.name, b.name));
    this.list = list;
    this.rows.set(list);
    this.drawSums();
    this.drawAround();
  }

  drawAround() {
    const known = stream.at > 0;
    this.empty.hidden = this.list.length > 0;
    this.rows.element.hidden = !this.list.length;
    this.drawEmpty(!known || this.problem.element.textContent ? "" : tubes.size ? "No tube matches the filter." : mayEverywhere("list") ? "There are no tubes yet. Put a job to create one." : "There is no tube that you may list.");
    const matches = this.list.length < tubes.size ? `${number(this.list.length)} of ${plural(tubes.size, "tube")}` : "";
    if (this.matches.textContent !== matches) this.matches.textContent = matches;
    const paused = stream.state === "paused";
    this.follow.setAttribute("aria-pressed", !paused);
    this.follow.textContent = paused ? "Resume updates" : "Pause updates";
    if (known) this.main.dataset.ready = "true";
    if (this.selection?.size) this.drawSelection();
  }

  // drawEmpty says why no tube is shown. Somebody may have typed what only a search of jobs finds.
  drawEmpty(text) {
    const sought = tubes.size && text ? this.filter.trim() : "", seen = text + sought;
    if (this.empty.seen === seen) return; // the link keeps the focus
    this.empty.seen = seen;
    this.empty.replaceChildren(text, ...sought ? [" ", make("a", { href: searchPage(sought) }, `Search jobs for ${sought}`)] : []);
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

  // selected returns the selected tubes that still exist.
  selected() { return [...this.selection].map(n => tubes.get(n)).filter(Boolean); }

  drawSelection() {
    const n = this.selected().length;
    this.actions.hidden = n === 0;
    if (!n) { this.count = null; return; }
    if (!this.count) {
      this.count = make("b", {});
      this.actions.replaceChildren(this.count, button("kick", "Kick", () => this.kick()), button("pause", "Pause", () => this.pause()), button("resume", "Resume", () => this.resume()),
        button("flush", "Flush", () => this.flush(), "danger"), button("unmark", "Clear selection", () => { this.selection.clear(); this.rows.selectionChanged(); }, "quiet"));
    }
    this.count.textContent = plural(n, "tube") + " selected";
  }

  // each applies f to the selected tubes on which the user has the right admin, one after the other.
  async each(f, done) {
    const all = this.selected();
    await readRights(all.map(t => t.name));
    let n = 0, tried = 0, wrong = "";
    for (const t of all.filter(t => mayOn(t.name, "admin"))) {
      tried++;
      try { n += (await f(tubePath(t.name)))?.count ?? 1; } catch (err) { wrong ||= `${t.name}: ${err.message}`; }
    }
    const left = all.length - tried;
    note(done(n) + (left ? ` ${plural(left, "tube")} skipped: you do not have the right admin.` : "") + (wrong ? ` ${wrong}` : ""), !!(left || wrong));
  }

  sum(...keys) { return this.selected().reduce((n, t) => n + keys.reduce((m, k) => m + t[k], 0), 0); }

  async kick() {
    const kicked = () => this.selected().reduce((n, t) => n + (t.buried || t.delayed), 0);
    if (!await ask({ name: "kick", title: `Kick all jobs of ${plural(this.selected().length, "tube")}?`, text: "In each tube all buried jobs become ready; if there are none, all delayed jobs.", hits: () => `${plural(kicked(), "job")} will become ready.`, action: "Kick" })) return;
    await this.each(path => call("POST", path + "/kick", { query: { n: 4294967295 } }), n => `${plural(n, "job")} kicked.`);
  }

  async pause() {
    const v = await ask({ name: "pause", title: `Pause ${plural(this.selected().length, "tube")}?`, text: "Workers get no jobs of these tubes for that time. Puts still work.", hits: () => `${plural(this.sum("ready"), "ready job")} and ${plural(this.sum("waiting"), "worker")} will wait.`, action: "Pause",
      fields: [{ name: "for", label: "For", value: "10m", help: durations }, { name: "reason", label: "Reason", maxLength: 200 }], check: v => wrongDuration(v.for) });
    if (v) await this.each(path => call("POST", path + "/pause", { query: { for: v.for, reason: v.reason } }), n => `${plural(n, "tube")} paused.`);
  }

  resume() { return this.each(path => call("POST", path + "/pause", { query: { for: "0" } }), n => `${plural(n, "tube")} resumed.`); }

  async flush() {
    const all = this.selected().length, hit = state => state ? this.sum(state) : this.sum("ready", "delayed", "buried");
    const v = await ask({ name: "flush", title: `Flush ${plural(all, "tube")}?`, text: "Jobs are deleted. This cannot be undone.", hits: v => `${plural(hit(v.state), "job")} will be deleted.`, action: "Delete", danger: true,
      fields: [{ name: "state", label: "Which", value: "", options: [{ value: "", label: "ready, delayed and buried" }, "ready", "delayed", "buried", "reserved"] }, { name: "sure", label: `Type ${all} to confirm` }],
      check: v => v.sure.trim() === String(all) ? "" : "The number does not match." });
    if (v) await this.each(path => call("DELETE", path + "/jobs", { query: { state: v.state } }), n => `${plural(n, "job")} deleted.`);
  }
}
