// The jobs of all tubes that have failed for good: parked jobs and dead letters.
import { make, number, plural, span, moment, note, attempt, ask, button, remember, two } from "./ui.js";
import { call, may, mayOn, readRights, tubePage } from "./api.js";
import { Rows } from "./rows.js";
import { JobDialog, runAction, act, losing, isLetter, groupBadge } from "./job.js";
import { jobColumns } from "./tube.js";

const maxExamined = 20_000, page = 200; // one click examines so many jobs, or finds so many
const narrow = matchMedia("(max-width: 720px)");

const why = { retries: "All delays of its retry list are used up", deliveries: "The maximum number of deliveries is reached", refused: "The receiver of a push refused it", expired: "Its time was over before it was done" };

// since returns since when a job is here, in ms since 1970: when it failed last, or else became a dead letter. exact is
// false if that is not recorded: then at is the time of the put.
const since = j => {
  const failed = Math.max(j.failed_ms ?? 0, j.attempts?.[0].ended_ms ?? 0);
  return { at: failed || j.read - j.age * 1000, exact: !!failed || isLetter(j) };
};

function sinceCell(j) {
  const { at, exact } = since(j), text = span(Date.now() - at);
  return exact ? make("span", { title: moment(at) }, text) : make("span", { className: "soft", title: `It was put at ${moment(at)}. When it was parked is not recorded.` }, "≤ " + text);
}

const everySecond = j => Math.floor(Date.now() / 1000) + ":" + j.id;
const tubeLink = j => make("a", { href: tubePage(j.tube), tabIndex: -1 }, j.tube);
const keyAndGroup = j => [j.key && make("b", { className: "keyword" }, j.key), groupBadge(j)];
const body = j => j.excerpt && make("code", { className: "excerpt" }, j.excerpt);

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
  { key: "parked", label: "Tube and reason", min: 110, grow: 4, stamp: j => j, cell: j => two(tubeLink(j), reason(j)) },
  { key: "key", label: "Key and body", min: 98, grow: 4, stamp: j => j, cell: j => j.key || j.group ? two(keyAndGroup(j), body(j)) : make("span", {}, body(j)) },
];
const chosen = () => (narrow.matches ? narrowColumns : columns).map(c => ({ ...c, sortable: false }));

export function parked(main) {
  const view = new Parked(main);
  return () => view.end();
}

class Parked {
  constructor(main) {
    Object.assign(this, { main, jobs: [], next: null, examined: 0, ended: false, replaying: null, only: "", selection: may("admin") ? new Set() : null });
    this.rows = new Rows({ label: "Parked jobs", columns: chosen(), open: (j, i) => attempt(() => new JobDialog({ list: () => this.list, at: i, done: () => this.read(true) }).show()), selection: this.selection, nameOf: j => "job " + j.id });
    this.rows.element.addEventListener("selectionchanged", () => this.drawActions());
    this.status = make("span", { className: "soft", role: "status" });
    this.empty = make("p", { className: "empty", hidden: true });
    this.groups = make("div", { className: "chips", role: "group", "aria-label": "Filter by tube" });
    this.more = make("button", { type: "button", id: "more", onclick: () => attempt(() => this.read(false)) }, "Search further");
    this.replay = button("replay", "Replay", () => this.startReplay(), "main");
    this.remove = button("delete", "Delete", async () => { if (await act("delete", this.chosenJobs())) await this.read(true); }, "danger");
    this.progress = make("progress", { hidden: true, "aria-label": "Replay" });
    main.append(make("div", { className: "bar" }, make("h1", {}, "Parked"), this.selection ? [this.progress, this.remove, this.replay] : [], make("button", { type: "button", id: "read", "data-read": "", onclick: () => attempt(() => this.read(true)) }, "Refresh")),
      make("p", { className: "soft" }, "Jobs that have used up their retries or deliveries, and those in dead-letter tubes. A replay makes parked jobs ready, and sends dead letters back to the tube that they came from."),
      this.groups, this.rows.element, this.empty, make("div", { className: "foot" }, this.status, this.more));
    this.resized = () => this.rows.setColumns(chosen());
    narrow.addEventListener("change", this.resized);
    this.timer = setInterval(() => this.rows.soon(), 1000);
    this.draw();
    attempt(() => this.read(true));
  }

  end() {
    Object.assign(this, { ended: true, replaying: null });
    clearInterval(this.timer);
    narrow.removeEventListener("change", this.resized);
  }

  async read(refresh) {
    if (refresh) { Object.assign(this, { next: null, examined: 0 }); this.selection?.clear(); }
    let jobs = refresh ? [] : this.jobs;
    const before = jobs.length, examinedBefore = this.examined;
    do {
      const got = await call("GET", "/v1/parked", { query: { from: this.next?.tube, state: this.next?.state, cursor: this.next?.cursor, dead_letters: "true", excerpt: "true" } });
      if (this.ended) return;
      jobs = jobs.concat(got.jobs.map(j => ({ ...j, read: Date.now() })));
      this.examined += got.examined;
      this.next = got.next_tube ? { tube: got.next_tube, state: got.next_state, cursor: got.next } : null;
    } while (this.next && jobs.length - before < page && this.examined - examinedBefore < maxExamined);
    await readRights(jobs.map(j => j.tube));
    this.jobs = jobs;
    this.main.dataset.ready = "true";
    this.draw();
  }

  draw() {
    const by = new Map();
    for (const j of this.jobs) by.set(j.tube, (by.get(j.tube) ?? 0) + 1);
    if (!by.has(this.only)) this.only = "";
    const chip = (name, label, n) => make("button", { type: "button", className: "chip", "aria-pressed": this.only === name, "data-tube": name, onclick: () => { this.only = name; this.selection?.clear(); this.draw(); } }, label + " ", make("b", {}, number(n)));
    this.groups.hidden = by.size < 2;
    this.groups.replaceChildren(chip("", "all", this.jobs.length), ...[...by].sort((a, b) => b[1] - a[1]).slice(0, 30).map(([name, n]) => chip(name, name, n)));
    this.list = this.only ? this.jobs.filter(j => j.tube === this.only) : this.jobs;
    this.rows.set(this.list);
    this.rows.element.hidden = !this.list.length;
    this.empty.hidden = this.list.length > 0 || !this.main.dataset.ready;
    this.empty.textContent = this.next ? "No such job was found so far." : "Nothing is parked.";
    this.more.hidden = !this.next;
    if (!this.main.dataset.ready) this.status.textContent = "Examining the jobs …";
    else this.status.textContent = `Examined ${plural(this.examined, "job")}; found ${number(this.jobs.length)}.` + (this.next ? " There are more jobs to examine." : "");
    this.drawActions();
  }

  // chosenJobs returns the selected jobs, or else all listed jobs, on whose tubes the user has the right admin.
  chosenJobs() {
    return this.list.filter(j => (!this.selection.size || this.selection.has(j.id)) && mayOn(j.tube, "admin"));
  }

  drawActions() {
    if (!this.selection) return;
    const n = this.chosenJobs().length;
    this.replay.textContent = this.replaying ? "Stop" : this.selection.size ? `Replay ${plural(n, "job")}` : `Replay all ${number(n)} listed`;
    this.replay.hidden = !n && !this.replaying;
    this.remove.hidden = !n || !this.selection.size || !!this.replaying;
    this.remove.textContent = `Delete ${plural(n, "job")}`;
  }

  // startReplay replays jobs at a rate, until it is stopped or the page is left.
  async startReplay() {
    if (this.replaying) { this.replaying = null; return; }
    const jobs = this.chosenJobs(), ids = jobs.map(j => j.id), n = plural(ids.length, "job");
    const v = await ask({ name: "replay", title: `Replay ${n}?`, text: "Parked jobs become ready, and dead letters go back to the tube that they came from. Their failures and deliveries are counted from 0. Keep this page open until it is done." + losing(jobs), action: "Replay",
      hits: v => `${n} will be replayed` + (v.rate >= 1 ? ` within ${plural(Math.ceil(ids.length / v.rate) - 1, "second")}.` : "."),
      fields: [{ name: "rate", label: "Maximum jobs per second", type: "number", value: remember.get("replay", 10), min: 1, max: 1000, required: true }], check: v => v.rate >= 1 && v.rate <= 1000 ? "" : "From 1 to 1,000." });
    if (!v) return;
    const rate = Math.floor(v.rate), run = this.replaying = {};
    remember.set("replay", rate);
    let done = 0, missed = 0;
    Object.assign(this.progress, { hidden: false, max: ids.length, value: 0 });
    this.drawActions();
    try {
      for (let i = 0; i < ids.length && this.replaying === run; i += rate) {
        if (i) await new Promise(r => setTimeout(r, 1000));
        if (this.replaying !== run) break;
        const got = await runAction("replay", ids.slice(i, i + rate));
        done += got.done;
        missed += got.missed.length;
        this.progress.value = done + missed;
        this.status.textContent = `Replayed ${number(done)} of ${number(ids.length)}.`;
      }
    } finally {
      if (this.replaying === run) this.replaying = null;
      this.progress.hidden = true;
      note(`${plural(done, "job")} replayed.` + (missed ? ` ${plural(missed, "job")} skipped: gone, in another state, or not allowed.` : ""));
      if (!this.ended) await this.read(true);
    }
  }
}
