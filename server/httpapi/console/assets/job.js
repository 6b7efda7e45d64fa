// One job: its properties and its body, and the actions on one or several jobs.
import { make, number, span, ago, both, bytes, plural, note, attempt, ask, button, durations, wrongDuration, progress } from "./ui.js";
import { call, tubes, may, mayOn, readRights, tubePage, jobPage, groupPage, schedulePage, batchPage, workersPage } from "./api.js";
import { bodyView, hiddenNote } from "./body.js";
import { copyToPut } from "./put.js";
import { readRecord, recordView } from "./ended.js";
import { policyText } from "./policy.js";

// isLetter returns whether a job came to its tube as a dead letter.
export const isLetter = job => !!job.from_tube && job.from_tube !== job.tube;

// whyHeld says why a ready job waits.
export const whyHeld = { paused: "The group is paused", concurrency: "As many jobs of the group or the tube are reserved as the limit allows", rate: "As many jobs of the group or the tube were reserved as the rate allows", batch: "It runs after a batch" };
export const heldBadge = (held, text = "held: " + held, first = "") => make("span", { className: "badge" + first, title: whyHeld[held] ?? "" }, text);
// groupBadge returns the group of a job in a list, after its key.
export const groupBadge = (j, mark = text => text) => j.group && make("span", { className: "badge soft" + (j.key ? "" : " first") }, "group ", mark(j.group));

// actions are the actions on jobs, each with the states in which it is possible, and a further condition. anew: the jobs start without their
// checkpoints.
const actions = {
  replay: { states: ["ready", "delayed", "buried"], anew: true, possible: j => isLetter(j), label: "Send back", text: "They go back to the tube that they came from. There they are ready and have new ids, and their failures are counted from 0." },
  kick: { states: ["delayed", "buried"], anew: true, label: "Kick", text: "They become ready at once." },
  "take-back": { states: ["reserved"], label: "Take back", text: "Their workers lose them at once and can no longer finish them. It counts as a timeout: without a retry delay they are ready now.", danger: true },
  bury: { states: ["ready", "delayed"], label: "Bury", text: "They are buried until somebody kicks them." },
  reschedule: { states: ["ready", "delayed"], label: "Reschedule", fields: () => [{ name: "in", label: "Due in", value: "10m", help: durations + "; 0 is now" }], check: v => wrongDuration(v.in) },
  priority: { states: ["ready", "delayed", "buried"], label: "Priority", title: "Change the priority of", fields: j => [{ name: "priority", label: "Priority", type: "number", value: j?.priority ?? 1024, required: true, max: 4294967295, help: "Jobs with a lower number come first" }] },
  move: { states: ["ready", "delayed", "buried"], label: "Move", text: "They get new ids, and keep all else.", fields: j => [{ name: "to", label: "To tube", required: true, suggest: [...tubes.keys()].filter(n => n !== j?.tube).slice(0, 500) }] },
  delete: { states: ["ready", "delayed", "buried"], label: "Delete", text: "This cannot be undone.", danger: true },
};

// keepField lets a job that is started anew keep its checkpoint. Several jobs lose theirs.
const keepField = jobs => jobs.length === 1 && jobs[0].checkpoint_bytes
  ? [{ name: "keep_checkpoint", label: "Checkpoint", options: [{ value: "", label: "Drop it: the job starts anew" }, { value: "keep", label: "Keep checkpoint: the job goes on from there" }] }] : [];
export const losing = jobs => jobs.some(j => j.checkpoint_bytes) ? " Their checkpoints are dropped." : "";

// act applies an action to jobs after a confirmation. It reports whether it was confirmed.
export async function act(name, jobs) {
  const a = actions[name], ids = jobs.map(j => j.id), which = ids.length === 1 ? "job " + ids[0] : plural(ids.length, "job");
  const v = await ask({ name, title: `${a.title ?? a.label} ${which}?`, text: a.text && ids.length === 1 ? a.text.replace(/^They become/, "It becomes").replace(/^They are/, "It is").replace("kicks them", "kicks it").replace("They get new ids", "It gets a new id").replace("They go back to the tube that they came from. There they are ready and have new ids", "It goes back to the tube that it came from. There it is ready and has a new id").replace("their", "its").replace("Their workers lose them at once and can no longer finish them", "Its worker loses it at once and can no longer finish it").replace("they are ready", "it is ready") : a.text && a.text + (a.anew ? losing(jobs) : ""), hits: `This affects ${plural(ids.length, "job")}.`, action: a.label, danger: a.danger, fields: a.anew ? keepField(jobs) : a.fields?.(jobs[0]), check: a.check });
  if (!v) return false;
  const more = { ...v };
  if (more.keep_checkpoint !== undefined) more.keep_checkpoint = more.keep_checkpoint === "keep";
  if (more.priority !== undefined) more.priority = Number(more.priority);
  const { done, missed } = await runAction(name, ids, more);
  note(`${actions[name].label}: ${plural(done, "job")}.` + (missed.length ? ` Skipped (gone, in another state, or not allowed): ${missed.slice(0, 5).join(", ")}${missed.length > 5 ? ` and ${number(missed.length - 5)} more` : ""}.` : ""), missed.length > 0);
  return true;
}

// runAction applies an action to jobs by their ids.
export async function runAction(action, ids, more = {}) {
  let done = 0, missed = [];
  for (let i = 0; i < ids.length; i += 1000) {
    const got = await call("POST", "/v1/jobs/actions", { body: { action, ids: ids.slice(i, i + 1000), ...more } });
    done += got.done;
    missed = missed.concat(got.missed);
  }
  return { done, missed };
}

// actionButtons returns buttons for the actions that are possible for all of the jobs. done is called after
// an action.
export function actionButtons(jobs, done) {
  const states = new Set(jobs.map(j => j.state));
  const held = states.has("reserved") && make("span", { className: "soft" }, states.size > 1 ? "Workers hold some of these jobs." : jobs.length > 1 ? "Workers hold these jobs: they can only be taken back." : "A worker holds this job: it can only be taken back.");
  const mayMove = jobs.every(j => mayOn(j.tube, "work")); // a move needs the right work on the tube that the jobs leave
  return [held, ...Object.entries(actions).filter(([name, a]) => [...states].every(s => a.states.includes(s)) && (!a.possible || jobs.every(a.possible)) && (name !== "move" && name !== "replay" || mayMove))
    .map(([name, a]) => button(name, a.label, async () => { if (await act(name, jobs)) await done(); }, a.danger ? "danger" : ""))].filter(Boolean);
}

// The dialog of a job has an address of its own. back is the address to which the browser returns when the dialog
// is closed, null if it does not return.
let shown = null, back = null;

// closeJob is called when the address has changed. It returns true if that only closes, or has closed, the dialog
// of a job: then the view below stays.
export function closeJob() {
  if (back !== null && location.hash === back) {
    back = null;
    return true;
  }
  back = null;
  if (!shown?.dialog.open || location.hash !== shown.base) return false;
  shown.left = true;
  shown.dialog.close();
  return true;
}

// JobDialog shows one job of a list, with buttons to the previous and the next one.
export class JobDialog {
  // list returns the jobs of the list; word is highlighted in bodies; done is called after an action.
  constructor({ list, at, word = "", done }) {
    Object.assign(this, { list, at, word, done });
    this.dialog = make("dialog", { className: "wide", "data-dialog": "job", "aria-label": "Job" });
    this.dialog.addEventListener("close", () => this.closed());
    this.dialog.addEventListener("click", e => {
      const box = this.dialog.getBoundingClientRect(), inside = e.clientX >= box.left && e.clientX <= box.right && e.clientY >= box.top && e.clientY <= box.bottom;
      if (e.target === this.dialog && !inside) this.dialog.close();
    });
    this.dialog.addEventListener("keydown", e => {
      if (e.target.closest("input,select,textarea,pre,.tree")) return;
      const step = { ArrowLeft: -1, ArrowRight: 1, k: -1, j: 1 }[e.key];
      if (step) { e.preventDefault(); attempt(() => this.go(step)); }
    });
  }

  async show() {
    await this.read();
    this.base = location.hash;
    this.pushed = !this.base.startsWith(jobPage(""));
    if (this.pushed) history.pushState(null, "", jobPage(this.list()[this.at].id));
    shown = this;
    document.body.append(this.dialog);
    this.dialog.showModal();
  }

  // closed restores the address of the view below, unless a change of the address has closed the dialog. The
  // browser calls it later than close, perhaps only when the address has changed again.
  closed() {
    this.dialog.remove();
    if (this.left || !location.hash.startsWith(jobPage(""))) return; // another view is shown
    if (!this.pushed) return history.replaceState(null, "", tubePage(this.tube));
    back = this.base;
    history.back();
  }

  async go(step) {
    const to = this.at + step;
    if (to < 0 || to >= this.list().length) return;
    this.at = to;
    await this.read();
    history.replaceState(null, "", jobPage(this.list()[to].id));
  }

  async read() {
    const jobs = this.list(), listed = jobs[this.at];
    this.tube ??= listed.tube;
    let job;
    try {
      job = await call("GET", "/v1/jobs/" + listed.id);
    } catch (err) {
      if (err.status !== 404) throw err;
      const record = await readRecord(listed.id);
      if (record) this.draw(recordView(record), { id: listed.id, state: record.how });
      else this.draw([make("p", { className: "empty" }, `Job ${listed.id} no longer exists.`)], listed);
      return;
    }
    await readRights([job.tube]);
    const whole = !job.hidden && !job.redacted;
    this.draw([properties(job), attempts(job), hiddenNote(job), !job.hidden && bodyView(job, this.word), make("div", { className: "buttons" },
      whole && may("put") && job.state !== "reserved" && mayOn(job.tube, "work") && button("edit", "Edit and requeue", () => { this.dialog.close(); copyToPut(job, true); }, "left"),
      whole && may("put") && button("copy", "Copy to Put", () => { this.dialog.close(); copyToPut(job); }, "left"),
      mayOn(job.tube, "admin") && actionButtons([job], async () => { this.dialog.close(); await this.done?.(); }))], job);
  }

  draw(content, job) {
    const n = this.list().length, step = (label, sign, by, off) => make("button", { type: "button", className: "quiet", "aria-label": label, title: label, disabled: off, onclick: () => attempt(() => this.go(by)) }, sign);
    this.dialog.setAttribute("aria-label", "Job " + job.id);
    this.dialog.replaceChildren(make("div", { className: "bar tight" },
      make("h2", { tabIndex: -1, autofocus: true }, `Job ${job.id}`, make("span", { className: "badge " + job.state }, job.state), job.parked && make("span", { className: "badge warn" }, "parked: " + job.parked), job.held && heldBadge(job.held)),
      n > 1 && [step("Previous job", "‹", -1, this.at === 0), make("span", { className: "soft" }, `${number(this.at + 1)} of ${number(n)}`), step("Next job", "›", 1, this.at === n - 1)],
      make("button", { type: "button", className: "quiet", "aria-label": "Close", "data-do": "close", onclick: () => this.dialog.close() }, "×")), ...content.flat().filter(Boolean));
    if (this.dialog.open) this.dialog.querySelector("h2").focus(); // not on a button, because the key that opened the dialog may still be down
  }
}

// holder returns who holds a reserved job, "" if that is not known.
function holder(job) {
  const h = job.holder, name = h?.name || h?.address;
  if (job.leased || h?.lease) return "a lease";
  if (!name) return h?.instance ?? "";
  const more = [h.name && h.address, h.instance].filter(Boolean);
  return make("span", {}, make("a", { href: workersPage(h.address || name) }, name), more.map(text => make("small", { className: "when" }, text)));
}

// expiry returns the property that says when a job expires, undefined if it does not.
function expiry(job) {
  const left = job.expires_ms;
  if (left === undefined || job.state === "buried") return undefined;
  const name = job.on_expire === "park" ? "Parked" : "Deleted";
  if (left <= 0) return [name, job.state === "reserved" ? "when it comes back" : "now"];
  return [name + " in", both(span(left), Date.now() + left)];
}

// attempts returns the deliveries of a job that have failed, as a table; undefined if there are none.
function attempts(job) {
  if (!job.attempts) return undefined;
  const row = (cell, ...texts) => make("tr", {}, texts.map(text => make(cell, {}, text)));
  return make("div", { className: "tablebox", "data-table": "attempts" }, make("table", {}, make("caption", {}, "Failed attempts"),
    make("thead", {}, row("th", "Ended", "How", "Held by", "Reason")),
    make("tbody", {}, job.attempts.map(a => row("td", ago(a.ended_ms), a.how, a.holder ?? "", a.reason ?? "")))));
}

// properties returns the properties of a job as a list.
export function properties(job) {
  const times = n => plural(n, "time");
  const rows = [["Tube", make("a", { href: tubePage(job.tube) }, job.tube)], ["Priority", number(job.priority)], ["Put", both(span(job.age * 1000) + " ago", job.put_ms)], job.first_put_ms && ["First put", ago(job.first_put_ms)],
    job.due_ms !== 0 && [job.state === "reserved" ? "TTR ends in" : "Due in", both(span(job.due_ms), Date.now() + job.due_ms)], job.state !== "delayed" && job.delay > 0 && ["Delay", span(job.delay * 1000)], ["TTR", span(job.ttr * 1000)], ["Size", bytes(job.size)],
    job.schedule && ["Schedule", both(make("a", { href: schedulePage(job.schedule) }, job.schedule), job.nominal_ms)], job.batch && ["Batch", make("a", { href: batchPage(job.batch) }, job.batch)], (job.after ?? job.after_all) && [job.after ? "After the batch" : "After the end of the batch", make("a", { href: batchPage(job.after ?? job.after_all) }, job.after ?? job.after_all)],
    job.key && ["Key", job.key], job.group && ["Group", make("a", { href: groupPage(job.tube, job.group) }, job.group)], job.retry && ["Retry delays", [job.retry].flat().join(", ") + (job.jitter ? `, spread by ${job.jitter} %` : "")], job.max && ["Maximum", plural(job.max, "delivery", "deliveries")],
    job.dead && ["Dead-letter tube", make("a", { href: tubePage(job.dead) }, job.dead)], isLetter(job) && ["From", make("span", {}, make("a", { href: tubePage(job.from_tube) }, job.from_tube), `, job ${job.from_id}`)], job.after_replay && ["After a replay", policyText(job.after_replay) || "as its tube says"], holder(job) && ["Held by", holder(job)],
    job.progress && ["Progress", progress(job.progress)], job.checkpoint_bytes && ["Checkpoint", bytes(job.checkpoint_bytes)], expiry(job), job.reason && ["Reason", job.reason], job.failed_ms && ["Failed", ago(job.failed_ms)],
    ["Reserved", times(job.reserves)], ["Timed out", times(job.timeouts)], ["Released", times(job.releases)], ["Buried", times(job.buries)], ["Kicked", times(job.kicks)], ["Failures", number(job.failures)], ["Deliveries", number(job.deliveries)],
    job.trace && ["Trace context", job.trace], ...Object.entries(job.meta ?? {}).map(([name, value]) => ["Header " + name, value])];
  return make("dl", { className: "properties" }, rows.filter(Boolean).map(([k, v]) => make("div", {}, make("dt", {}, k), make("dd", {}, v))));
}
