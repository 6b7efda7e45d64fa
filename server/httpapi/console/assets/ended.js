// The records of the ended jobs of a tube, and one of them.
import { make, number, plural, span, ago, moment, both, bytes, attempt } from "./ui.js";
import { call, tubePage, endedPage, jobPage, groupPage, schedulePage, batchPage } from "./api.js";
import { Rows } from "./rows.js";
import { bodyView, hiddenNote } from "./body.js";

const page = 200; // records that one click shows
const parts = 50; // requests of one click at most: with a filter, each examines a part of the records
const narrow = matchMedia("(max-width: 720px)");

// colors are the badges of ways to end that say that something went wrong, or that the job is somewhere else.
const colors = { done: " ready", dead: " warn", expired: " warn", parked: " warn", deleted: " soft", moved: " soft" };
const howBadge = (e, first = "") => make("span", { className: "badge" + (colors[e.how] ?? "") + first }, e.how);
const elsewhere = e => e.to_id && make("a", { href: jobPage(e.to_id), tabIndex: -1 }, `${e.to_tube}, job ${e.to_id}`);
const result = e => e.hidden ? "" : e.result ?? (e.result_bytes ? bytes(e.result_bytes) : "");
const about = e => make("span", { title: e.reason ?? "" }, elsewhere(e) || e.reason || e.hidden && make("span", { className: "soft" }, "hidden") || result(e) && make("code", { className: "excerpt" }, result(e).slice(0, 200)));
const ran = e => e.first_start_ms ? span(e.ended_ms - e.first_start_ms) : "";
const total = e => e.put_ms ? span(e.ended_ms - e.put_ms) : "";
const everySecond = e => Math.floor(Date.now() / 1000) + ":" + e.id;

const columns = [
  { key: "id", label: "Job", number: true, min: 76, phone: true, stamp: e => e.id, cell: e => String(e.id) },
  { key: "how", label: "How", min: 84, phone: true, stamp: e => e, cell: e => howBadge(e, " first") },
  { key: "ended", label: "When", number: true, min: 84, phone: true, stamp: everySecond, cell: e => make("span", { title: moment(e.ended_ms) }, span(Date.now() - e.ended_ms) + " ago") },
  { key: "ran", label: "Ran", title: "From its delivery to its end, if it was delivered once", number: true, min: 64, stamp: e => e.id, cell: ran },
  { key: "total", label: "Total", title: "From its put to its end", number: true, min: 64, stamp: e => e.id, cell: total },
  { key: "failures", label: "Failures", number: true, min: 64, stamp: e => e.id, cell: e => e.failures ? number(e.failures) : "" },
  { key: "key", label: "Key", min: 90, grow: 2, stamp: e => e.id, cell: e => e.key ?? "" },
  { key: "result", label: "Result or reason", min: 120, grow: 6, phone: true, stamp: e => e.id, cell: about },
].map(c => ({ ...c, sortable: false }));
const chosen = () => columns.filter(c => !narrow.matches || c.phone);

const spans = [["", "any time"], [3_600_000, "the last hour"], [86_400_000, "the last day"], [604_800_000, "the last week"]];
const hows = [["", "all"], ..."done deleted expired dead moved".split(" ").map(how => [how, how])];

export function ended(main, tube) {
  const view = new Ended(main, tube);
  return () => view.end();
}

class Ended {
  constructor(main, tube) {
    Object.assign(this, { main, tube, records: [], next: "", ended: false });
    const select = (id, label, options) => make("select", { id, "aria-label": label, onchange: () => this.refresh() }, options.map(([value, text]) => make("option", { value }, text)));
    this.how = select("how", "How they ended", hows);
    this.since = select("since", "When they ended", spans);
    this.reason = make("input", { type: "search", id: "filter", placeholder: "Reason", "aria-label": "Filter by reason", autocomplete: "off", spellcheck: false, onchange: () => this.refresh() });
    this.rows = new Rows({ label: "Ended jobs", columns: chosen(), open: e => showRecord(e) });
    this.empty = make("p", { className: "empty", hidden: true });
    this.status = make("span", { className: "soft", role: "status" });
    this.more = make("button", { type: "button", id: "more", hidden: true, onclick: () => attempt(() => this.read(false)) }, "More");
    main.append(make("div", { className: "bar" }, make("h1", {}, "Ended: ", make("a", { href: tubePage(tube) }, tube)), this.how, this.since, this.reason,
      make("button", { type: "button", id: "read", "data-read": "", onclick: () => this.refresh() }, "Refresh")), this.rows.element, this.empty, make("div", { className: "foot" }, this.status, this.more));
    this.resized = () => this.rows.setColumns(chosen());
    narrow.addEventListener("change", this.resized);
    this.timer = setInterval(() => this.rows.soon(), 1000);
    this.refresh();
  }

  end() {
    this.ended = true;
    clearInterval(this.timer);
    narrow.removeEventListener("change", this.resized);
  }

  refresh() { attempt(() => this.read(true)); }

  async read(refresh) {
    const reading = this.reading = {}, since = this.since.value && Date.now() - Number(this.since.value);
    let records = refresh ? [] : this.records, next = refresh ? "" : this.next;
    const before = records.length;
    for (let part = 0; part < parts; part++) {
      const got = await call("GET", `/v1/tubes/${encodeURIComponent(this.tube)}/ended`, { query: { limit: page, cursor: next, how: this.how.value, reason: this.reason.value.trim(), since } });
      if (this.ended || this.reading !== reading) return;
      records = records.concat(got.ended);
      next = got.next;
      if (!next || records.length - before >= page) break;
    }
    Object.assign(this, { records, next });
    this.main.dataset.ready = "true";
    this.draw();
  }

  draw() {
    const n = this.records.length, filtered = this.how.value || this.since.value || this.reason.value;
    this.rows.set(this.records);
    this.rows.element.hidden = !n;
    this.empty.hidden = n > 0;
    this.empty.textContent = this.next ? "No such record was found so far." : filtered ? "No record matches the filter." : "There are no records. A tube has some once its policy, or the put of a job, says keep.";
    this.status.textContent = n ? `${this.next ? "The newest " : ""}${plural(n, "record")}.` : "";
    this.more.hidden = !this.next;
  }
}

// showRecord shows a record in a dialog.
function showRecord(e) {
  const d = make("dialog", { className: "wide", "data-dialog": "record", "aria-label": "Ended job " + e.id }, make("div", { className: "bar tight" }, make("h2", { tabIndex: -1, autofocus: true }, "Job " + e.id, howBadge(e)),
    make("button", { type: "button", className: "quiet", "aria-label": "Close", "data-do": "close", onclick: () => d.close() }, "×")), ...recordView(e));
  d.addEventListener("close", () => d.remove());
  document.body.append(d);
  d.showModal();
}

// recordView returns what a record says, and its result.
export function recordView(e) {
  const rows = [["Tube", make("a", { href: tubePage(e.tube) }, e.tube)], ["Ended", make("span", {}, howBadge(e, " first"), " ", e.ended_ms && ago(e.ended_ms))], e.to_id && ["Is now", elsewhere(e)], e.reason && ["Reason", e.reason],
    e.put_ms && ["Put", ago(e.put_ms)], e.first_start_ms && ["First delivery", ago(e.first_start_ms)], ran(e) && ["Ran", ran(e)], total(e) && ["Total", total(e)],
    ["Deliveries", number(e.deliveries)], ["Failures", number(e.failures)], e.holder && ["Held by", e.holder], e.key && ["Key", e.key], e.group && ["Group", make("a", { href: groupPage(e.tube, e.group) }, e.group)],
    e.batch && ["Batch", make("a", { href: batchPage(e.batch) }, e.batch)], e.schedule && ["Schedule", both(make("a", { href: schedulePage(e.schedule) }, e.schedule), e.nominal_ms)],
    e.until_ms && ["Record kept for", span(e.until_ms - Date.now())], ...Object.entries(e.meta ?? {}).map(([name, value]) => ["Header " + name, value]), e.how === "done" && ["Result", e.result_bytes ? bytes(e.result_bytes) : "none"]];
  return [make("dl", { className: "properties" }, rows.filter(Boolean).map(([k, v]) => make("div", {}, make("dt", {}, k), make("dd", {}, v)))),
    hiddenNote(e), !e.hidden && e.result_bytes > 0 && bodyView({ id: e.id, body: e.result, body_base64: e.result_base64 })].filter(Boolean);
}

// readRecord returns the record of a job that has ended, null if there is none.
export async function readRecord(id) {
  try {
    return await call("GET", `/v1/jobs/${id}/result`);
  } catch (err) {
    if (err.status === 404 || err.status === 409) return null;
    throw err;
  }
}

export const endedLink = tube => make("a", { className: "button", href: endedPage(tube), "data-page": "ended" }, "Ended");
