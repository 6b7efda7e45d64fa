// The groups of a tube: their jobs and limits, and the actions on one of them.
import { make, compare, ask, note, plural, number, span, attempt, button, durations, wrongDuration } from "./ui.js";
import { call, mayOn, tubePath } from "./api.js";
import { Rows } from "./rows.js";
import { heldBadge, whyHeld } from "./job.js";

const page = 1000, most = 10_000; // groups of one request, and of one click
const every = 3000; // ms between two requests, if one is enough for all groups
const narrow = matchMedia("(max-width: 720px)");
const nothing = { ready: 0, reserved: 0, delayed: 0, buried: 0, weight: 1, pause_left_ms: 0 }; // what a group is that the server does not know

// hasGroupTag returns whether a policy has limits or an order for groups.
export const hasGroupTag = p => !!(p.group_concurrency || p.group_rate || p.group_order);

// Browsers remove the segments . and .. from a path, however they are encoded, and would call another operation.
const addressable = name => name !== "." && name !== "..";
const groupPath = (tube, name) => tubePath(tube) + "/groups/" + encodeURIComponent(name).replace(/\./g, "%2E");

// pauseLeft returns the rest of the pause of a group in ms.
const pauseLeft = g => Math.max(0, g.pause_left_ms - (Date.now() - g.read));

const count = (key, label, more) => ({ key, label, number: true, min: 56, cell: g => number(g[key]), value: g => g[key], className: g => g[key] ? "" : " zero", ...more });
const reserved = g => number(g.reserved) + (narrow.matches && g.concurrency ? " / " + number(g.concurrency) : "");
const columns = [
  { key: "name", label: "Group", min: 84, grow: 5, phone: true, cell: g => g.name, value: g => g.name },
  count("ready", "Ready", { phone: true, min: 46 }),
  count("reserved", "Reserved", { phone: true, min: 64, cell: reserved }),
  count("delayed", "Delayed"),
  count("buried", "Buried"),
  count("concurrency", "Limit", { title: "The maximum number of reserved jobs", cell: g => g.concurrency ? number(g.concurrency) : "–", value: g => g.concurrency ?? Infinity }),
  { key: "rate", label: "Rate", title: "The maximum number of reserves in any period", min: 84, grow: 2, number: true, has: g => g.rate, cell: g => g.rate ?? "–", value: g => g.rate ?? "", className: g => g.rate ? "" : " zero" },
  count("weight", "Weight", { title: "The share of the group among the others", has: g => g.weight !== 1, className: g => g.weight !== 1 ? "" : " zero" }),
  { key: "held", label: "Held", title: "Why no ready job of the group can be reserved now", min: 122, grow: 1.5, phone: true, stamp: g => g.held ?? "", cell: g => g.held ? heldBadge(g.held, g.held, " first") : make("span", { className: "soft" }, "–"), value: g => g.held ?? "" },
  { key: "pause", label: "Pause left", min: 76, number: true, has: g => pauseLeft(g), cell: g => pauseLeft(g) ? span(pauseLeft(g)) : "–", value: pauseLeft, className: g => pauseLeft(g) ? "" : " zero" },
];

// Groups has the list of the groups of a tube. form has its controls, elements the list; visible is whether they are in the page. drawn is called when they
// have changed. close must be called at the end.
export class Groups {
  constructor(tube, drawn) {
    Object.assign(this, { tube, drawn, all: [], next: "", known: false, exist: false, visible: false, ended: false, order: { key: "name", down: false }, shown: "" });
    this.filter = make("input", { type: "search", id: "group-filter", placeholder: "Filter groups", "aria-label": "Filter groups", autocomplete: "off", spellcheck: false, oninput: () => this.draw() });
    this.form = make("form", { className: "searchform", role: "search", "aria-label": "Groups of this tube", onsubmit: e => e.preventDefault() }, this.filter, mayOn(tube, "admin") && button("group-limits", "Set group limits", () => this.setLimits("")));
    this.rows = new Rows({ label: "Groups", columns: this.chosen(), sort: this.order, onsort: order => { this.order = order; this.draw(); }, idOf: g => g.name, open: g => attempt(() => this.open(g.name)) });
    this.empty = make("p", { className: "empty", hidden: true });
    this.status = make("span", { className: "soft", role: "status" });
    this.more = make("button", { type: "button", id: "more", hidden: true, onclick: () => attempt(() => this.read(false)) }, "More");
    this.elements = [this.rows.element, this.empty, make("div", { className: "foot" }, this.status, this.more)];
    this.resized = () => this.draw();
    narrow.addEventListener("change", this.resized);
    this.timers = [setInterval(() => { if (this.visible && this.known && this.all.length <= page && !document.hidden) this.read(true).catch(() => {}); }, every),
      setInterval(() => { if (this.visible) this.rows.soon(); }, 1000)];
  }

  close() {
    this.ended = true;
    this.timers.forEach(clearInterval);
    narrow.removeEventListener("change", this.resized);
  }

  // look checks whether there are groups.
  async look() {
    if (this.exist || !mayOn(this.tube, "list")) return;
    try {
      const got = await call("GET", tubePath(this.tube) + "/groups", { query: { limit: 1 } });
      this.appear(got.groups.length > 0);
    } catch { /* the list of the jobs shows what is wrong */ }
  }

  // appear makes the list visible in the page, if there is something to show.
  appear(exist) {
    if (this.ended || !exist || this.exist) return;
    this.exist = true;
    this.drawn();
  }

  // chosen returns the columns that fit, and in which a group has something.
  chosen() { return columns.filter(c => (!narrow.matches || c.phone) && (!c.has || this.all.some(c.has))); }

  async read(refresh) {
    const reading = this.reading = {};
    let all = refresh ? [] : this.all, next = refresh ? "" : this.next;
    const before = all.length;
    do {
      const got = await call("GET", tubePath(this.tube) + "/groups", { query: { limit: page, cursor: next } });
      if (this.ended || this.reading !== reading) return;
      all = all.concat(got.groups.map(g => ({ ...g, read: Date.now() })));
      next = got.next;
    } while (next && all.length - before < most);
    Object.assign(this, { all, next, known: true });
    this.draw();
    this.drawn();
  }

  draw() {
    const chosen = this.chosen(), shown = chosen.map(c => c.key).join();
    if (shown !== this.shown) this.rows.setColumns(chosen);
    this.shown = shown;
    const text = this.filter.value.trim().toLowerCase(), by = columns.find(c => c.key === this.order.key).value, sign = this.order.down ? -1 : 1;
    const list = this.all.filter(g => g.name.toLowerCase().includes(text)).map(g => ({ g, value: by(g) }))
      .sort((a, b) => compare(a.value, b.value) * sign || compare(a.g.name, b.g.name)).map(({ g }) => g);
    this.rows.set(list);
    this.rows.element.hidden = !list.length;
    this.empty.hidden = list.length > 0 || !this.known;
    this.empty.textContent = this.all.length ? `No ${this.next ? "listed " : ""}group matches the filter.` : "No job has a group, and nothing is set for a group.";
    const held = list.filter(g => g.held).length;
    const status = list.length ? `${this.next ? "The first " : ""}${plural(list.length, "group")}: ${number(held)} held.` : "";
    if (this.status.textContent !== status) this.status.textContent = status; // screen readers read it out
    this.more.hidden = !this.next;
  }

  // load returns all that is known of a group.
  async load(name) {
    if (!addressable(name)) return this.all.find(g => g.name === name) ?? { ...nothing, name, read: Date.now() };
    try {
      return { ...await call("GET", groupPath(this.tube, name)), read: Date.now() };
    } catch (err) {
      if (err.status !== 404) throw err;
      return { ...nothing, name, read: Date.now() };
    }
  }

  // open shows a group and the actions on it.
  async open(name) {
    const g = await this.load(name);
    if (this.ended) return;
    const d = make("dialog", { "data-dialog": "group", className: "middle", "aria-label": "Group " + name },
      make("div", { className: "bar tight" }, make("h2", { tabIndex: -1, autofocus: true }, name, g.held && heldBadge(g.held)), make("button", { type: "button", className: "quiet", "aria-label": "Close", "data-do": "close", onclick: () => d.close() }, "×")),
      properties(g), make("div", { className: "buttons" }, this.buttons(g, () => d.close())));
    d.addEventListener("close", () => d.remove());
    document.body.append(d);
    d.showModal();
  }

  // buttons returns the buttons for the actions that the user may do. done is called after an action.
  buttons(g, done) {
    if (!addressable(g.name)) return [make("span", { className: "soft" }, "Browsers cannot send this name in an address. Use the command line.")];
    const action = (name, label, f, className) => button(name, label, async () => { if (await f.call(this, g)) { done(); await this.read(true); } }, className);
    const admin = mayOn(this.tube, "admin"), work = mayOn(this.tube, "work");
    return [admin && action("flush", "Flush", this.flush, "danger left"), work && pauseLeft(g) > 0 && action("resume", "Resume", this.resume), work && action("pause", "Pause", this.pause),
      admin && g.set && action("remove-limits", "Remove limits", this.removeLimits), admin && action("limits", "Set limits", g => this.setLimits(g.name, g))].filter(Boolean);
  }

  // setLimits sets the limits of a group; without a name, it asks for one.
  async setLimits(name, { set = {}, ready, reserved } = {}) {
    const v = await ask({ name: "limits", title: name ? "Limits of " + name : "Limits of a group", action: "Save", check: v => addressable(v.name ?? name) ? "" : "Browsers cannot send this name in an address.",
      text: "They apply instead of those that the policy of the tube has for each group. An empty field is as in the policy.",
      hits: name && `${plural(reserved, "job is", "jobs are")} reserved and ${number(ready)} ready now. A lower limit takes no job from its worker.`,
      fields: [!name && { name: "name", label: "Group", required: true, maxLength: 128 },
        { name: "concurrency", label: "Maximum reserved jobs", type: "number", value: set.concurrency ?? "", min: 1, max: 1000000 },
        { name: "rate", label: "Maximum rate", value: set.rate ?? "", placeholder: "100/m,1000/h", help: "Reserves in any second, minute or hour" },
        { name: "weight", label: "Weight", type: "number", value: set.weight ?? "", min: 1, max: 1000, placeholder: "1", help: "The share of the group among the others" },
        { name: "ttl", label: "Keep for", value: set.ttl ?? "", placeholder: "30d", help: "While the group has no jobs; 0 is for ever" }].filter(Boolean) });
    if (!v) return false;
    const { name: to = name, ...texts } = v;
    const body = Object.fromEntries(Object.entries(texts).map(([key, text]) => [key, text.trim()]).filter(([, text]) => text).map(([key, text]) => [key, key === "concurrency" || key === "weight" ? Number(text) : text]));
    await call("PUT", groupPath(this.tube, to), { body });
    note(Object.keys(body).length ? "The limits are saved." : "The limits are removed.");
    if (!name) await this.read(true);
    return true;
  }

  async removeLimits(g) {
    if (!await ask({ name: "remove-limits", title: `Remove the limits of ${g.name}?`, text: "Then the policy of the tube applies, and the weight is 1. The jobs stay.", action: "Remove" })) return false;
    await call("DELETE", groupPath(this.tube, g.name));
    note("The limits are removed.");
    return true;
  }

  async pause(g) {
    const v = await ask({ name: "pause", title: "Pause " + g.name, text: "Workers get no jobs of this group for that time. Puts still work.", action: "Pause", check: v => wrongDuration(v.for), hits: `${plural(g.ready, "ready job")} will wait.`,
      fields: [{ name: "for", label: "For", value: "10m", help: durations + ", in whole seconds; 0 ends a pause" }, { name: "reason", label: "Reason", maxLength: 200, help: "Shown in the log" }] });
    if (!v) return false;
    await call("POST", groupPath(this.tube, g.name) + "/pause", { query: v });
    note(/^0+(ms|s|m|h|d)?$/.test(v.for) ? "The group is resumed." : "The group is paused.");
    return true;
  }

  async resume(g) {
    await call("POST", groupPath(this.tube, g.name) + "/pause", { query: { for: "0" } });
    note("The group is resumed.");
    return true;
  }

  async flush(g) {
    const n = g.ready + g.delayed + g.buried;
    if (!await ask({ name: "flush", title: `Flush ${g.name}?`, text: "Its ready, delayed and buried jobs are deleted. This cannot be undone.", hits: `${plural(n, "job")} will be deleted.`, action: "Delete", danger: true })) return false;
    const got = await call("POST", groupPath(this.tube, g.name) + "/flush");
    note(plural(got.count, "job") + " deleted.");
    return true;
  }
}

// properties returns the properties of a group as a list.
function properties(g) {
  const own = g.set && [g.set.concurrency && `at most ${number(g.set.concurrency)} reserved`, g.set.rate && `at most ${g.set.rate}`, g.set.weight && `weight ${g.set.weight}`, g.set.ttl && `kept for ${g.set.ttl}`].filter(Boolean).join(", ");
  const rows = [["Ready", number(g.ready)], ["Reserved", number(g.reserved)], ["Delayed", number(g.delayed)], ["Buried", number(g.buried)], ["Limit", g.concurrency ? number(g.concurrency) : "none"], ["Rate", g.rate ?? "no limit"], ["Weight", number(g.weight)],
    pauseLeft(g) > 0 && ["Pause left", span(pauseLeft(g))], g.held && ["Held", whyHeld[g.held] ?? g.held], own && ["Set for this group", own]];
  return make("dl", { className: "properties" }, rows.filter(Boolean).map(([k, v]) => make("div", {}, make("dt", {}, k), make("dd", {}, v))));
}
