// Putting a job by hand. Samples are kept in the browser.
import { make, fieldOf, attempt, note, ask, remember } from "./ui.js";
import { call, tubes, tubePath } from "./api.js";

const names = ["tube", "body", "priority", "delay", "ttr", "key", "on_duplicate", "key_ttl", "retry", "max", "dead"];

export function put(main, tubeName = "") {
  const suggest = [...tubes.keys()].sort().slice(0, 500);
  const fields = [
    { name: "tube", label: "Tube", value: tubeName || "default", required: true, suggest },
    { name: "body", label: "Body", type: "textarea", rows: 12 },
    { name: "encoding", label: "The body is", options: [{ value: "text", label: "text" }, { value: "base64", label: "base64" }, { value: "lines", label: "one job a line" }] },
    { name: "priority", label: "Priority", type: "number", value: "1024", help: "Lower numbers come first" },
    { name: "delay", label: "Delay", value: "0", help: "Such as 500ms, 90s, 10m, 36h" },
    { name: "ttr", label: "Time to run", value: "60s" },
    { name: "key", label: "Key", help: "No two jobs of a tube have the same" },
    { name: "on_duplicate", label: "If the key is taken", options: [{ value: "", label: "as usual" }, "keep", "replace", "fail"] },
    { name: "key_ttl", label: "The key stays taken for", placeholder: "1h" },
    { name: "retry", label: "Waits after failures", placeholder: "10s, 1m, 10m" },
    { name: "max", label: "Deliveries at most", type: "number" },
    { name: "dead", label: "Then to tube", suggest },
  ].map(f => fieldOf(f, "put"));
  const by = Object.fromEntries(fields.map(f => [f.name, f]));
  const rows = n => n.map(name => by[name].row);
  const samples = make("div", { className: "samples" });
  main.append(make("div", { className: "bar" }, make("h1", {}, "Put a job")),
    make("div", { className: "put" },
      make("form", { className: "card", onsubmit: e => { e.preventDefault(); attempt(send); } },
        rows(["tube", "body"]), make("div", { className: "columns" }, rows(["encoding", "priority", "delay", "ttr"])),
        make("details", {}, make("summary", {}, "Key, retries, dead letters"), make("div", { className: "columns" }, rows(["key", "on_duplicate", "key_ttl", "retry", "max", "dead"]))),
        make("div", { className: "buttons" }, make("button", { type: "button", onclick: () => attempt(save) }, "Keep as a sample"), make("button", { type: "submit", className: "main" }, "Put"))),
      make("section", { className: "card", "aria-label": "Samples" }, make("h2", {}, "Samples"), samples)));

  function job(body) {
    const v = name => by[name].value().trim();
    const j = { priority: Number(v("priority")), delay: v("delay") || "0", ttr: v("ttr") || "60s" };
    if (by.encoding.value() === "base64") j.body_base64 = body.replace(/\s+/g, "");
    else j.body = body;
    for (const name of ["key", "on_duplicate", "key_ttl", "dead"]) if (v(name)) j[name] = v(name);
    if (v("retry")) j.retry = v("retry").split(",").map(s => s.trim());
    if (v("max")) j.max = Number(v("max"));
    return j;
  }

  async function send() {
    const path = tubePath(by.tube.value().trim()) + "/jobs", body = by.body.value();
    if (by.encoding.value() !== "lines") {
      const got = await call("POST", path, { body: job(body) });
      note(got.duplicate ? `Job ${got.id} has the key already; it is ${got.state}.` : `Job ${got.id} was put.`, got.duplicate);
      return;
    }
    const lines = body.split("\n").filter(Boolean);
    let done = 0;
    for (let i = 0; i < lines.length; i += 1000) {
      const got = await call("POST", path + "/batch", { body: lines.slice(i, i + 1000).map(job) });
      const bad = (Array.isArray(got) ? got : got.results ?? []).find(a => a.status >= 400);
      if (bad) throw new Error(`${done} jobs and some more were put; then: ${bad.detail ?? bad.code}`);
      done += Math.min(1000, lines.length - i);
    }
    note(`${done} jobs were put.`);
  }

  async function save() {
    const v = await ask({ title: "Keep as a sample", action: "Keep", fields: [{ name: "name", label: "Name", required: true, value: by.tube.value() }] });
    if (!v) return;
    const all = remember.get("samples", []).filter(s => s.name !== v.name);
    remember.set("samples", [...all, { name: v.name, encoding: by.encoding.value(), ...Object.fromEntries(names.map(n => [n, by[n].value()])) }]);
    drawSamples();
  }

  function drawSamples() {
    const all = remember.get("samples", []);
    samples.replaceChildren(...all.length ? all.map(s => make("div", { className: "sample" },
      make("button", { type: "button", className: "quiet", onclick: () => [...names, "encoding"].forEach(n => { if (s[n] !== undefined) by[n].input.value = s[n]; }) }, make("b", {}, s.name), " ", make("span", { className: "soft" }, s.tube)),
      make("button", { type: "button", className: "quiet", "aria-label": "Forget " + s.name, onclick: () => { remember.set("samples", all.filter(o => o !== s)); drawSamples(); } }, "×")))
      : [make("p", { className: "soft" }, "Jobs that you put again and again can be kept here, in this browser.")]);
  }
  drawSamples();
  if (!matchMedia("(pointer: coarse)").matches) by.body.input.focus();
  return () => {};
}
