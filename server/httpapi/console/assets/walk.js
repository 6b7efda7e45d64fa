// Searches over the jobs of many tubes, and actions on all jobs that match: the server does both in steps.
import { make, number, plural } from "./ui.js";
import { call, mayEverywhere } from "./api.js";

const pause = ms => new Promise(done => setTimeout(done, ms));

// patiently repeats a request while the server has too many searches to do.
async function patiently(request) {
  for (let tries = 0; ; tries++) {
    try {
      return await request();
    } catch (err) {
      if (err.status !== 429 || tries === 20) throw err;
      await pause(500);
    }
  }
}

// A Walk is a search for the jobs that match a filter, which has the fields of /v1/search: tube is a list. It lists the first jobs, at least
// wanted of them, and counts all by tube and reason. changed is called after each step.
export class Walk {
  constructor(filter, { wanted = 200, countAll = true, changed = () => {} } = {}) {
    Object.assign(this, { filter, wanted, countAll, changed, jobs: [], found: 0, examined: 0, total: 0, counts: new Map(), next: "", listed: "", running: false, done: false });
  }

  // run goes on until all jobs were examined, or stop is called, or enough jobs are listed and not all are to be counted.
  async run() {
    this.stop();
    const control = this.control = new AbortController();
    this.running = true;
    this.changed();
    try {
      while (!this.done && (this.countAll || this.jobs.length < this.wanted)) {
        const list = this.jobs.length < this.wanted;
        const got = await patiently(() => this.step(list ? 200 : 0, this.next, control.signal));
        if (control.signal.aborted) return;
        if (got.total !== undefined) this.total = got.total;
        this.add(got.jobs);
        for (const c of got.counts) this.count(c);
        this.examined += got.examined;
        this.next = got.next;
        if (list) this.listed = got.next;
        this.done = !got.next;
        this.changed();
      }
    } catch (err) {
      if (!control.signal.aborted) throw err;
    } finally {
      if (this.control === control) {
        this.running = false;
        this.changed();
      }
    }
  }

  step(limit, cursor, signal) { return call("GET", "/v1/search", { query: { ...this.filter, limit, cursor, excerpt: limit ? "true" : "" }, signal }); }

  add(jobs) { this.jobs = this.jobs.concat(jobs.filter(j => !this.known?.has(j.id)).map(j => ({ ...j, read: Date.now() }))); }

  // start lists jobs that are known without a search. The search does not list them again.
  start(jobs) {
    this.add(jobs);
    this.known = new Set(jobs.map(j => j.id));
  }

  count({ tube, reason, count }) {
    const by = this.counts.get(tube) ?? new Map();
    by.set(reason, (by.get(reason) ?? 0) + count);
    this.counts.set(tube, by);
    this.found += count;
  }

  // more lists further jobs, which may be counted already.
  async more() {
    this.wanted = this.jobs.length + 200;
    if (this.listed === this.next) return this.run();
    while (this.listed && this.jobs.length < this.wanted) {
      const got = await patiently(() => this.step(200, this.listed));
      this.add(got.jobs);
      this.listed = got.next;
    }
    this.changed();
  }

  stop() {
    this.control?.abort();
    this.control = null;
    this.running = false;
  }

  // hasMore returns whether there may be jobs that match and are not listed.
  get hasMore() { return !!this.listed || !this.done && !this.running; }

  // number returns how many jobs of a tube with a reason were found; "" is any.
  number(tube = "", reason = "") {
    let n = 0;
    for (const [name, by] of this.counts) for (const [why, count] of by) if ((!tube || name === tube) && (!reason || why === reason)) n += count;
    return n;
  }

  // by returns pairs of a key and its number, the greatest first: of reasons, or of tubes, with the other one given or "".
  by(what, other) {
    const all = new Map();
    for (const [tube, by] of this.counts) for (const [reason, n] of by) {
      const key = what === "tube" ? tube : reason;
      if (n > 0 && (!other || other === (what === "tube" ? reason : tube))) all.set(key, (all.get(key) ?? 0) + n);
    }
    return [...all].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1));
  }

  // status says how far the search is.
  get status() {
    const of = this.done ? "" : ` of about ${number(Math.max(this.total, this.examined))}`;
    const unread = this.filter.text && !mayEverywhere("read") ? " Bodies, meta and reasons are not searched where you lack the right read." : "";
    return `Examined ${number(this.examined)}${of}${this.examined === 1 && !of ? " job" : " jobs"}; found ${number(this.found)}.${unread}`;
  }
}

// WalkBar shows how far a walk is, with a button that stops it or goes on.
export class WalkBar {
  constructor(attempt) {
    this.text = make("span", { className: "soft", role: "status" });
    this.bar = make("progress", { hidden: true, "aria-label": "Search" });
    this.button = make("button", { type: "button", id: "stop", hidden: true, onclick: () => { if (this.walk.running) this.pause(); else attempt(() => this.walk.run()); } });
    this.element = make("span", { className: "walkbar" }, this.bar, this.text, this.button);
  }

  pause() {
    this.walk.stop();
    this.walk.changed();
  }

  show(walk) {
    this.walk = walk;
    const { running, done, total, examined } = walk;
    Object.assign(this.bar, { hidden: !running, max: Math.max(total, examined, 1), value: examined });
    if (this.text.textContent !== walk.status) this.text.textContent = walk.status;
    this.button.hidden = done;
    this.button.textContent = running ? "Stop" : "Search further";
  }
}

// actOnAll applies an action to all jobs that match a filter, at most rate of them a second if that is not 0, until all are done or
// stopped returns true. stepped is called after each step, with the sums, and how many matched by tube and reason.
export async function actOnAll(action, filter, { rate = 0, more = {}, stopped = () => false, stepped = () => {} } = {}) {
  const sums = { done: 0, missed: 0, examined: 0 };
  let cursor = "";
  do {
    const began = Date.now();
    const got = await patiently(() => call("POST", "/v1/search/actions", { body: { action, ...filter, ...more, limit: rate ? Math.min(rate, 1000) : 1000, cursor } }));
    for (const key of Object.keys(sums)) sums[key] += got[key];
    cursor = got.next;
    stepped(sums, got.counts);
    if (rate && got.done && cursor) await pause(Math.max(0, got.done / rate * 1000 - (Date.now() - began)));
  } while (cursor && !stopped());
  return { ...sums, all: !cursor };
}

// outcome is the message about an action.
export const outcome = ({ done, missed }, verb) => `${plural(done, "job")} ${verb}.` + (missed ? ` ${plural(missed, "job")} skipped: gone, in another state, or not allowed.` : "");
