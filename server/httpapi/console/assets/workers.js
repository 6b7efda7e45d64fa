// The connections to the beanstalk port of all instances, and the jobs that they hold.
import { make, compare, number, plural, span, ago, moment, attempt, ask, button, note } from "./ui.js";
import { call, mayEverywhere, tubePage, jobPage } from "./api.js";
import { Rows } from "./rows.js";
import { HungBanner } from "./hung.js";

const page = 1000, most = 10_000; // connections of one request, and of one click
const every = 3000; // ms between two requests, if one is enough for all connections
const narrow = matchMedia("(max-width: 720px)");

const nameOf = c => c.name || c.address;
const idOf = c => (c.instance ?? "") + ":" + c.id;
const tubeLink = name => make("a", { href: tubePage(name), tabIndex: -1 }, name);
const jobLink = id => make("a", { href: jobPage(id), tabIndex: -1 }, String(id));

// listed returns links with commas between them, at most some, and how many more there are of all.
function listed(links, all, some = links.length) {
  const shown = links.slice(0, some), left = all - shown.length;
  return [shown.flatMap((link, i) => i ? [", ", link] : [link]), left > 0 && make("span", { className: "soft" }, ` and ${number(left)} more`)];
}

const heldBy = (c, some) => listed((c.held ?? []).map(jobLink), c.jobs, some);
const watchedBy = (c, some) => listed(c.watched.map(tubeLink), c.watching, some);
const uses = c => c.used !== "default" && make("span", { className: "badge soft" }, "puts into " + c.used);

// state says whether a client waits for a job, or holds one for so long that it probably hangs, with a link to that job.
function state(c) {
  if (c.hung.length) return make("a", { className: "badge first warn", href: jobPage(c.hung[0].id), tabIndex: -1, title: `It holds job ${c.hung[0].id} for ${span(c.hung[0].held_ms)}. Open the job to take it back.` }, "hangs");
  return c.waiting ? make("span", { className: "badge first ready" }, "waiting") : make("span", { className: "soft" }, "–");
}

const columns = [
  { key: "name", label: "Name", min: 96, grow: 3, phone: true, cell: c => c.name || (narrow.matches ? c.address : "–"), value: c => (c.name ? "0" : "1") + nameOf(c) }, // those without a name come last
  { key: "address", label: "Address", min: 126, grow: 2, cell: c => c.address, value: c => c.address },
  { key: "user", label: "User", min: 64, grow: 1, has: c => c.user, cell: c => c.user ?? "–", value: c => c.user ?? "" },
  { key: "instance", label: "Instance", min: 92, grow: 1, has: c => c.instance, cell: c => c.instance ?? "–", value: c => c.instance ?? "" },
  { key: "waiting", label: "State", title: "waiting: a reserve waits for a job; hangs: it holds a job for more than ten times its TTR", min: 74, phone: true, stamp: c => [c.waiting, ...c.hung.map(j => j.id + span(j.held_ms))].join(), cell: state, value: c => c.hung.length ? -1 : Number(c.waiting) },
  { key: "jobs", label: "Holds jobs", min: 80, grow: 2, phone: true, stamp: c => c.jobs + ":" + c.held, cell: c => make("span", {}, c.jobs ? heldBy(c, 3) : make("span", { className: "soft" }, "–")), value: c => c.jobs },
  { key: "tubes", label: "Watches", min: 110, grow: 4, stamp: c => [c.used, c.watching, ...c.watched].join(" "), cell: c => make("span", {}, watchedBy(c, 5), uses(c)), value: c => c.watched[0] ?? "" },
  { key: "since", label: "Connected", min: 70, number: true, stamp: c => Math.floor(Date.now() / 1000) + ":" + c.since_ms, cell: c => make("span", { title: moment(c.since_ms) }, span(Date.now() - c.since_ms)), value: c => -c.since_ms },
];

// matches returns whether one of the words that describe a connection contains a text.
function matches(c, text) {
  return [c.hung.length && "hangs", c.name, c.address, c.user, c.instance, c.entrance, c.used, ...c.watched, ...(c.held ?? []).map(String)].some(word => word && word.toLowerCase().includes(text));
}

export function workers(main, filter = "") {
  const view = new Workers(main, filter);
  return () => view.end();
}

class Workers {
  constructor(main, filter) {
    Object.assign(this, { main, all: [], list: [], next: "", missing: [], order: { key: "name", down: false }, ended: false });
    this.filter = make("input", { type: "search", id: "filter", value: filter, placeholder: "Name, address or tube", "aria-label": "Filter clients", autocomplete: "off", spellcheck: false, oninput: () => this.draw() });
    this.rows = new Rows({ label: "Clients", columns: this.chosen(), sort: this.order, onsort: order => { this.order = order; this.draw(); }, idOf, nameOf, open: c => this.open(c) });
    this.shown = "";
    this.hung = new HungBanner();
    this.banner = make("div", { className: "banner", role: "status", hidden: true });
    this.empty = make("p", { className: "empty", hidden: true });
    this.status = make("span", { className: "soft", role: "status" });
    this.more = make("button", { type: "button", id: "more", hidden: true, onclick: () => attempt(() => this.read(false)) }, "More");
    main.append(make("div", { className: "bar" }, make("h1", {}, "Workers"), this.filter, make("button", { type: "button", id: "read", "data-read": "", onclick: () => attempt(() => this.read(true)) }, "Refresh")),
      make("p", { className: "soft" }, "Connections to the beanstalk port of all instances. Workers that use HTTP hold their jobs by leases and have none." + (mayEverywhere("admin") ? "" : " You see those of your user.")),
      this.hung.element, this.banner, this.rows.element, this.empty, make("div", { className: "foot" }, this.status, this.more));
    this.resized = () => this.draw();
    narrow.addEventListener("change", this.resized);
    this.timers = [setInterval(() => { if (!document.hidden && this.single) this.read(true).catch(() => {}); }, every), setInterval(() => this.rows.soon(), 1000)];
    attempt(() => this.read(true));
  }

  end() {
    this.ended = true;
    this.timers.forEach(clearInterval);
    narrow.removeEventListener("change", this.resized);
  }

  // chosen returns the columns that fit, and in which a connection has something.
  chosen() {
    return columns.filter(c => (!narrow.matches || c.phone) && (!c.has || this.all.some(c.has)));
  }

  async read(refresh) {
    let all = refresh ? [] : this.all, next = refresh ? "" : this.next, missing = refresh ? [] : this.missing;
    const before = all.length;
    do {
      const got = await call("GET", "/v1/clients", { query: { limit: page, cursor: next } });
      if (this.ended) return;
      all = all.concat(got.clients);
      next = got.next;
      missing = [...new Set([...missing, ...got.missing])];
    } while (next && all.length - before < most);
    await this.hung.read();
    if (this.ended) return;
    for (const c of all) c.hung = this.hung.jobs.filter(j => c.held?.includes(j.id));
    Object.assign(this, { all, next, missing, single: all.length <= page });
    this.main.dataset.ready = "true";
    this.draw();
  }

  draw() {
    const chosen = this.chosen(), shown = chosen.map(c => c.key).join();
    if (shown !== this.shown) this.rows.setColumns(chosen);
    this.shown = shown;
    const text = this.filter.value.trim().toLowerCase(), by = columns.find(c => c.key === this.order.key).value, sign = this.order.down ? -1 : 1;
    this.list = this.all.filter(c => matches(c, text)).map(c => ({ c, value: by(c) }))
      .sort((a, b) => compare(a.value, b.value) * sign || compare(idOf(a.c), idOf(b.c))).map(({ c }) => c);
    this.rows.set(this.list);
    this.drawAround();
  }

  drawAround() {
    const known = this.main.dataset.ready === "true", sum = of => this.list.filter(of).length;
    this.rows.element.hidden = !this.list.length;
    this.empty.hidden = this.list.length > 0 || !known;
    this.empty.textContent = this.all.length ? "No client matches the filter." : "No client is connected.";
    this.banner.hidden = !this.missing.length;
    this.banner.textContent = `Without the connections of ${this.missing.join(", ")}, which did not answer.`;
    const status = known && !this.list.length ? "" : known ? `${plural(this.list.length, "client")}: ${number(sum(c => c.jobs ?? 0))} with jobs, ${number(sum(c => c.waiting))} waiting.` + (this.next ? " There are more." : "") : "Asking the instances …";
    if (this.status.textContent !== status) this.status.textContent = status; // screen readers read it out
    this.more.hidden = !this.next;
  }

  // disconnect closes a connection after a confirmation. It reports whether it was confirmed.
  async disconnect(c) {
    if (!await ask({ name: "disconnect", title: `Disconnect ${nameOf(c)}?`, text: "Its jobs become ready, which counts as no failure. The client can connect again. Jobs that it has leased stay leased: take them back one by one.", hits: `It holds ${plural(c.jobs ?? 0, "job")}.`, action: "Disconnect", danger: true })) return false;
    await call("DELETE", "/v1/clients/" + c.id, { query: c.instance ? { instance: c.instance } : {} });
    note(`${nameOf(c)} was disconnected.`);
    await this.read(true);
    return true;
  }

  // open shows all that is known of a connection.
  open(c) {
    const rows = [["Address", c.address], c.name && ["Name", c.name], c.user && ["User", c.user], c.instance && ["Instance", c.instance], ["Connection", `${c.id}, ${c.entrance}`], ["Connected", ago(c.since_ms)],
      ["Waiting for a job", c.waiting ? "yes" : "no"], c.hung.length && ["Probably hangs", listed(c.hung.map(j => make("span", {}, jobLink(j.id), ` for ${span(j.held_ms)}`)), c.hung.length)], ["Puts into", tubeLink(c.used)], ["Watches", make("span", {}, watchedBy(c))], ["Holds jobs", make("span", {}, c.jobs ? heldBy(c) : "none")]];
    const d = make("dialog", { "data-dialog": "client", className: "middle", "aria-label": "Client " + nameOf(c) },
      make("div", { className: "bar tight" }, make("h2", { tabIndex: -1, autofocus: true }, nameOf(c)), make("button", { type: "button", className: "quiet", "aria-label": "Close", "data-do": "close", onclick: () => d.close() }, "×")),
      make("dl", { className: "properties" }, rows.filter(Boolean).map(([k, v]) => make("div", {}, make("dt", {}, k), make("dd", {}, v)))),
      mayEverywhere("admin") && make("div", { className: "buttons" }, button("disconnect", "Disconnect", async () => { if (await this.disconnect(c)) d.close(); }, "danger")));
    d.querySelectorAll("a").forEach(a => { a.tabIndex = 0; });
    d.addEventListener("close", () => d.remove());
    document.body.append(d);
    d.showModal();
  }
}
