// The form to put a job. Samples are stored in the browser.
import { make, fieldOf, attempt, note, ask, remember, button, plural, save, wrongDuration, delays } from "./ui.js";
import { call, tubes, tubePath, jobPage } from "./api.js";

const names = ["tube", "body", "encoding", "priority", "delay", "at", "ttr", "key", "on_duplicate", "key_ttl", "group", "batch", "after", "after_all", "retry", "jitter", "max", "dead", "expire", "on_expire", "trace", "meta"];
const advanced = names.slice(names.indexOf("key"));

let copied = null; // initial values of the form
let replaced = null; // the job that is deleted when the form was sent, null for none

// A header for the worker is a line NAME=VALUE of the field meta. In values, \n, \t and \\ stand for LF, tab and backslash.
const escapes = { "\\": "\\\\", "\n": "\\n", "\t": "\\t" };
const metaText = meta => Object.entries(meta).map(([name, value]) => name + "=" + value.replace(/[\\\n\t]/g, c => escapes[c])).join("\n");
const metaOf = text => Object.fromEntries(text.split("\n").filter(line => line.trim()).map(line => {
  const at = line.indexOf("=");
  if (at < 1) throw new Error("Headers: each line needs NAME=VALUE.");
  return [line.slice(0, at).trim(), line.slice(at + 1).replace(/\\([\\nt])/g, (_, c) => ({ n: "\n", t: "\t" })[c] ?? c)];
}));

// copyToPut opens the form with the values of a job. With replace that job is deleted after the new one was put;
// a dead letter goes back to the tube that it came from.
export function copyToPut(job, replace = false) {
  const text = typeof job.body === "string", tube = replace && job.from_tube || job.tube;
  const rules = tube === job.tube ? job : job.after_replay;
  replaced = replace ? job : null;
  copied = {
    tube, on_duplicate: replace && job.key ? "replace" : "", encoding: text ? "text" : "base64", body: text ? job.body : job.body_base64 ?? "", priority: job.priority, ttr: job.ttr + "s", delay: "0",
    key: job.key ?? "", group: job.group ?? "", batch: "", after: "", after_all: "", key_ttl: rules.key_ttl ?? "", retry: [rules.retry ?? []].flat().join(", "), jitter: rules.jitter ?? "", max: rules.max ?? "", dead: rules.dead ?? "",
    trace: job.trace ?? "", meta: metaText(job.meta ?? {}),
  };
  location.hash = "#/put/" + encodeURIComponent(tube);
}

export function put(main, tubeName = "") {
  new Put(main, tubeName);
  return () => {};
}

class Put {
  constructor(main, tubeName) {
    const suggest = [...tubes.keys()].sort().slice(0, 500);
    const fields = [
      { name: "tube", label: "Tube", value: tubeName || remember.get("put.tube", "default"), required: true, suggest, maxLength: 200 },
      { name: "body", label: "Body", type: "textarea", rows: 11 },
      { name: "encoding", label: "Body format", options: [{ value: "text", label: "text" }, { value: "base64", label: "base64" }, { value: "lines", label: "one job per line" }] },
      { name: "priority", label: "Priority", type: "number", value: "1024", max: 4294967295, help: "Lower numbers are delivered first" },
      { name: "delay", label: "Delay", value: "0", help: "Such as 500ms, 90s, 10m, 36h" },
      { name: "at", label: "Or due at", type: "datetime-local", step: 1, help: "In the local time of this browser" },
      { name: "ttr", label: "Time to run", value: "60s", help: "How long a worker can hold the job (visibility timeout)" },
      { name: "key", label: "Key", maxLength: 128, help: "At most one job of a tube has a key" },
      { name: "on_duplicate", label: "If the key is taken", value: "", options: [{ value: "", label: "default of the tube" }, "keep", "replace", "fail"] },
      { name: "key_ttl", label: "Keep the key taken for", placeholder: "1h", help: "After the job is gone" },
      { name: "group", label: "Group", maxLength: 128, help: "Limits apply to each group of a tube" },
      { name: "batch", label: "Batch", maxLength: 100, help: "The job is a member of it" }, { name: "after", label: "After the batch", maxLength: 100, help: "It runs when all members are done" },
      { name: "after_all", label: "After the end of the batch", maxLength: 100, help: "Even if members are parked or gone" },
      { name: "retry", label: "Retry delays", placeholder: "10s, 1m, 10m" },
      { name: "jitter", label: "Spread of these delays", type: "number", min: 0, max: 100, help: "In per cent" },
      { name: "max", label: "Maximum deliveries", type: "number", min: 1, max: 1000000 },
      { name: "dead", label: "Dead-letter tube", suggest, maxLength: 200 },
      { name: "expire", label: "Expires after", placeholder: "1h", help: "From when it is due" },
      { name: "on_expire", label: "When it expires", value: "", options: [{ value: "", label: "default of the tube" }, "delete", "park"] },
      { name: "trace", label: "Trace context", placeholder: "00-…-…-01", maxLength: 55, help: "A W3C traceparent" },
      { name: "meta", label: "Headers for the worker", type: "textarea", rows: 3, help: "NAME=VALUE, one per line" },
    ].map(f => fieldOf(f, "put"));
    this.by = Object.fromEntries(fields.map(f => [f.name, f]));
    const rows = list => list.map(name => this.by[name].row);
    this.more = make("details", { id: "put-more", "aria-label": "Key, group, retries, expiry, headers" }, make("summary", {}, "Key, group, retries, expiry, headers"), make("div", { className: "columns" }, rows(advanced.filter(name => name !== "meta"))), rows(["meta"]));
    this.bodyInfo = make("p", { className: "soft bodyinfo", role: "status" });
    this.samples = make("div", { className: "samples" });
    main.append(make("div", { className: "bar" }, make("h1", {}, "Put a job")),
      make("div", { className: "put" },
        make("form", { className: "card", id: "put", onsubmit: e => { e.preventDefault(); attempt(() => this.send()); } },
          rows(["tube", "body"]), this.bodyInfo, make("div", { className: "columns" }, rows(["encoding", "priority", "delay", "at", "ttr"])), this.more,
          make("div", { className: "buttons" }, button("format", "Format JSON", () => this.format(), "left"), button("keep", "Save as sample", () => this.keep()), make("button", { type: "submit", className: "main", "data-action": "put" }, "Put"))),
        make("section", { className: "card", "aria-label": "Samples" }, make("h2", {}, "Samples"), this.samples)));
    this.by.body.input.addEventListener("input", () => this.describe());
    this.by.body.input.addEventListener("keydown", e => { if (e.key === "Enter" && (e.ctrlKey || e.metaKey)) attempt(() => this.send()); });
    this.by.encoding.input.addEventListener("change", () => this.describe());
    if (copied) this.fill(copied);
    [this.replaced, copied, replaced] = [replaced, null, null];
    if (this.replaced) this.bodyInfo.before(make("p", { className: "soft bodyinfo" }, `Job ${this.replaced.id} of ${this.replaced.tube} is deleted when this one was put.`));
    this.drawSamples();
    this.describe();
    if (!matchMedia("(pointer: coarse)").matches) this.by.body.input.focus();
    main.dataset.ready = "true";
  }

  value(name) { return this.by[name].value().trim(); }

  fill(values) {
    for (const name of names) if (values[name] !== undefined) this.by[name].input.value = values[name];
    this.more.open = advanced.some(name => this.value(name));
    this.describe();
  }

  // describe shows the size of the body, and the error in one that looks like JSON.
  describe() {
    const text = this.by.body.value(), as = this.value("encoding");
    let info = "";
    if (as === "lines") info = plural(text.split("\n").filter(Boolean).length, "job") + ", one per line";
    else if (text) info = plural(as === "base64" ? Math.floor(text.replace(/[\s=]/g, "").length * 3 / 4) : new TextEncoder().encode(text).length, "byte");
    if (as === "text" && /^\s*[[{]/.test(text)) {
      try { JSON.parse(text); info += " · JSON"; } catch (err) { info += " · invalid JSON: " + err.message; }
    }
    this.bodyInfo.textContent = info;
  }

  format() {
    const text = this.by.body.value(), raw = JSON.rawJSON;
    if (!raw && /\d{16}|\d[.eE]/.test(text)) throw new Error("This browser cannot format these numbers without changing them.");
    let value;
    try {
      value = JSON.parse(text, (key, v, context) => typeof v === "number" && raw && context?.source !== undefined ? raw(context.source) : v);
    } catch (err) {
      throw new Error("The body is not valid JSON: " + err.message);
    }
    this.by.body.input.value = JSON.stringify(value, null, 2);
    this.describe();
  }

  job(body) {
    const v = name => this.value(name);
    const j = { priority: Number(v("priority") || 1024), ttr: v("ttr") || "60s" };
    if (v("at")) {
      j.at = new Date(v("at")).getTime();
    } else {
      j.delay = v("delay") || "0";
      if (wrongDuration(j.delay)) throw new Error("Delay: " + wrongDuration(j.delay));
    }
    if (v("encoding") === "base64") j.body_base64 = body.replace(/\s+/g, "");
    else j.body = body;
    for (const name of ["key", "on_duplicate", "key_ttl", "group", "batch", "after", "after_all", "dead", "expire", "on_expire", "trace"]) if (v(name)) j[name] = v(name);
    if (v("retry")) j.retry = delays(v("retry"));
    for (const name of ["jitter", "max"]) if (v(name)) j[name] = Number(v(name));
    if (v("meta")) j.meta = metaOf(this.by.meta.value());
    return j;
  }

  async send() {
    const name = this.value("tube"), path = tubePath(name) + "/jobs", body = this.by.body.value();
    remember.set("put.tube", name);
    if (this.value("encoding") === "lines") return this.sendLines(path, body.split("\n").filter(Boolean));
    const got = await call("POST", path, { body: this.job(body) });
    if (this.replaced && !got.duplicate) return this.deleteReplaced(got);
    note(got.duplicate ? `Job ${got.id} already has the key; it is ${got.state}.` : `Job ${got.id} was put into ${name}; it is ${got.state}.`, got.duplicate);
  }

  // deleteReplaced deletes the job in whose place the new one was put.
  async deleteReplaced(put) {
    const old = this.replaced, now = `Job ${put.id} was put into ${this.value("tube")}`;
    this.replaced = null;
    try {
      await call("DELETE", "/v1/jobs/" + old.id);
    } catch (err) {
      if (err.status !== 404) throw new Error(`${now}, but job ${old.id} was not deleted: ${err.message}`);
    }
    note(`${now}; job ${old.id} is deleted.`);
    location.hash = jobPage(put.id);
  }

  async sendLines(path, lines) {
    if (!lines.length) throw new Error("The body has no lines.");
    if (lines.length > 1 && !await ask({ name: "put", title: `Put ${plural(lines.length, "job")}?`, action: "Put" })) return;
    let done = 0, duplicates = 0;
    for (let i = 0; i < lines.length; i += 1000) {
      const got = await call("POST", path + "/batch", { body: lines.slice(i, i + 1000).map(l => this.job(l)) });
      done += got.filter(a => a.status < 300 && !a.duplicate).length;
      duplicates += got.filter(a => a.duplicate).length;
      const failed = got.find(a => a.status >= 400);
      if (failed) throw new Error(`${plural(done, "job")} put. Then: ${failed.detail || failed.code}`);
    }
    note(`${plural(done, "job")} put.` + (duplicates ? ` ${plural(duplicates, "duplicate")}: the key was already taken.` : ""), duplicates > 0);
  }

  async keep() {
    const v = await ask({ name: "keep", title: "Save as sample", text: "It is stored in this browser.", action: "Save", fields: [{ name: "name", label: "Name", required: true, value: this.value("tube") }] });
    if (!v) return;
    const all = remember.get("samples", []).filter(s => s.name !== v.name);
    remember.set("samples", [...all, { name: v.name, ...Object.fromEntries(names.filter(n => n !== "at").map(n => [n, this.by[n].value()])) }]);
    this.drawSamples();
  }

  drawSamples() {
    const all = remember.get("samples", []);
    const one = s => make("div", { className: "sample", "data-name": s.name },
      make("button", { type: "button", className: "quiet", onclick: () => this.fill(s) }, make("b", {}, s.name), " ", make("span", { className: "soft" }, s.tube)),
      make("button", { type: "button", className: "quiet", "aria-label": "Delete sample " + s.name, onclick: () => { remember.set("samples", all.filter(o => o !== s)); this.drawSamples(); } }, "×"));
    const file = make("input", { type: "file", accept: "application/json,.json", hidden: true, "aria-label": "Samples file", onchange: e => attempt(() => this.load(e.target.files[0])) });
    this.samples.replaceChildren(...all.length ? all.map(one) : [make("p", { className: "soft" }, "Save jobs that you put often as samples. They are stored in this browser.")],
      make("div", { className: "buttons" }, all.length > 0 && button("save-samples", "Save to a file", () => save("redstalk-samples.json", JSON.stringify(all, null, 2), "application/json"), "quiet"), button("load-samples", "Load from a file", () => file.click(), "quiet"), file));
  }

  async load(file) {
    let read;
    try { read = JSON.parse(await file.text()); } catch { throw new Error("The file has no samples."); }
    const samples = Array.isArray(read) ? read.filter(s => typeof s?.name === "string").map(s => Object.fromEntries(["name", ...names].filter(n => ["string", "number"].includes(typeof s[n])).map(n => [n, String(s[n])]))) : [];
    if (!samples.length) throw new Error("The file has no samples.");
    const loaded = new Set(samples.map(s => s.name));
    remember.set("samples", [...remember.get("samples", []).filter(s => !loaded.has(s.name)), ...samples]);
    this.drawSamples();
  }
}
