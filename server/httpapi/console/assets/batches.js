// The batches of the store: how far their members are, which jobs wait for them, and the actions on one of them.
import { make, ask, note, plural, number, span, button } from "./ui.js";
import { call, may, tubePage, jobPage, batchPath } from "./api.js";
import { ListPage, addressable, properties } from "./list.js";

const shownMembers = 100;
const wrong = new Set(["failing", "failed", "unsealed", "cyclic"]);
const meanings = {
  open: "more members can come", sealed: "no more members come, and some are pending", done: "all members are done", failed: "all members have ended, but some are parked or gone",
  failing: "a member is gone, so it cannot be done any more", unsealed: "it was not sealed in time", cyclic: "its members wait for jobs that wait for the batch",
};
const isOver = b => b.sealed && b.pending + b.parked + b.after_held + b.after_failed === 0;
const ended = b => b.total - b.pending;
const badge = (b, first = "") => make("span", { className: "badge " + first + (wrong.has(b.state) ? "buried" : b.state === "done" ? "ready" : ""), title: meanings[b.state] }, b.state);

// bar returns a bar with the shares of the members that are done, parked, gone and pending.
function bar(b) {
  const share = (kind, n) => {
    const e = make("span", { className: "share " + kind });
    e.style.width = b.total ? 100 * n / b.total + "%" : "0"; // a style attribute is forbidden by the content security policy
    return e;
  };
  return make("div", { className: "progress", role: "img", "aria-label": `${number(ended(b))} of ${plural(b.total, "member")} have ended` }, share("ready", b.done), share("buried", b.parked + b.gone));
}

const columns = [
  { key: "name", label: "Batch", min: 96, grow: 3, phone: true, cell: b => b.name, value: b => b.name },
  { key: "state", label: "State", min: 84, grow: 1, phone: true, stamp: b => b.state, cell: b => badge(b, "first "), value: b => b.state },
  { key: "progress", label: "Progress", min: 96, grow: 2, phone: true, stamp: b => [b.done, b.parked, b.gone, b.total].join(), cell: bar, value: b => b.total ? ended(b) / b.total : 1 },
  { key: "total", label: "Members", min: 66, number: true, cell: b => number(b.total), value: b => b.total },
  { key: "pending", label: "Pending", min: 66, number: true, cell: b => number(b.pending), value: b => b.pending },
  { key: "parked", label: "Parked", title: "Members that are buried, or dead letters", min: 60, number: true, cell: b => number(b.parked), value: b => b.parked },
  { key: "gone", label: "Gone", title: "Members that were flushed, cancelled, replaced or have expired", min: 56, number: true, cell: b => number(b.gone), value: b => b.gone },
  { key: "after", label: "Waiting", title: "Jobs that wait for the batch", min: 66, number: true, cell: b => number(b.after_held), value: b => b.after_held },
  { key: "age", label: "Age", min: 60, number: true, stamp: b => Math.floor(Date.now() / 1000), cell: b => span(Math.max(Date.now() - b.created_ms, 0)), value: b => -b.created_ms },
];

export function batches(main, name = "") {
  const view = new Batches(main, name);
  return () => view.end();
}

class Batches extends ListPage {
  constructor(main, name) {
    super(main, name, { noun: "batch", key: "batches", path: "/v1/batches", columns, filter: "Name or state", words: b => [b.name, b.state],
      summary: list => number(list.filter(b => wrong.has(b.state)).length) + " with trouble" });
  }

  // open shows a batch, its members that exist, the jobs that wait for it, and the actions on it.
  async open(name) {
    const path = addressable(name) && batchPath(name);
    const b = path ? await call("GET", path) : this.all.find(b => b.name === name);
    if (!b) return;
    const members = path ? (await call("GET", path + "/members", { query: { limit: shownMembers } })).jobs : [];
    if (this.ended) return;
    this.dialog("batch", name, badge(b), close => [make("p", {}, `It is ${b.state}: ${meanings[b.state]}.`), bar(b), propertiesOf(b), jobsTable("Jobs after it", b.after ?? [], b.after_held + b.after_failed),
      jobsTable("Members that exist", members, b.pending + b.parked), make("div", { className: "buttons" }, this.buttons(b, close))]);
  }

  // buttons returns the buttons for the actions that the user may do. done is called after an action.
  buttons(b, done) {
    if (!addressable(b.name)) return [make("span", { className: "soft" }, "Browsers cannot send this name in an address. Use the command line.")];
    const action = (name, label, f, className) => button(name, label, async () => { if (await f.call(this, b)) { done(); await this.read(true); } }, className);
    return [may("admin") && b.pending + b.parked > 0 && action("cancel", "Cancel", this.cancel, "danger left"), may("admin") && isOver(b) && action("forget", "Forget", this.forget, "left"), may("put") && !b.sealed && action("seal", "Seal", this.seal, "main")].filter(Boolean);
  }

  async cancel(b) {
    const text = "Its members that are not reserved are deleted. Jobs that wait for all of them to be done are parked.";
    if (!await ask({ name: "cancel", title: `Cancel the batch ${b.name}?`, text, action: "Cancel the batch", danger: true })) return false;
    const got = await call("DELETE", batchPath(b.name));
    note(`${plural(got.removed, "member")} deleted.`);
    return true;
  }

  async forget(b) {
    await call("DELETE", batchPath(b.name));
    note("The batch is forgotten, its name is free.");
    return true;
  }

  async seal(b) {
    await call("POST", batchPath(b.name) + "/seal");
    note("The batch is sealed.");
    return true;
  }
}

const propertiesOf = b => properties([["Members", number(b.total)], ["Pending", number(b.pending)], ["Done", number(b.done)], ["Parked", number(b.parked)], ["Gone", number(b.gone)],
  ["Jobs that wait", number(b.after_held)], b.after_failed > 0 && ["Jobs parked because of it", number(b.after_failed)], ["Age", span(Math.max(Date.now() - b.created_ms, 0))], ["Must be sealed within", span(b.ttl_ms)]]);

// jobsTable returns a table of jobs, the first of how many there are; false if there is none.
function jobsTable(title, jobs, of) {
  return jobs.length > 0 && make("div", {}, make("h3", {}, title), make("div", { className: "tablebox" }, make("table", { "data-jobs": title },
    make("thead", {}, make("tr", {}, ["Job", "Tube", "State", "Batch"].map(label => make("th", { scope: "col" }, label)))),
    make("tbody", {}, jobs.map(j => make("tr", {}, make("td", {}, make("a", { href: jobPage(j.id) }, String(j.id))), make("td", {}, make("a", { href: tubePage(j.tube) }, j.tube)),
      make("td", {}, j.parked ? "parked: " + j.parked : j.held === "batch" ? "waits" : j.state), make("td", {}, j.batch ?? "–")))))),
  of > jobs.length && make("p", { className: "soft" }, `The first ${number(jobs.length)} of ${number(of)}.`));
}
