// The instance, the store, and the processes that share or keep its data.
import { make, number, rate, span, attempt, note, ask, bytes, button } from "./ui.js";
import { call, mayEverywhere, caller } from "./api.js";
import { Charts } from "./history.js";

const every = 3000; // ms between two requests
const chartsEvery = 60_000;
const deadAfter = 3000; // ms without a heartbeat after which the other instances declare an instance dead

export function server(main) {
  const view = new Server(main);
  return () => view.end();
}

const card = (name, title, ...content) => make("section", { className: "card", "data-card": name, "aria-label": title }, make("h2", {}, title), content);
const properties = rows => make("dl", { className: "properties" }, rows.filter(Boolean).map(([k, v, title]) => make("div", { title: title ?? "" }, make("dt", {}, k), make("dd", {}, v))));
const table = (heads, rows) => make("div", { className: "tablebox", tabIndex: 0, role: "region", "aria-label": heads[0] + " and more" }, make("table", {}, make("thead", {}, make("tr", {}, heads.map(h => make("th", { scope: "col" }, h)))), make("tbody", {}, rows.map(r => make("tr", {}, r.map(c => make("td", {}, c)))))));
const dot = (ok, text) => make("span", { className: "state " + (ok ? "ok" : "bad") }, text);

class Server {
  constructor(main) {
    Object.assign(this, { main, before: null, ended: false });
    this.box = make("div", { className: "cards" });
    this.charts = new Charts("/v1", null);
    this.drain = button("drain", "Drain", () => this.toggleDrain());
    this.drain.hidden = true;
    main.append(make("div", { className: "bar" }, make("h1", {}, "Server"), this.drain, make("a", { className: "button", href: "docs" }, "HTTP API")), this.box, this.charts.element);
    attempt(() => this.read());
    this.charts.read();
    this.timers = [setInterval(() => { if (!document.hidden) this.read().catch(() => {}); }, every), setInterval(() => this.charts.read(), chartsEvery)];
  }

  end() {
    this.ended = true;
    this.timers.forEach(clearInterval);
  }

  async read() {
    const [s, store] = await Promise.all([call("GET", "/v1/server"), call("GET", "/v1/store")]);
    if (this.ended) return;
    const now = { at: performance.now(), calls: store.calls, syncs: store.syncs, cpu: store.cpu_seconds };
    const before = this.before;
    const passed = before ? (now.at - before.at) / 1000 : 0;
    this.per = key => passed ? Math.max(0, now[key] - before[key]) / passed : null;
    this.before = now;
    this.s = s;
    this.box.replaceChildren(this.instance(s, store), this.jobs(s), this.engine(store), ...this.cluster(s, store));
    this.drain.hidden = !mayEverywhere("admin");
    this.drain.textContent = s.draining ? "Accept puts again" : "Drain";
    this.main.dataset.ready = "true";
  }

  instance(s, store) {
    const cpu = this.per("cpu");
    return card("instance", "This instance", properties([["Version", s.version || "–"], ["Host", s.hostname], ["Process", String(s.pid)], ["Id", make("code", {}, s.id)], ["Uptime", span(s.uptime * 1000)], ["Accepts puts", dot(!s.draining && !store.puts_refused, s.draining ? "no, draining" : store.puts_refused ? "no: " + store.puts_refused : "yes")],
      ["Connections", number(s.connections)], ["Waiting reserves", number(s.waiting)], ["Memory", bytes(store.memory_bytes), `${bytes(store.heap_bytes)} of it in use`], ["CPU", cpu === null ? "…" : (cpu * 100).toFixed(0) + " % of a core"], ["Goroutines", number(store.goroutines)],
      ["Maximum job size", bytes(s.max_job_size)], caller.user && ["Signed in as", caller.user]]));
  }

  jobs(s) {
    return card("store", "Jobs", properties([["Tubes", number(s.tubes)], ["Ready", number(s.ready)], ["Urgent", number(s.urgent)], ["Reserved", number(s.reserved)], ["Delayed", number(s.delayed)], ["Buried", number(s.buried)], ["Put so far", number(s.jobs)], ["Timed out", number(s.timeouts), "Reservations whose TTR ended"]]));
  }

  engine(e) {
    const second = key => { const n = this.per(key); return n === null ? "…" : rate(n); };
    const within = ms => ms ? "≤ " + (ms < 1 ? ms * 1000 + " µs" : span(ms)) : "–";
    const kinds = { memory: "memory only", embedded: "disk of this instance", redis: "Redis" };
    return card("engine", "Engine", properties([["Storage", kinds[e.kind] ?? e.kind], ["State", dot(!e.unreachable, e.unreachable || "ok")], ["Calls/s", second("calls")], ["Operations per call", e.operations_per_call ? e.operations_per_call.toFixed(1) : "–"], ["p95 call", within(e.call_p95_ms)],
      e.kind === "embedded" && ["Log", bytes(e.log_bytes)], e.kind === "embedded" && e.free_bytes > 0 && ["Free disk space", bytes(e.free_bytes)], e.kind === "embedded" && ["Syncs/s", second("syncs")], e.kind === "embedded" && ["p95 sync", within(e.sync_p95_ms)],
      e.kind === "embedded" && ["Records written", number(e.records_written), "To the log"], e.kind === "embedded" && ["Migrated", number(e.records_migrated), "From the log to the tables"],
      e.since_reply_ms >= 0 && ["Redis last answered", span(e.since_reply_ms) + " ago"], e.kind === "redis" && ["Retries", number(e.retries), "Calls that failed and were sent again"], e.kind === "redis" && ["Replays", number(e.replays), "Retried calls that had already taken effect"], ["Timer lag", span(e.timer_lag_ms), "How late timed transitions happen"]]));
  }

  cluster(s, e) {
    if (e.kind !== "redis") return [];
    const alive = i => i.since_heartbeat_ms < deadAfter;
    const cards = [];
    if (e.instances.length) cards.push(card("instances", `Instances: ${number(e.instances.filter(alive).length)} alive`, table(["Instance", "Heartbeat", "Version"], e.instances.map(i => [make("code", {}, i.name), dot(alive(i), span(i.since_heartbeat_ms) + " ago"), (i.version || "unknown") + (i.own ? ` (this instance, on ${s.hostname})` : "")]))));
    if (e.nodes.length) {
      cards.push(card("nodes", "Redis", table(["Server", "Role", "Version", "Round trip", "Memory", "Connections", "Partitions", "Replicas"], e.nodes.map(n => n.problem
        ? [n.addr, dot(false, n.problem), "", "", "", "", String(n.partitions), ""]
        : [n.addr, n.role, n.version, n.round_trip_ms.toFixed(1) + " ms", bytes(n.memory_bytes), number(n.clients), String(n.partitions),
          n.replicas.length ? n.replicas.map(r => make("div", {}, dot(r.state === "online" && r.lag_ms < 10_000, `${r.addr} ${r.state}, ${r.lag_ms ? span(r.lag_ms) : "< 1 s"} and ${bytes(r.behind_bytes)} behind`))) : "none"]))));
    }
    return cards;
  }

  async toggleDrain() {
    const s = this.s;
    if (!s.draining && !await ask({ name: "drain", title: "Drain this instance?", text: "Puts are refused until you undo this. Workers continue.", hits: `Open connections: ${number(s.connections)}.`, action: "Drain", danger: true })) return;
    await call("POST", "/v1/server/" + (s.draining ? "undrain" : "drain"));
    note(s.draining ? "Puts are accepted again." : "Puts are now refused.");
    await this.read();
  }
}
