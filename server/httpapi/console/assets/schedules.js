// The schedules of the store: when they put jobs, what came of that, and the actions on one of them.
import { make, ask, note, plural, number, span, moment, both, attempt, button, wrongDuration } from "./ui.js";
import { call, may, mayOn, readRights, tubes, tubePage, jobPage, schedulePath } from "./api.js";
import { ListPage, addressable, properties } from "./list.js";

const previewed = 10;
const mayChange = tube => mayOn(tube, "admin") && mayOn(tube, "put");

const times = s => s.cron ?? "every " + s.every;
const skipped = s => s.overlapped + s.refused + s.missed + s.stopped;
const whySkipped = s => [["overlapped", "the job before was still there"], ["refused", "the tube was full, or the batch sealed"], ["missed", "no server was there in time"], ["stopped", "paused"]]
  .filter(([key]) => s[key]).map(([key, why]) => `${number(s[key])}: ${why}`).join("; ");
const results = { put: ["put", "ready"], overlapped: ["overlapped", ""], refused: ["refused", "buried"], sealed: ["batch sealed", "buried"] };
const resultBadge = s => s.last_result ? make("span", { className: "badge first " + results[s.last_result][1], title: moment(s.last_put_ms) }, results[s.last_result][0]) : make("span", { className: "soft" }, "–");
const left = s => s.next_ms - Date.now();
const next = s => s.paused ? make("span", { className: "badge first" }, "paused") : !s.next_ms ? make("span", { className: "soft" }, "ended") : make("span", { title: moment(s.next_ms) }, left(s) < 1000 ? "now" : "in " + span(left(s)));

const columns = [
  { key: "name", label: "Schedule", min: 96, grow: 3, phone: true, cell: s => s.name, value: s => s.name },
  { key: "tube", label: "Tube", min: 84, grow: 2, cell: s => make("a", { href: tubePage(s.tube), tabIndex: -1 }, s.tube), value: s => s.tube },
  { key: "times", label: "Times", min: 96, grow: 2, phone: true, cell: times, value: times },
  { key: "tz", label: "Zone", min: 90, grow: 1, has: s => s.tz, cell: s => s.tz ?? "–", value: s => s.tz ?? "" },
  { key: "next", label: "Next", min: 78, phone: true, stamp: s => Math.floor(Date.now() / 1000) + ":" + s.next_ms + s.paused, cell: next, value: s => s.paused || !s.next_ms ? Infinity : s.next_ms },
  { key: "result", label: "Last result", min: 92, stamp: s => s.last_result + ":" + s.last_put_ms, cell: resultBadge, value: s => s.last_result ?? "" },
  { key: "put", label: "Put", title: "Jobs put", min: 56, number: true, cell: s => number(s.put), value: s => s.put },
  { key: "skipped", label: "Skipped", title: "Jobs not put: overlapped, refused, missed, or stopped by a pause", min: 66, number: true, stamp: skipped, cell: s => make("span", { title: whySkipped(s) }, number(skipped(s))), value: skipped },
];

export function schedules(main, name = "") {
  const view = new Schedules(main, name);
  return () => view.end();
}

class Schedules extends ListPage {
  constructor(main, name) {
    super(main, name, { noun: "schedule", key: "schedules", path: "/v1/schedules", columns, filter: "Name, tube or zone", words: s => [s.name, s.tube, s.tz ?? ""],
      summary: list => number(list.filter(s => s.paused).length) + " paused", actions: may("admin") && may("put") && button("new", "New schedule", () => this.edit(), "main") });
  }

  // open shows a schedule, its next times, and the actions on it.
  async open(name) {
    const path = addressable(name) && schedulePath(name);
    const s = path ? await call("GET", path) : this.all.find(s => s.name === name);
    if (!s) return;
    const upcoming = path && !s.paused ? (await call("GET", path + "/preview", { query: { count: previewed } })).times : [];
    await readRights([s.tube]);
    if (this.ended) return;
    this.dialog("schedule", name, s.paused && make("span", { className: "badge" }, "paused"),
      close => [propertiesOf(s), upcoming.length > 0 && timesTable(s, upcoming), make("div", { className: "buttons" }, this.buttons(s, close))]);
  }

  // buttons returns the buttons for the actions that the user may do. done is called after an action.
  buttons(s, done) {
    if (!addressable(s.name)) return [make("span", { className: "soft" }, "Browsers cannot send this name in an address. Use the command line.")];
    if (!mayChange(s.tube)) return [];
    const action = (name, label, f, className) => button(name, label, async () => { if (await f.call(this, s)) { done(); await this.read(true); } }, className);
    return [action("delete", "Delete", this.remove, "danger left"), action("edit", "Edit", this.edit), s.paused ? action("resume", "Resume", this.resume) : action("pause", "Pause", this.pause), action("run", "Run now", this.run, "main")];
  }

  async run(s) {
    const got = await call("POST", schedulePath(s.name) + "/run");
    note(got.duplicate ? `Nothing was put: job ${got.id} is still there.` : `Job ${got.id} was put.`);
    return true;
  }

  async pause(s) {
    await call("POST", schedulePath(s.name) + "/pause");
    note("The schedule is paused.");
    return true;
  }

  async resume(s) {
    await call("POST", schedulePath(s.name) + "/resume");
    note("The schedule is resumed. Times that have passed meanwhile are skipped.");
    return true;
  }

  async remove(s) {
    if (!await ask({ name: "delete", title: `Delete the schedule ${s.name}?`, text: "No more jobs are put. Jobs that were put stay.", action: "Delete", danger: true })) return false;
    await call("DELETE", schedulePath(s.name));
    note("The schedule is deleted.");
    return true;
  }

  // edit sets a schedule; without one, it asks for a name. If the server refuses it, the form appears again.
  async edit(s) {
    for (let values = s ? valuesOf(s) : {}, problem = ""; ;) {
      const next = preview();
      values = await ask({ name: "set", wide: true, title: s ? "Schedule " + s.name : "New schedule", text: problem, action: "Save", hits: next, fields: fields(values, s), check: wrong });
      if (!values) return false;
      try {
        await call("PUT", schedulePath(s?.name ?? values.name), { body: settings(values, s) });
      } catch (err) {
        if (err.status === 401) throw err;
        problem = err.message;
        continue;
      }
      note("The schedule is saved.");
      if (!s) await this.read(true);
      return true;
    }
  }
}

// propertiesOf returns the properties of a schedule as a list.
function propertiesOf(s) {
  const catchUp = [s.catch_up && `up to ${s.catch_up} late`, s.catch_up_all && `up to ${plural(s.catch_up_all, "job")}`].filter(Boolean).join(", ");
  const body = s.body ?? (s.body_base64 && "base64: " + s.body_base64) ?? "";
  const rows = [["Tube", make("a", { href: tubePage(s.tube) }, s.tube)], ["Times", times(s)], ["Zone", s.tz ?? "UTC"], s.from && ["From", moment(s.from)], s.until && ["Until", moment(s.until)], s.spread && ["Spread", s.spread],
    ["If the job before is there", s.overlap], catchUp && ["Missed jobs", catchUp], ["Put", number(s.put)], ["Skipped", number(skipped(s)) + (skipped(s) ? ` (${whySkipped(s)})` : "")],
    s.last_result && ["Last result", both(make("span", {}, s.last_result + " ", s.last_id > 0 && make("a", { href: jobPage(s.last_id) }, "job " + s.last_id)), s.last_put_ms)],
    s.last_nominal_ms && ["That was for", moment(s.last_nominal_ms)], ["Priority", s.priority], ["Time to run", s.ttr], ["Body", s.hidden ? "hidden" : body.length > 300 ? body.slice(0, 300) + "…" : body || "–"]];
  return properties(rows);
}

// inZone formats a time with an offset as the server has sent it, in the zone of the schedule.
const inZone = time => time.replace("T", " ").replace(/(Z|[+-]\d\d:\d\d)$/, (_, offset) => " " + (offset === "Z" ? "UTC" : offset)).replaceAll("-", "\u2011");

// timesTable returns the next times in the zone of the schedule and in that of the browser.
function timesTable(s, upcoming) {
  return make("div", { className: "tablebox" }, make("table", { "data-times": "" }, make("thead", {}, make("tr", {}, make("th", { scope: "col" }, s.tz ?? "UTC"), make("th", { scope: "col" }, "Your time"))),
    make("tbody", {}, upcoming.map(time => make("tr", {}, make("td", {}, inZone(time)), make("td", {}, moment(Date.parse(time))))))));
}

const zones = () => { try { return Intl.supportedValuesOf("timeZone"); } catch { return []; } };

// fields returns the fields of the form. A schedule that exists keeps its name.
function fields(v, s) {
  const suggest = [...tubes.keys()].sort().slice(0, 500);
  return [!s && { name: "name", label: "Name", value: v.name, required: true, maxLength: 100 },
    { name: "tube", label: "Tube", value: v.tube ?? "default", required: true, suggest, maxLength: 200 },
    { name: "cron", label: "Cron expression", value: v.cron, placeholder: "30 2 * * 1-5", maxLength: 256, help: "Minute, hour, day, month, day of the week" },
    { name: "every", label: "Or every", value: v.every, placeholder: "15m", help: "Such as 90s, 15m, 36h" },
    { name: "tz", label: "Time zone", value: v.tz, placeholder: "UTC", suggest: zones(), maxLength: 256, help: "Of the cron expression" },
    { name: "overlap", label: "If the job before is still there", value: v.overlap, options: ["skip", "replace", "allow", "buffer-one"] },
    { name: "catch_up", label: "Put missed jobs up to", value: v.catch_up, placeholder: "1h", help: "How late; by default one period, at most 1h" },
    { name: "catch_up_all", label: "Missed jobs", type: "number", value: v.catch_up_all, min: 1, max: 1000, help: "How many; by default only the latest" },
    { name: "spread", label: "Spread", value: v.spread, placeholder: "5m", help: "So that not all schedules put at once" },
    { name: "priority", label: "Priority", type: "number", value: v.priority ?? 1024, max: 4294967295 },
    { name: "ttr", label: "Time to run", value: v.ttr ?? "60s" },
    { name: "encoding", label: "Body format", value: v.encoding, options: ["text", "base64"] },
    { name: "body", label: "Body", type: "textarea", rows: 4, value: v.body }].filter(Boolean);
}

// valuesOf returns the values of the form for a schedule.
function valuesOf(s) {
  const { catch_up = "", catch_up_all = "", spread = "", cron = "", every = "", tz = "" } = s, text = typeof s.body === "string";
  return { catch_up, catch_up_all, spread, cron, every, tz, tube: s.tube, overlap: s.overlap, priority: s.priority, ttr: s.ttr, encoding: text ? "text" : "base64", body: text ? s.body : s.body_base64 };
}

// wrong returns what is wrong with the values of the form, or "".
function wrong(v) {
  if (v.name !== undefined && !addressable(v.name)) return "Browsers cannot send this name in an address.";
  if (!v.cron.trim() === !v.every.trim()) return "There must be a cron expression, or a time from one job to the next.";
  return ["every", "catch_up", "spread", "ttr"].map(name => v[name].trim() && wrongDuration(v[name].trim())).find(Boolean) ?? "";
}

// kept are the settings that are not in the form.
const kept = ["from", "until", "delay", "key", "group", "meta", "trace", "retry", "jitter", "max", "dead", "expire", "on_expire", "key_ttl"];

// settings returns the body of the request that sets a schedule in place of another, if there is one.
function settings(v, s) {
  const body = Object.fromEntries(kept.filter(key => s?.[key] !== undefined).map(key => [key, s[key]]));
  for (const key of ["tube", "cron", "every", "tz", "overlap", "catch_up", "spread", "ttr"]) if (v[key].trim()) body[key] = v[key].trim();
  for (const key of ["priority", "catch_up_all"]) if (v[key] !== "") body[key] = Number(v[key]);
  body[v.encoding === "base64" ? "body_base64" : "body"] = v.body;
  return body;
}

// preview returns a function that says when a schedule with the values of the form would put jobs. It asks the
// server when they have changed, so its answer is sometimes one call late.
function preview() {
  const nothing = "The next times will be shown here.";
  let asked = "", text = nothing;
  return v => {
    const query = { cron: v.cron.trim(), every: v.every.trim(), tz: v.tz.trim(), count: 3 }, key = JSON.stringify(query);
    if (key === asked) return text;
    asked = key;
    if (!query.cron && !query.every) return text = nothing;
    call("GET", "/v1/preview", { query }).then(got => got.times.length ? "Next: " + got.times.map(inZone).join(", ") : "There is no such time.", err => err.message)
      .then(got => { if (asked === key) text = got; });
    return text;
  };
}
