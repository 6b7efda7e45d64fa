// One tube: its charts, its jobs by state, and what can be done with them.
import { make, number, span, bytes, plural, note, attempt, ask, rate } from "./ui.js";
import { call, tubes, follow, may, tubePath } from "./api.js";
import { Rows } from "./rows.js";
import { chart } from "./chart.js";
import { bodyView } from "./body.js";
import { policyDialog } from "./policy.js";

const states = ["ready", "reserved", "delayed", "buried"];
const pageSize = 200;
const durations = "A number with ms, s, m, h or d, such as 90s";
const wrongDuration = text => /^[0-9]+(ms|s|m|h|d)?$/.test(text) ? "" : durations + ".";

const columns = [
  { key: "id", label: "Job", width: "minmax(5rem, 1fr)", number: true, cell: j => String(j.id) },
  { key: "priority", label: "Priority", number: true, cell: j => number(j.priority) },
  { key: "age", label: "Age", number: true, cell: j => span(j.age * 1000) },
  { key: "due", label: "Due in", title: "Until a delayed job is ready, or the TTR of a reserved one ends", number: true, cell: j => j.due_ms ? span(j.due_ms) : "–" },
  { key: "size", label: "Size", number: true, cell: j => bytes(j.size) },
  { key: "reserves", label: "Tries", title: "How often it was reserved", number: true, cell: j => number(j.reserves) },
  { key: "key", label: "Key", width: "minmax(8rem, 2fr)", cell: j => make("span", {}, j.key ?? "", j.parked && make("span", { className: "badge warn" }, "parked: " + j.parked), j.excerpt && make("code", { className: "excerpt" }, j.excerpt)) },
];

export function tube(main, name) {
  const view = new TubeView(main, name);
  return () => view.end();
}

class TubeView {
  constructor(main, name) {
    Object.assign(this, { name, path: tubePath(name), jobs: [], next: "", mark: new Set(), text: "", reading: null });
    const t = tubes.get(name);
    this.state = t ? (states.find(s => t[s] > 0) ?? "ready") : "ready";
    this.tabs = states.map(s => make("button", { type: "button", role: "tab", id: "tab-" + s, onclick: () => this.choose(s) }));
    this.charts = make("div", { className: "charts" });
    this.facts = make("p", { className: "soft facts" });
    this.more = make("button", { type: "button", onclick: () => this.read(false) }, "More");
    this.looked = make("span", { className: "soft", role: "status" });
    this.actions = make("div", { className: "marked", role: "group", "aria-label": "With the marked jobs", hidden: true });
    this.rows = new Rows({ label: "Jobs", columns: columns.map(c => ({ ...c, sortable: false })), open: j => this.open(j), mark: may("admin") ? this.mark : null });
    this.rows.element.classList.add("jobs");
    this.rows.element.addEventListener("marked", () => this.drawMarked());
    this.empty = make("p", { className: "empty" });
    main.append(
      make("div", { className: "bar" }, make("h1", {}, make("a", { href: "#/", className: "up" }, "Tubes"), " / ", name), this.buttons()),
      this.facts, this.charts,
      make("div", { className: "bar tight" }, make("div", { className: "tabs", role: "tablist", "aria-label": "States" }, this.tabs),
        make("input", { type: "search", placeholder: "Search in bodies and keys  /", "aria-label": "Search in bodies and keys", onchange: e => { this.text = e.target.value; this.read(true); } }),
        make("button", { type: "button", "data-read": "", title: "r", onclick: () => this.read(true) }, "Read anew")),
      this.actions, this.rows.element, this.empty, make("div", { className: "foot" }, this.looked, this.more));
    this.stop = follow(() => this.drawState());
    this.drawState();
    this.readChart();
    this.timer = setInterval(() => this.readChart(), 10_000);
    this.read(true);
  }

  end() {
    this.stop();
    clearInterval(this.timer);
    this.reading?.abort();
  }

  buttons() {
    const b = (label, f, className) => make("button", { type: "button", className, onclick: () => attempt(() => f.call(this)) }, label);
    return make("div", { className: "actions" },
      may("put") && make("a", { className: "button", href: "#/put/" + encodeURIComponent(this.name) }, "Put"),
      may("admin") && [b("Kick", this.kick), b("Pause", this.pause), b("Policy", () => policyDialog(this.name)), b("Move", this.move), b("Flush", this.flush, "danger")]);
  }

  counts() { return tubes.get(this.name) ?? {}; }

  drawState() {
    const t = this.counts();
    this.tabs.forEach((tab, i) => {
      tab.replaceChildren(states[i] + " ", make("b", { className: states[i] }, number(t[states[i]] ?? 0)));
      tab.setAttribute("aria-selected", states[i] === this.state);
    });
    const facts = [`${rate(t.put_rate)} puts/s`, `${rate(t.delete_rate)} done/s`, `${plural(t.waiting ?? 0, "worker")} wait`, `${plural(t.watching ?? 0, "connection")} watch it`, `${plural(t.total ?? 0, "job")} in all`];
    if (t.oldest_at) facts.push("the oldest ready job is " + span(Date.now() - t.oldest_at) + " old");
    if (t.wait_p95_ms >= 0) facts.push("95 % waited at most " + span(t.wait_p95_ms));
    this.facts.replaceChildren(t.name ? facts.join(" · ") : "This tube is not there at present.", t.paused_until > Date.now() ? make("strong", { className: "badge warn" }, "paused for " + span(t.paused_until - Date.now())) : "");
  }

  async readChart() {
    try {
      const c = await call("GET", this.path + "/chart");
      const one = c.tubes[this.name];
      if (!one || one.ready.length < 2) {
        this.charts.replaceChildren(make("p", { className: "soft" }, "The charts of the last hour begin in a few seconds."));
        return;
      }
      this.charts.replaceChildren(
        chart("Jobs", states.map(s => ({ label: s, values: one[s], className: s })), one.end, c.every_ms),
        chart("A second", [{ label: "puts", values: one.put_rate, className: "puts" }, { label: "done", values: one.delete_rate, className: "done" }], one.end, c.every_ms, true));
    } catch { /* the stream tells when the server is away */ }
  }

  choose(state) {
    this.state = state;
    this.mark.clear();
    this.drawState();
    this.read(true);
  }

  // read reads the first jobs, or further ones.
  async read(anew) {
    this.reading?.abort();
    const reading = this.reading = new AbortController();
    if (anew) Object.assign(this, { jobs: [], next: "", lookedAt: 0 });
    await attempt(async () => {
      const query = { state: this.state, cursor: this.next };
      const page = this.text
        ? await call("GET", this.path + "/search", { query: { ...query, text: this.text }, signal: reading.signal })
        : await call("GET", this.path + "/jobs", { query: { ...query, limit: pageSize }, signal: reading.signal });
      if (reading.signal.aborted) return;
      this.jobs.push(...page.jobs);
      this.next = page.next;
      this.lookedAt += page.looked ?? 0;
      const ids = new Set(this.jobs.map(j => j.id));
      for (const id of this.mark) if (!ids.has(id)) this.mark.delete(id);
      this.draw();
    });
  }

  draw() {
    this.rows.set(this.jobs);
    this.rows.element.hidden = !this.jobs.length;
    this.empty.hidden = this.jobs.length > 0;
    this.empty.textContent = this.text ? "Nothing was found." : `No job is ${this.state}.`;
    this.more.hidden = !this.next;
    this.more.textContent = this.text ? "Look further" : "More";
    this.looked.textContent = this.text ? `Looked at ${plural(this.lookedAt, "job")}, found ${number(this.jobs.length)}` + (this.next ? "; there are more to look at." : ".")
      : this.jobs.length ? `The first ${plural(this.jobs.length, "job")}, in the order in which they come out.` : "";
    this.drawMarked();
  }

  drawMarked() {
    const n = this.mark.size, b = (label, f, className) => make("button", { type: "button", className, onclick: () => attempt(f) }, label);
    this.actions.hidden = n === 0;
    if (!n) return;
    this.actions.replaceChildren(make("b", {}, plural(n, "job") + " marked"),
      ["delayed", "buried"].includes(this.state) && b("Kick", () => this.act("kick", [...this.mark])),
      ["ready", "delayed"].includes(this.state) && [b("Bury", () => this.act("bury", [...this.mark])), b("Reschedule", () => this.reschedule([...this.mark]))],
      this.state !== "reserved" && [b("Priority", () => this.priority([...this.mark])), b("Delete", () => this.act("delete", [...this.mark]), "danger")],
      this.state === "reserved" && make("span", { className: "soft" }, "Workers hold them: they can only be looked at."));
  }

  // act does something to jobs by their ids, after having asked.
  async act(action, ids, more = {}) {
    const verb = { kick: "Kick", bury: "Bury", delete: "Delete", reschedule: "Reschedule", priority: "Change the priority of" }[action];
    if (action !== "reschedule" && action !== "priority") {
      const sure = await ask({ title: `${verb} ${ids.length === 1 ? "job " + ids[0] : plural(ids.length, "job")}?`, text: action === "delete" ? "This cannot be undone." : "", action: verb, danger: action === "delete" });
      if (!sure) return false;
    }
    let done = 0, missed = [];
    for (let i = 0; i < ids.length; i += 1000) {
      const got = await call("POST", "/v1/jobs/actions", { body: { action, ids: ids.slice(i, i + 1000), ...more } });
      done += got.done;
      missed = missed.concat(got.missed);
    }
    note(`${plural(done, "job")} done.` + (missed.length ? ` Not to be had any more: ${missed.slice(0, 5).join(", ")}${missed.length > 5 ? " …" : ""}` : ""), missed.length > 0);
    this.mark.clear();
    await this.read(true);
    return true;
  }

  async reschedule(ids) {
    const v = await ask({ title: `Reschedule ${plural(ids.length, "job")}`, action: "Reschedule", check: v => wrongDuration(v.in), fields: [{ name: "in", label: "Due in", value: "10m", help: durations + "; 0 is now" }] });
    return v && this.act("reschedule", ids, { in: v.in });
  }

  async priority(ids) {
    const v = await ask({ title: `Priority of ${plural(ids.length, "job")}`, action: "Change", fields: [{ name: "priority", label: "Priority", type: "number", value: "1024", help: "Jobs with a lower number come first" }] });
    return v && this.act("priority", ids, { priority: Number(v.priority) });
  }

  async kick() {
    const t = this.counts();
    const v = await ask({ title: "Kick jobs", text: `Buried jobs become ready (${number(t.buried ?? 0)}). If none is buried, delayed ones do (${number(t.delayed ?? 0)}).`, action: "Kick", fields: [{ name: "n", label: "At most", type: "number", value: t.buried || t.delayed || 1 }] });
    if (!v) return;
    const got = await call("POST", this.path + "/kick", { query: { n: v.n } });
    note(plural(got.count, "job") + " kicked.");
    this.read(true);
  }

  async pause() {
    const t = this.counts();
    const v = await ask({ title: "Pause " + this.name, text: "Workers get no job of this tube for that long. Puts go on.", action: "Pause", check: v => wrongDuration(v.for), fields: [{ name: "for", label: "For", value: t.paused_until ? "0" : "10m", help: "Whole seconds; 0 ends a pause" }] });
    if (!v) return;
    await call("POST", this.path + "/pause", { query: { for: v.for } });
    note(v.for === "0" ? "The tube goes on." : "The tube is paused.");
  }

  async flush() {
    const t = this.counts(), all = (t.ready ?? 0) + (t.delayed ?? 0) + (t.buried ?? 0);
    const v = await ask({ title: "Flush " + this.name, text: "Jobs are deleted. This cannot be undone.", action: "Delete them", danger: true, fields: [
      { name: "state", label: "Which", value: this.state, options: [{ value: "", label: `ready, delayed and buried: ${number(all)}` }, ...states.map(s => ({ value: s, label: `${s}: ${number(t[s] ?? 0)}` }))] },
      { name: "sure", label: `Type ${this.name} to be sure` }], check: v => v.sure === this.name ? "" : "The name is another one." });
    if (!v) return;
    const got = await call("DELETE", this.path + "/jobs", { query: { state: v.state } });
    note(plural(got.count, "job") + " deleted.");
    this.read(true);
  }

  async move() {
    const t = this.counts();
    const v = await ask({ title: "Move jobs of " + this.name, text: "They get new ids there.", action: "Move", fields: [
      { name: "state", label: "Which", value: this.state, options: ["ready", "delayed", "buried"].map(s => ({ value: s, label: `${s}: ${number(t[s] ?? 0)}` })) },
      { name: "to", label: "To", required: true, suggest: [...tubes.keys()].filter(n => n !== this.name).slice(0, 500) },
      { name: "n", label: "At most", type: "number", value: 1000000 }] });
    if (!v) return;
    const got = await call("POST", this.path + "/move", { query: v });
    note(`${plural(got.count, "job")} moved to ${v.to}.`);
    this.read(true);
  }

  // open shows a job with its body.
  open(j) {
    attempt(async () => {
      const job = await call("GET", "/v1/jobs/" + j.id);
      const close = () => { d.close(); d.remove(); };
      const b = (label, f, className) => make("button", { type: "button", className, onclick: () => attempt(async () => { if (await f()) close(); }) }, label);
      const free = job.state !== "reserved";
      const d = make("dialog", { className: "wide", "aria-label": "Job " + job.id },
        make("div", { className: "bar tight" }, make("h2", {}, `Job ${job.id}`, " ", make("span", { className: "badge " + job.state }, job.state)), make("button", { type: "button", className: "quiet", "aria-label": "Close", onclick: close, autofocus: true }, "×")),
        facts(job), bodyView(job),
        may("admin") && make("div", { className: "buttons" },
          ["delayed", "buried"].includes(job.state) && b("Kick", () => this.act("kick", [job.id])),
          ["ready", "delayed"].includes(job.state) && [b("Bury", () => this.act("bury", [job.id])), b("Reschedule", () => this.reschedule([job.id]))],
          free && [b("Priority", () => this.priority([job.id])), b("Delete", () => this.act("delete", [job.id]), "danger")]));
      d.addEventListener("close", () => d.remove());
      document.body.append(d);
      d.showModal();
    });
  }
}

// facts are those of a job, as a list.
export function facts(job) {
  const rows = [["Tube", job.tube], ["Priority", number(job.priority)], ["Age", span(job.age * 1000)], ["TTR", span(job.ttr * 1000)], ["Size", bytes(job.size)],
    job.due_ms && ["Due in", span(job.due_ms)], job.key && ["Key", job.key], job.retry && ["Retry", job.retry.join(", ")], job.max && ["At most", plural(job.max, "delivery").replace("deliverys", "deliveries")],
    job.dead && ["Then to", job.dead], job.parked && ["Parked because of", job.parked], job.from_tube && ["From", `${job.from_tube}, job ${job.from_id}`], job.leased && ["Held by", "a lease"],
    ["Reserved", `${number(job.reserves)} times`], ["Timeouts", number(job.timeouts)], ["Released", number(job.releases)], ["Buried", number(job.buries)], ["Kicked", number(job.kicks)], ["Failures", number(job.failures)]];
  return make("dl", { className: "facts" }, rows.filter(Boolean).map(([k, v]) => make("div", {}, make("dt", {}, k), make("dd", {}, v))));
}
