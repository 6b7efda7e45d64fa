// All jobs that have used up their retries or deliveries, of all tubes.
import { make, number, span, plural, note, attempt, ask, bytes } from "./ui.js";
import { call, may } from "./api.js";
import { Rows } from "./rows.js";

const columns = [
  { key: "id", label: "Job", number: true, cell: j => String(j.id) },
  { key: "tube", label: "Tube", width: "minmax(9rem, 2fr)", cell: j => make("a", { href: "#/tube/" + encodeURIComponent(j.tube), tabIndex: -1 }, j.tube) },
  { key: "parked", label: "Because of", cell: j => make("span", { className: "badge warn" }, j.parked) },
  { key: "failures", label: "Failures", number: true, cell: j => number(j.failures) },
  { key: "deliveries", label: "Deliveries", number: true, cell: j => number(j.deliveries) },
  { key: "age", label: "Age", number: true, cell: j => span(j.age * 1000) },
  { key: "size", label: "Size", number: true, cell: j => bytes(j.size) },
  { key: "key", label: "Key", width: "minmax(8rem, 2fr)", cell: j => j.key ?? "" },
];

export function parked(main) {
  const mark = new Set();
  let jobs = [], next = null, looked = 0, stopped = false, replaying = null;
  const rows = new Rows({ label: "Parked jobs", columns: columns.map(c => ({ ...c, sortable: false })), open: j => { location.hash = "#/tube/" + encodeURIComponent(j.tube); }, mark: may("admin") ? mark : null });
  const status = make("span", { className: "soft", role: "status" }), empty = make("p", { className: "empty", hidden: true });
  const more = make("button", { type: "button", onclick: () => attempt(() => read(false)) }, "Look further");
  const replay = make("button", { type: "button", className: "main", onclick: () => attempt(replayMarked) });
  rows.element.addEventListener("marked", draw);
  main.append(make("div", { className: "bar" }, make("h1", {}, "Parked"), may("admin") && replay, make("button", { type: "button", "data-read": "", onclick: () => attempt(() => read(true)) }, "Read anew")),
    make("p", { className: "soft" }, "Jobs that have used up their retries or deliveries and have no tube for dead letters, of all tubes."),
    rows.element, empty, make("div", { className: "foot" }, status, more));

  async function read(anew) {
    if (anew) { jobs = []; next = null; looked = 0; mark.clear(); }
    do {
      const page = await call("GET", "/v1/parked", { query: { from: next?.tube, cursor: next?.cursor } });
      if (stopped) return;
      jobs.push(...page.jobs);
      looked += page.looked;
      next = page.next_tube ? { tube: page.next_tube, cursor: page.next } : null;
    } while (next && !jobs.length && looked < 20_000);
    rows.set(jobs);
    draw();
  }

  function draw() {
    replay.textContent = replaying ? "Stop" : mark.size ? `Replay ${plural(mark.size, "job")}` : `Replay all ${number(jobs.length)} listed`;
    replay.hidden = !jobs.length && !replaying;
    rows.element.hidden = !jobs.length;
    empty.hidden = jobs.length > 0;
    empty.textContent = next ? "None among those that were looked at." : "Nothing is parked.";
    more.hidden = !next;
    status.textContent = `Looked at ${plural(looked, "buried job")}, ${number(jobs.length)} of them parked.`;
  }

  // replayMarked kicks jobs, so many a second, until it is stopped or the page is left.
  async function replayMarked() {
    if (replaying) { replaying.stop = true; return; }
    const ids = mark.size ? [...mark] : jobs.map(j => j.id);
    const v = await ask({ title: `Replay ${plural(ids.length, "job")}?`, text: "They become ready, and their failures and deliveries begin anew. Keep this page open while it goes on.", action: "Replay", fields: [{ name: "rate", label: "Jobs a second at most", type: "number", value: "10" }], check: v => v.rate >= 1 ? "" : "At least 1." });
    if (!v) return;
    const run = replaying = { stop: false };
    let done = 0, missed = 0;
    try {
      for (let i = 0; i < ids.length && !run.stop && !stopped; i += Number(v.rate)) {
        if (i) await new Promise(r => setTimeout(r, 1000));
        const got = await call("POST", "/v1/jobs/actions", { body: { action: "kick", ids: ids.slice(i, i + Math.min(1000, Number(v.rate))) } });
        done += got.done;
        missed += got.missed.length;
        status.textContent = `Replayed ${number(done)} of ${number(ids.length)}.`;
        draw();
      }
    } finally {
      replaying = null;
      note(`${plural(done, "job")} replayed.` + (missed ? ` ${number(missed)} were not to be had any more.` : ""));
      await read(true);
    }
  }
  draw();
  attempt(() => read(true));
  return () => { stopped = true; };
}
