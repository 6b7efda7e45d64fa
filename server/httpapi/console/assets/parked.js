// The jobs of all tubes that have failed for good: parked jobs and dead letters.
import { make, number, plural, span, moment, note, attempt, problemOf, problemOfSearch, ask, button, remember, two } from "./ui.js";
import { may, mayOn, mayEverywhere, readRights, tubePage } from "./api.js";
import { Rows } from "./rows.js";
import { Walk, WalkBar, actOnAll, outcome } from "./walk.js";
import { JobDialog, runAction, act, losing, isLetter, groupBadge } from "./job.js";
import { excerptOf } from "./body.js";
import { jobColumns } from "./tube.js";

const mostChips = 12; // of tubes, and of reasons
const narrow = matchMedia("(max-width: 900px)");

const why = { retries: "All delays of its retry list are used up", deliveries: "The maximum number of deliveries is reached", refused: "The receiver of a push refused it", expired: "Its time was over before it was done" };

// since returns since when a job is here, in ms since 1970: when it failed last, or else became a dead letter. exact is
// false if that is not recorded: then at is the time of the put.
const since = j => {
  const failed = Math.max(j.failed_ms ?? 0, j.attempts?.[0].ended_ms ?? 0);
  return { at: failed || j.put_ms, exact: !!failed || isLetter(j) };
};

function sinceCell(j) {
  const { at, exact } = since(j), text = span(Date.now() - at);
  return exact ? make("span", { title: moment(at) }, text) : make("span", { className: "soft", title: `It was put at ${moment(at)}. When it was parked is not recorded.` }, "≤ " + text);
}

// whyFailed returns the reason as the counts have it.
const whyFailed = j => j.reason || j.parked || "dead letter";

const everySecond = j => Math.floor(Date.now() / 1000) + ":" + j.id;
const tubeLink = j => make("a", { href: tubePage(j.tube), tabIndex: -1 }, j.tube);
const keyAndGroup = j => [j.key && make("b", { className: "keyword" }, j.key), groupBadge(j)];
const body = j => excerptOf(j);

function reason(j) {
  const from = isLetter(j) && make("span", { className: "badge soft first" }, "from " + j.from_tube);
  const parked = j.parked && make("span", { className: "badge warn" + (from ? "" : " first"), title: why[j.parked] ?? "" }, j.parked);
  return make("span", { title: j.reason || why[j.parked] || "" }, from, parked, j.reason && " " + j.reason);
}

const columns = [
  jobColumns.id,
  { key: "tube", label: "Tube", min: 110, grow: 3, stamp: j => j.tube, cell: tubeLink },
  { key: "parked", label: "Reason", min: 130, grow: 6, stamp: j => j, cell: reason },
  { key: "since", label: "Since", title: "When it failed last, or became a dead letter", number: true, min: 72, stamp: everySecond, cell: sinceCell },
  { key: "key", label: "Key and body", min: 150, grow: 8, stamp: j => j, cell: j => make("span", {}, keyAndGroup(j), body(j)) },
];

// On a narrow screen the cells have two lines.
const narrowColumns = [
  { key: "id", label: "Job, since", min: 76, grow: 1, stamp: everySecond, cell: j => two(String(j.id), sinceCell(j)) },
  { key: "parked", label: "Reason and tube", min: 110, grow: 4, stamp: j => j, cell: j => two(make("span", { title: j.reason ?? "" }, whyFailed(j)), [tubeLink(j), isLetter(j) && ` from ${j.from_tube}`]) },
  { key: "key", label: "Key and body", min: 98, grow: 4, stamp: j => j, cell: j => j.key || j.group ? two(keyAndGroup(j), body(j)) : make("span", {}, body(j)) },
];
const chosen = () => (narrow.matches ? narrowColumns : columns).map(c => ({ ...c, sortable: false }));

const spans = [["", "any time"], [3_600_000, "the last hour"], [86_400_000, "the last day"], [604_800_000, "the last week"], [2_592_000_000, "the last 30 days"]];
const tries = [["", "any attempts"], ["2", "2 attempts or more"], ["5", "5 attempts or more"], ["10", "10 attempts or more"], ["25", "25 attempts or more"]];

// parked shows the jobs that have failed for good, of all tubes or of one.
export function parked(main, tube = "") {
  const view = new Parked(main, tube);
  return () => view.end();
}

// Parked has two searches: scan counts all jobs that match the fields, and list is the same, or lists those of the chosen tube and reason.
class Parked {
  constructor(main, tube) {
    Object.assign(this, { main, tube, ended: false, acting: null, only: "", why: "", every: false, selection: may("admin") ? new Set() : null });
    this.rows = new Rows({ label: "Parked jobs", columns: chosen(), open: (j, i) => attempt(() => new JobDialog({ list: () => this.list.jobs, at: i, word: this.text.value.trim(), done: () => this.read() }).show()), selection: this.selection, nameOf: j => "job " + j.id });
    this.rows.element.addEventListener("selectionchanged", () => { this.every = false; this.drawActions(); });
    this.progress = new WalkBar(attempt);
    this.empty = make("p", { className: "empty", hidden: true });
    const chips = (what, label) => make("div", { className: "chips", role: "group", "aria-label": label, "data-chips": what });
    this.tubes = chips("tube", "Filter by tube");
    this.reasons = chips("reason", "Filter by reason");
    const select = (id, label, options) => make("select", { id, "aria-label": label, onchange: () => this.read() }, options.map(([value, text]) => make("option", { value }, text)));
    this.text = make("input", { type: "search", id: "filter", placeholder: "Key, group, body …", "aria-label": "Filter by a text in key, group, batch, meta, reason or body", maxLength: 200, autocomplete: "off", spellcheck: false, onchange: () => this.read() });
    this.problem = problemOf(this.text);
    this.since = select("since", "When they failed", spans);
    this.attempts = select("attempts", "How often they were delivered", tries);
    this.more = make("button", { type: "button", id: "more", hidden: true, onclick: () => attempt(() => this.listMore()) }, "More");
    this.marked = make("div", { className: "selection", hidden: true });
    this.replay = button("replay", "Replay", () => this.startReplay(), "main");
    this.remove = button("delete", "Delete", () => this.startDelete(), "danger");
    this.bar = make("progress", { hidden: true, "aria-label": "Action" });
    this.said = make("span", { className: "soft said", role: "status" });
    main.append(make("div", { className: "bar" }, make("h1", {}, "Parked", tube && [": ", make("a", { href: tubePage(tube) }, tube)]), this.selection ? [this.said, this.bar, this.remove, this.replay] : [], make("button", { type: "button", id: "read", "data-read": "", onclick: () => this.read() }, "Refresh")),
      make("p", { className: "soft" }, "Jobs that have used up their retries or deliveries, and dead letters. A replay makes parked jobs ready, and sends dead letters back to the tube that they came from."),
      make("div", { className: "bar tight filters", role: "search", "aria-label": "Parked jobs" }, this.text, this.problem.element, this.since, this.attempts), this.tubes, this.reasons, this.marked, this.rows.element, this.empty, make("div", { className: "foot" }, this.progress.element, this.more));
    this.resized = () => this.rows.setColumns(chosen());
    narrow.addEventListener("change", this.resized);
    this.timer = setInterval(() => this.rows.soon(), 1000);
    this.read();
  }

  end() {
    Object.assign(this, { ended: true, acting: null });
    this.scan.stop();
    this.list.stop();
    clearInterval(this.timer);
    narrow.removeEventListener("change", this.resized);
  }

  // filter returns the filter of the fields; with chips, also of the chosen tube and reason.
  filter(chips) {
    const since = Number(this.since.value), f = { failed: true }, tube = chips && this.only || this.tube;
    if (tube) f.tube = [tube];
    if (chips && this.why) f.whole_reason = this.why;
    if (this.text.value.trim()) f.text = this.text.value.trim();
    if (since) f.since = Date.now() - since;
    if (this.attempts.value) f.attempts = Number(this.attempts.value);
    return f;
  }

  // read begins anew, with the chips that are chosen.
  read() {
    this.scan?.stop();
    this.problem.say(problemOfSearch(this.text.value.trim()));
    this.scan = new Walk(this.filter(false), { changed: () => this.changed() });
    const listed = this.readList();
    attempt(() => this.scan.run(), this.problem);
    return listed;
  }

  async readList() {
    if (this.list !== this.scan) this.list?.stop();
    this.selection?.clear();
    this.every = false;
    this.list = this.only || this.why ? new Walk(this.filter(true), { countAll: false, changed: () => this.changed() }) : this.scan;
    if (this.list !== this.scan) await attempt(() => this.list.run(), this.problem);
    else this.changed();
  }

  async listMore() {
    this.more.disabled = true;
    try { await this.list.more(); } finally { this.more.disabled = false; }
  }

  async changed() {
    const { list } = this;
    await attempt(() => readRights([...this.scan.counts.keys(), ...list.jobs.map(j => j.tube)]));
    if (this.ended || list !== this.list) return;
    if (list.examined || list.done) this.main.dataset.ready = "true";
    this.draw();
  }

  draw() {
    this.drawChips(this.tubes, "tube", this.only, this.why, one => { this.only = one; });
    this.drawChips(this.reasons, "reason", this.why, this.only, one => { this.why = one; });
    const { jobs, done } = this.list;
    this.rows.set(jobs);
    this.rows.element.hidden = !jobs.length;
    this.empty.hidden = jobs.length > 0 || !this.main.dataset.ready;
    const { failed: _, tube: __, ...fields } = this.filter(true);
    this.empty.textContent = this.acting ? "The jobs that are left are not listed." : !done ? "No such job was found so far." : Object.keys(fields).length ? "No job matches the filter." : "Nothing is parked.";
    this.progress.show(this.scan);
    this.more.hidden = !jobs.length || this.list.running && this.list !== this.scan || !(this.list.listed || this.list !== this.scan && !done);
    this.drawActions();
  }

  // drawChips shows how many jobs each tube or reason has, as far as the other chip allows.
  drawChips(box, what, now, other, choose) {
    const all = this.scan.by(what, other);
    box.hidden = all.length < 2 && !now;
    const chip = (key, label, n) => make("button", { type: "button", className: "chip", "aria-pressed": String(now === key), ["data-" + what]: key, title: label, onclick: () => { choose(now === key ? "" : key); this.readList(); } }, make("span", { className: "label" }, label), " ", make("b", {}, number(n)));
    const shown = all.slice(0, mostChips);
    if (now && !shown.some(([key]) => key === now)) shown.push([now, this.scan.number(what === "tube" ? now : other, what === "tube" ? other : now)]);
    const seen = JSON.stringify([now, shown]);
    if (box.seen === seen) return; // the focus stays where it is
    box.seen = seen;
    box.replaceChildren(chip("", what === "tube" ? "all tubes" : "all reasons", all.reduce((sum, [, n]) => sum + n, 0)), ...shown.map(([key, n]) => chip(key, key, n)),
      ...all.length > mostChips ? [make("span", { className: "soft" }, `and ${number(all.length - mostChips)} more`)] : []);
  }

  // matching returns how many jobs match, as far as that is known.
  get matching() { return this.scan.number(this.only, this.why); }

  // chosenJobs returns the selected jobs on whose tubes the user has the right admin.
  chosenJobs() { return this.list.jobs.filter(j => this.selection.has(j.id) && mayOn(j.tube, "admin")); }

  // mayActOnAll returns whether the user has the right admin on a tube with jobs that match.
  mayActOnAll() { return this.scan.by("tube", this.why).some(([name]) => (!this.only || name === this.only) && mayOn(name, "admin")); }

  // which says on what an action is: the selected jobs, or all that match.
  which() {
    const more = this.scan.done ? "" : "+";
    return this.selection.size && !this.every ? plural(this.chosenJobs().length, "job") : this.matching === 1 && !more ? "1 job" : `all ${number(this.matching)}${more} jobs`;
  }

  // about says which jobs match, "" if all do.
  about() {
    const chosen = (select, before = "") => select.value && before + select.selectedOptions[0].textContent, tube = this.only || this.tube, text = this.text.value.trim();
    const parts = [this.why && `reason “${this.why.slice(0, 100)}”`, tube && `tube ${tube}`, text && `text “${text}”`, chosen(this.since, "failed in "), chosen(this.attempts)].filter(Boolean);
    return parts.length ? `Filter: ${parts.join(", ")}. ` : "";
  }

  drawActions() {
    if (!this.selection) return;
    const some = this.selection.size > 0 && !this.every, none = some ? !this.chosenJobs().length : !this.mayActOnAll();
    this.replay.textContent = this.acting ? "Stop" : "Replay " + this.which();
    this.replay.hidden = none && !this.acting;
    this.remove.hidden = none || !this.selection.size && !this.every || !!this.acting;
    this.remove.textContent = "Delete " + this.which();
    const listed = this.list.jobs.length, whole = some && this.selection.size >= listed && this.matching > listed;
    this.marked.hidden = !whole && !this.every;
    const text = this.every ? `All ${number(this.matching)} jobs that match are selected.` : `${plural(this.selection.size, "job")} of ${number(this.matching)} selected.`;
    if (this.marked.seen === text) return;
    this.marked.seen = text;
    this.marked.replaceChildren(make("b", {}, text), this.every ? button("unmark", "Clear selection", () => this.mark(false), "quiet") : button("every", `Select all ${number(this.matching)} that match`, () => this.mark(true)));
  }

  // mark selects all jobs that match, or none.
  mark(every) {
    this.selection.clear();
    if (every) for (const j of this.list.jobs) this.selection.add(j.id);
    this.rows.selectionChanged();
    this.every = every;
    this.drawActions();
  }

  // onlyWhere says where an action on all jobs has no effect.
  onlyWhere() { return mayEverywhere("admin") ? "" : " Jobs in tubes where you lack the right admin stay as they are."; }

  async startReplay() {
    if (this.acting) { this.acting = null; return; }
    const jobs = this.selection.size && !this.every ? this.chosenJobs() : null, n = jobs ? jobs.length : this.matching, which = this.which();
    const v = await ask({ name: "replay", title: `Replay ${which}?`, text: (jobs ? "" : this.about()) + "Parked jobs become ready, and dead letters go back to the tube that they came from. Their failures and deliveries are counted from 0. Keep this page open until it is done." + losing(jobs ?? this.list.jobs) + (jobs ? "" : this.onlyWhere()), action: "Replay",
      hits: v => `${which[0].toUpperCase()}${which.slice(1)} will be replayed` + (v.rate >= 1 ? ` within ${plural(Math.ceil(n / v.rate) - 1, "second")}.` : "."),
      fields: [{ name: "rate", label: "Maximum jobs per second", type: "number", value: remember.get("replay", 10), min: 1, max: 1000, required: true }], check: v => v.rate >= 1 && v.rate <= 1000 ? "" : "From 1 to 1,000." });
    if (!v) return;
    const rate = Math.floor(v.rate);
    remember.set("replay", rate);
    await this.act("replay", "Replayed", "replayed", jobs, n, rate);
  }

  async startDelete() {
    if (!this.every) {
      if (await act("delete", this.chosenJobs())) await this.read();
      return;
    }
    const which = this.which();
    const v = await ask({ name: "delete", title: `Delete ${which}?`, text: this.about() + "All jobs that match the filter are deleted, also those that are not listed. This cannot be undone." + this.onlyWhere(), hits: `This affects ${which}.`, action: "Delete", danger: true });
    if (v) await this.act("delete", "Deleted", "deleted", null, this.matching, 0);
  }

  // act applies an action to jobs, or if they are null to all that match, at a rate, until it is stopped or the page is left.
  async act(name, verb, participle, jobs, n, rate) {
    const run = this.acting = {}, stopped = () => this.acting !== run;
    const filter = this.filter(true);
    let sums = { done: 0, missed: 0 };
    const stepped = (now, counts, acted) => {
      sums = now;
      this.bar.value = Math.min(n, now.done + now.missed);
      this.said.textContent = `${verb} ${number(now.done)} of ${number(n)}.`;
      for (const c of counts) this.scan.count({ ...c, count: -c.count });
      this.list.jobs = acted ? this.list.jobs.filter(j => !acted.has(j.id)) : this.list.jobs.slice(counts.reduce((sum, c) => sum + c.count, 0)); // all are acted on in the order of the list
      if (!this.ended) this.draw();
    };
    this.scan.stop();
    Object.assign(this.bar, { hidden: false, max: Math.max(n, 1), value: 0 });
    this.drawActions();
    try {
      if (jobs) await actOnJobs(name, jobs, { rate, stopped, stepped });
      else await actOnAll(name, filter, { rate, stopped, stepped });
    } finally {
      if (this.acting === run) this.acting = null;
      this.bar.hidden = true;
      this.said.textContent = "";
      note(outcome(sums, participle));
      if (!this.ended) await this.read();
    }
  }
}

// actOnJobs applies an action to jobs by their ids, as actOnAll does to those that match. stepped is also called with the ids.
async function actOnJobs(action, jobs, { rate, stopped, stepped }) {
  const sums = { done: 0, missed: 0 };
  for (let i = 0; i < jobs.length && !stopped(); i += rate) {
    if (i) await new Promise(r => setTimeout(r, 1000));
    if (stopped()) break;
    const some = jobs.slice(i, i + rate), ids = some.map(j => j.id);
    const got = await runAction(action, ids);
    sums.done += got.done;
    sums.missed += got.missed.length;
    stepped({ ...sums }, some.map(j => ({ tube: j.tube, reason: whyFailed(j), count: 1 })), new Set(ids));
  }
}
