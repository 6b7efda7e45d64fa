// One tube: its charts, its jobs by state, and the actions on them.
import { make, number, span, bytes, plural, note, attempt, problemOf, problemOfSearch, ask, rate, button, withMarks, durations, wrongDuration, two } from "./ui.js";
import { call, tubes, stream, follow, may, mayOn, readRights, tubePath, tubePage, parkedPage } from "./api.js";
import { Rows } from "./rows.js";
import { Walk, WalkBar } from "./walk.js";
import { chart } from "./chart.js";
import { Charts } from "./history.js";
import { Groups, hasGroupTag } from "./groups.js";
import { policyDialog, policyLine, readPolicy } from "./policy.js";
import { excerptOf } from "./body.js";
import { endedLink, readRecord, recordView } from "./ended.js";
import { JobDialog, actionButtons, heldBadge, groupBadge, isLetter } from "./job.js";

const states = ["ready", "reserved", "delayed", "buried"];
const tabs = [...states, "groups"];
const pageSize = 200;
const narrow = matchMedia("(max-width: 720px)");

// since returns the time since a job was loaded, by which its age has grown.
const since = j => Date.now() - j.read;

export const jobColumns = {
  id: { key: "id", label: "Job", min: 82, grow: 1, number: true, phone: true, cell: j => String(j.id) },
  state: { key: "state", label: "State", min: 84, grow: 0.5, stamp: j => j.state, cell: j => make("span", { className: "badge first " + j.state }, j.state), phone: true },
  priority: { key: "priority", label: "Priority", min: 66, number: true, cell: j => number(j.priority) },
  age: { key: "age", label: "Age", min: 72, number: true, phone: true, cell: j => span(j.age * 1000 + since(j)) },
  due: { key: "due", label: "Due in", title: "Time until a delayed job is ready, or until the TTR of a reserved job ends", min: 72, number: true, cell: j => j.due_ms ? j.due_ms > since(j) ? span(j.due_ms - since(j)) : "now" : "–", className: j => j.due_ms ? "" : " zero" },
  size: { key: "size", label: "Size", min: 60, number: true, cell: j => bytes(j.size) },
  reserves: { key: "reserves", label: "Tries", title: "How often it was reserved", min: 48, number: true, cell: j => number(j.reserves), className: j => j.reserves ? "" : " zero" },
};
// keyColumn shows the key and the beginning of the body, and the group on a second line.
const keyColumn = view => ({ key: "key", label: "Key and body", min: 180, grow: 9, phone: true, stamp: j => j, cell: j => {
  const key = j.key && make("b", { className: "keyword" }, withMarks(j.key, view.text)), body = excerptOf(j, text => withMarks(text, view.text));
  const badges = [groupBadge(j), j.held && heldBadge(j.held), j.parked && make("span", { className: "badge warn" }, "parked: " + j.parked),
    isLetter(j) && make("span", { className: "badge soft" }, "from " + j.from_tube), j.leased && make("span", { className: "badge soft" }, "lease"), j.progress && make("span", { className: "badge reserved", title: j.progress }, j.progress.slice(0, 40))];
  return j.group ? two([key, body], badges) : make("span", {}, key, badges, body);
} });

// tube shows a tube. part is "groups" to show its groups at once, and group the one whose dialog is opened.
export function tube(main, name, part = "", group = "") {
  if (!name) {
    location.replace("#/");
    return () => {};
  }
  const view = new TubeView(main, name, { part, group });
  return () => view.end();
}

// job shows a job in the page of its tube.
export function job(main, id) {
  let view = null, ended = false;
  attempt(async () => {
    let found = null;
    try {
      if (/^[0-9]{1,20}$/.test(id)) found = await call("GET", "/v1/jobs/" + id);
    } catch (err) {
      if (err.status !== 404 && err.status !== 422) throw err;
    }
    if (ended) return;
    const record = !found && /^[0-9]{1,20}$/.test(id) ? await readRecord(id) : null;
    if (ended) return;
    if (found) view = new TubeView(main, found.tube, { opened: found });
    else if (record) gone(main, id, record);
    else none(main, `Job ${id ?? ""}`, "There is no such job: it is done, it was deleted, or it was moved and has a new id.");
  });
  return () => { ended = true; view?.end(); };
}

// gone shows the record of a job that has ended.
function gone(main, id, record) {
  main.append(make("div", { className: "bar" }, make("h1", {}, "Job " + id), endedLink(record.tube)), make("div", { className: "card", "data-record": "" }, ...recordView(record)));
  main.dataset.ready = "true";
}

function none(main, title, text) {
  main.append(make("h1", {}, title), make("p", { className: "empty" }, text), make("p", { className: "empty" }, make("a", { href: "#/" }, "Tubes")));
  main.dataset.ready = "true";
}

class TubeView {
  // opened is a job that is shown at once, null for none. part and group are as in the address.
  constructor(main, name, { opened = null, part = "", group = "" }) {
    Object.assign(this, { main, name, opened, part, group, path: tubePath(name), jobs: [], next: "", text: "", everywhere: false, reading: null, ended: false, state: "" });
    main.append(make("div", { className: "bar" }, make("h1", {}, make("a", { href: "#/", className: "up" }, "Tubes"), make("span", { className: "soft" }, " / "), name), this.actions = make("div", { className: "actions" })));
    attempt(async () => {
      await readRights([name]);
      if (!this.ended) this.build();
    });
  }

  build() {
    const admin = mayOn(this.name, "admin");
    this.selection = admin ? new Set() : null;
    this.pauseBar = make("div", { className: "banner", role: "status", hidden: true });
    this.policy = make("div", { className: "gap" });
    this.summary = make("div", { className: "sums" });
    this.charts = new Charts(this.path, () => this.hourCharts());
    this.groups = new Groups(this.name, () => this.drawGroups());
    this.tabs = tabs.map(s => make("button", { type: "button", role: "tab", id: "tab-" + s, "aria-controls": "listed", onclick: () => this.turnTo(s) }));
    this.rows = new Rows({ label: "Jobs", columns: this.columns(), open: (j, i) => this.open(i), selection: this.selection, nameOf: j => "job " + j.id });
    this.rows.element.addEventListener("selectionchanged", () => this.drawSelection());
    this.selectionBar = make("div", { className: "selection", role: "group", "aria-label": "Selected jobs", hidden: true });
    this.empty = make("p", { className: "empty" });
    this.status = make("span", { className: "soft", role: "status" });
    this.more = make("button", { type: "button", id: "more", onclick: () => this.read(false) }, "More");
    this.refresh = make("button", { type: "button", id: "read", "data-read": "", title: "r", onclick: () => this.read(true) }, "Refresh");
    this.actions.append(...this.buttons(admin));
    this.main.append(this.pauseBar, this.policy, this.summary, this.charts.element,
      make("div", { className: "bar tight" }, make("div", { className: "tabs", role: "tablist", "aria-label": "States", onkeydown: e => this.tabKey(e) }, this.tabs), this.form = this.search = this.searchForm(), this.refresh),
      this.panel = make("div", { id: "listed", role: "tabpanel", className: "panel" }));
    this.progress = new WalkBar(attempt);
    this.elements = [this.selectionBar, this.rows.element, this.empty, make("div", { className: "foot" }, this.status, this.progress.element, this.more)];
    this.resized = () => this.rows.setColumns(this.columns());
    narrow.addEventListener("change", this.resized);
    this.stop = follow(() => this.update());
    this.timers = [setInterval(() => { this.charts.read(); this.groups.look(); }, 10_000), setInterval(() => this.rows.soon(), 1000)];
    const groups = this.part === "groups";
    this.settled = !!this.opened || groups;
    this.choose(groups ? "groups" : this.opened?.state ?? this.firstState());
    if (groups && this.group) attempt(() => this.groups.open(this.group));
    this.groups.look();
    this.charts.read();
    if (admin) attempt(async () => this.drawPolicy(await readPolicy(this.name)));
  }

  end() {
    this.ended = true;
    this.reading?.abort();
    this.walk?.stop();
    this.stop?.();
    this.groups?.close();
    this.timers?.forEach(clearInterval);
    if (this.resized) narrow.removeEventListener("change", this.resized);
  }

  // firstState returns the first state that has jobs.
  firstState() { return states.find(s => this.count(s) > 0) ?? "ready"; }

  // update shows the changes of the stream. While nothing is listed and no state was chosen, it chooses the
  // first state that has jobs.
  update() {
    if (!this.settled && this.fresh === false && !this.text && this.count(this.firstState()) > 0) {
      this.settled = true;
      this.choose(this.firstState());
    }
    this.drawState();
  }

  columns() {
    const all = [jobColumns.id, this.everywhere && this.text && jobColumns.state, jobColumns.priority, jobColumns.age, jobColumns.due, jobColumns.size, jobColumns.reserves, keyColumn(this)];
    return all.filter(c => c && (!narrow.matches || c.phone)).map(c => ({ ...c, sortable: false }));
  }

  searchForm() {
    const set = () => { this.text = input.value; this.problem.say(problemOfSearch(this.text.trim())); this.everywhere = all.value === "all"; this.rows.setColumns(this.columns()); this.drawState(); this.read(true); };
    const input = make("input", { type: "search", id: "search", placeholder: "Search this tube", "aria-label": "Search this tube by id, key, group or text", maxLength: 200, onchange: set });
    this.problem = problemOf(input);
    const all = make("select", { id: "search-in", "aria-label": "Where to search", onchange: () => { if (this.text) set(); } }, make("option", { value: "state" }, "in this state"), make("option", { value: "all" }, "in all states"));
    return make("form", { className: "searchform", role: "search", "aria-label": "Jobs of this tube", onsubmit: e => { e.preventDefault(); if (this.text !== input.value) set(); } }, this.problem.element, input, all);
  }

  buttons(admin) {
    return [mayOn(this.name, "put") && make("a", { className: "button", "data-action": "put", href: "#/put/" + encodeURIComponent(this.name) }, "Put"), endedLink(this.name), this.failedLink = make("a", { className: "button", href: parkedPage(this.name), "data-page": "parked", hidden: true }, "Failed"),
      ...admin ? [button("kick", "Kick", () => this.kick()), button("pause", "Pause", () => this.pause()), button("policy", "Policy", () => this.changePolicy()), mayOn(this.name, "work") && button("move", "Move", () => this.move()), button("flush", "Flush", () => this.flush(), "danger")] : []].filter(Boolean);
  }

  counts() { return tubes.get(this.name) ?? {}; }
  // missing returns whether the tube certainly does not exist.
  missing() { return stream.state === "live" && !tubes.has(this.name); }
  count(state) { return this.counts()[state] ?? 0; }

  // tabKey moves between the tabs with the arrow keys.
  tabKey(event) {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const shown = this.tabs.filter(tab => !tab.hidden), to = shown[(shown.findIndex(tab => tab.id === "tab-" + this.state) + step + shown.length) % shown.length];
    to.click();
    to.focus();
  }

  // turnTo shows what the user has chosen: the jobs of a state, or the groups, which have an address.
  turnTo(tab) {
    this.settled = true;
    history.replaceState(null, "", tubePage(this.name) + (tab === "groups" ? "/groups" : ""));
    this.choose(tab);
  }

  drawGroups() {
    if (this.state === "groups") this.main.dataset.ready = "true";
    this.drawState();
  }

  drawState() {
    const t = this.counts();
    this.tabs.forEach((tab, i) => {
      const s = tabs[i], here = s === this.state, text = `${s} ${number(t[s] ?? 0)}`;
      tab.setAttribute("aria-selected", here);
      tab.tabIndex = here ? 0 : -1;
      if (s === "groups") { tab.hidden = !here && !this.groups.exist; tab.textContent ||= "groups"; } else if (tab.textContent !== text) tab.replaceChildren(s + " ", make("b", { className: s }, number(t[s] ?? 0)));
    });
    this.panel.setAttribute("aria-labelledby", "tab-" + this.state);
    this.drawFigures(t);
    if (t.buried > 0 || this.jobs.some(isLetter)) this.failedLink.hidden = false;
    const paused = t.paused_until > 0;
    this.pauseBar.hidden = !paused;
    if (paused) this.drawPause(t);
    else this.pauseText = "";
    const listed = this.next ? this.readAt : this.jobs.length;
    this.refresh.classList.toggle("outdated", this.state !== "groups" && this.fresh === false && !this.text && listed !== this.count(this.state));
  }

  drawPause(t) {
    const text = `${t.paused_until} ${t.pause_reason}`;
    if (this.pauseText !== text) {
      this.pauseText = text;
      this.pauseLeft = make("b", {});
      this.pauseBar.replaceChildren(make("span", {}, "This tube is paused for another ", this.pauseLeft, t.pause_reason ? `: ${t.pause_reason}` : "."), mayOn(this.name, "admin") ? button("resume", "Resume", () => this.resume()) : "");
    }
    this.pauseLeft.textContent = span(t.paused_until - Date.now());
  }

  drawFigures(t) {
    const all = [["urgent", "urgent", number(t.urgent ?? 0)], ["waiting", "waiting", number(t.waiting ?? 0)], ["put_rate", "puts/s", rate(t.put_rate)], ["delete_rate", "done/s", rate(t.delete_rate)],
      ["oldest", "oldest", t.oldest_at ? span(Date.now() - t.oldest_at) : "–"], ["wait_p95_ms", "p95 wait", t.wait_p95_ms >= 0 ? "≤ " + span(t.wait_p95_ms) : "–", "95 of 100 jobs of the last minutes were delivered at most that long after they were due. Waits are counted in classes, and this is the upper bound of one"], ["watching", "watching", number(t.watching ?? 0)], ["total", "put so far", number(t.total ?? 0)]];
    if (!this.figures) {
      this.figures = all.map(([key, label, , title]) => make("div", { className: "tile", "data-sum": key, title: title ?? "" }, make("b", {}), make("span", {}, label)));
      this.summary.append(...this.figures);
    }
    all.forEach(([, , text], i) => { const e = this.figures[i].firstChild; if (e.textContent !== text) e.textContent = text; });
  }

  drawPolicy(p) {
    this.policy.replaceChildren(policyLine(p) || "");
    this.groups.appear(hasGroupTag(p));
  }

  // hourCharts returns the charts of the last hour.
  async hourCharts() {
    const c = await call("GET", this.path + "/chart"), one = Object.hasOwn(c.tubes, this.name) ? c.tubes[this.name] : null;
    if (!one?.ready?.length) return [make("p", { className: "soft" }, "The charts of the last hour will appear in a few seconds.")];
    return [chart("jobs", "Jobs", states.map(s => ({ label: s, values: one[s], className: s })), one.end, c.every_ms),
      chart("rates", "Jobs per second", [{ label: "puts", values: one.put_rate, className: "puts" }, { label: "done", values: one.delete_rate, className: "done" }], one.end, c.every_ms, { text: rate })];
  }

  choose(state) {
    this.state = state;
    this.selection?.clear();
    const groups = this.groups.visible = state === "groups", { form, elements } = groups ? this.groups : { form: this.search, elements: this.elements };
    this.form.replaceWith(form);
    this.form = form;
    this.panel.replaceChildren(...elements);
    this.drawState();
    this.read(true);
  }

  // read loads the first jobs if refresh is set, and otherwise more jobs. A search goes on until it has examined all jobs, or is stopped.
  async read(refresh) {
    this.reading?.abort();
    this.walk?.stop();
    if (this.state === "groups") return attempt(() => this.groups.read(true));
    const reading = this.reading = new AbortController();
    if (refresh) Object.assign(this, { next: "", fresh: true, readAt: this.count(this.state) });
    if (this.text) return this.find(refresh);
    await attempt(async () => {
      const page = await call("GET", this.path + "/jobs", { query: { state: this.state, cursor: this.next, limit: pageSize, excerpt: "true" }, signal: reading.signal });
      if (reading.signal.aborted) return;
      this.jobs = (this.fresh ? [] : this.jobs).concat(page.jobs.map(j => ({ ...j, read: Date.now() })));
      Object.assign(this, { fresh: false, next: page.next });
      this.draw();
    });
  }

  // find searches for the text, or lists more of what was found.
  async find(refresh) {
    if (!refresh && this.walk) return attempt(() => this.walk.more());
    const walk = this.walk = new Walk({ tube: [this.name], state: this.everywhere ? [] : [this.state], text: this.text }, { wanted: pageSize, changed: () => {
      if (walk !== this.walk || !this.text || this.ended || !walk.examined && !walk.done) return;
      Object.assign(this, { jobs: walk.jobs, fresh: false, next: walk.listed });
      this.draw();
    } });
    await attempt(() => walk.run(), this.problem);
  }

  draw() {
    this.rows.set(this.jobs);
    const ids = new Set(this.jobs.map(j => j.id));
    if (this.selection) for (const id of this.selection) if (!ids.has(id)) this.selection.delete(id);
    if (this.jobs.length) this.settled = true;
    this.rows.element.hidden = !this.jobs.length;
    this.empty.hidden = this.jobs.length > 0;
    this.empty.textContent = this.text ? "Nothing was found" + (this.walk.done ? "." : " so far.") : this.missing() ? "There is no such tube: it has no jobs, and nobody uses or watches it." : `No job is ${this.state}.`;
    this.more.hidden = !this.next || !this.jobs.length;
    this.progress.element.hidden = !this.text;
    this.status.hidden = !!this.text;
    if (this.text) this.progress.show(this.walk);
    else this.status.textContent = this.jobs.length ? `${this.next ? "The first " : ""}${plural(this.jobs.length, "job")}, in delivery order.` : "";
    this.drawSelection();
    this.drawState();
    this.main.dataset.ready = "true";
    if (this.opened) this.openFirst();
  }

  drawSelection() {
    const n = this.selection?.size ?? 0;
    this.selectionBar.hidden = n === 0;
    if (!n) return;
    const jobs = this.jobs.filter(j => this.selection.has(j.id));
    this.selectionBar.replaceChildren(make("b", {}, plural(n, "job") + " selected"), ...actionButtons(jobs, () => { this.selection.clear(); return this.read(true); }).flat(),
      button("unmark", "Clear selection", () => { this.selection.clear(); this.rows.selectionChanged(); }, "quiet"));
  }

  // openFirst opens the job of the address.
  openFirst() {
    const job = this.opened, at = this.jobs.findIndex(j => j.id === job.id);
    this.opened = null;
    if (at >= 0) return this.open(at);
    return attempt(() => new JobDialog({ list: () => [job], at: 0, done: () => this.read(true) }).show());
  }

  open(i) { return attempt(() => new JobDialog({ list: () => this.jobs, at: i, word: this.text, done: () => this.read(true) }).show()); }

  async kick() {
    const buried = this.count("buried"), delayed = this.count("delayed"), all = buried || delayed;
    const v = await ask({ name: "kick", title: "Kick jobs of " + this.name, text: "Buried jobs become ready, in order. If there are none, delayed jobs become ready.",
      hits: v => `${plural(Math.min(all, Number(v.n)), (buried ? "buried" : "delayed") + " job")} of ${number(all)} will become ready.`, action: "Kick", fields: [{ name: "n", label: "At most", type: "number", value: all || 1, min: 1, required: true }] });
    if (!v) return;
    const got = await call("POST", this.path + "/kick", { query: { n: v.n } });
    note(plural(got.count, "job") + " kicked.");
    this.read(true);
  }

  async pause() {
    const t = this.counts();
    const v = await ask({ name: "pause", title: "Pause " + this.name, text: "Workers get no jobs of this tube for that time. Puts still work.", action: "Pause", check: v => wrongDuration(v.for),
      hits: `${plural(this.count("ready"), "ready job")} and ${plural(this.count("waiting"), "worker")} will wait.`,
      fields: [{ name: "for", label: "For", value: t.paused_until ? "0" : "10m", help: durations + ", in whole seconds; 0 ends a pause" }, { name: "reason", label: "Reason", value: t.pause_reason ?? "", maxLength: 200, help: "Shown here and in the log" }] });
    if (!v) return;
    await call("POST", this.path + "/pause", { query: v });
    note(/^0+(ms|s|m|h|d)?$/.test(v.for) ? "The tube is resumed." : "The tube is paused.");
  }

  async resume() {
    await call("POST", this.path + "/pause", { query: { for: "0" } });
    note("The tube is resumed.");
  }

  async changePolicy() {
    const p = await policyDialog(this.name);
    if (p) this.drawPolicy(p);
  }

  async flush() {
    const all = () => this.count("ready") + this.count("delayed") + this.count("buried"), hit = s => s ? this.count(s) : all();
    const v = await ask({ name: "flush", title: "Flush " + this.name, text: "Jobs are deleted. This cannot be undone.", action: "Delete", danger: true,
      hits: v => `${plural(hit(v.state), "job")} will be deleted.` + (v.state === "reserved" ? " Workers that hold them continue, but can no longer finish them." : ""), fields: [
        { name: "state", label: "Which", value: this.state, options: [{ value: "", label: `ready, delayed and buried: ${number(all())}` }, ...states.map(s => ({ value: s, label: `${s}: ${number(this.count(s))}` }))] },
        { name: "sure", label: `Type ${this.name} to confirm` }], check: v => v.sure === this.name ? "" : "The name does not match." });
    if (!v) return;
    const got = await call("DELETE", this.path + "/jobs", { query: { state: v.state } });
    note(plural(got.count, "job") + " deleted.");
    this.read(true);
  }

  async move() {
    const movable = ["ready", "delayed", "buried"];
    const v = await ask({ name: "move", title: "Move jobs of " + this.name, text: "Jobs are moved in order and get new ids.", action: "Move",
      hits: v => `${plural(Math.min(this.count(v.state), Number(v.n)), v.state + " job")} will be moved` + (v.to ? ` to ${v.to}.` : "."), fields: [
        { name: "state", label: "Which", value: movable.includes(this.state) ? this.state : "ready", options: movable.map(s => ({ value: s, label: `${s}: ${number(this.count(s))}` })) },
        { name: "to", label: "To tube", required: true, suggest: [...tubes.keys()].filter(n => n !== this.name).slice(0, 500) },
        { name: "n", label: "At most", type: "number", value: 1000000, min: 1, required: true }] });
    if (!v) return;
    const got = await call("POST", this.path + "/move", { query: v });
    note(`${plural(got.count, "job")} moved to ${v.to}.`);
    this.read(true);
  }
}
