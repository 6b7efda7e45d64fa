// A page with a table of all things of one kind: schedules, or batches.
import { make, compare, plural, number, attempt } from "./ui.js";
import { call } from "./api.js";
import { Rows } from "./rows.js";

const page = 1000, most = 10_000; // things of one request, and of one click
const every = 3000; // ms between two requests, if one is enough for all things
const narrow = matchMedia("(max-width: 720px)");

// Browsers remove the segments . and .. from a path, however they are encoded, and would call another operation.
export const addressable = name => name !== "." && name !== "..";

// A ListPage has what its constructor is given:
//   noun      of one thing
//   columns   those of Rows; a column with has is shown only if it is true of one of the things
//   path      of the operation that lists the things, which are in its answer by key
//   words     returns what the filter looks at
//   filter    the hint of the filter
//   summary   returns a text about a list
//   actions   buttons of the bar
// A subclass has open, which shows a thing by its name.
export class ListPage {
  constructor(main, name, options) {
    Object.assign(this, { main, all: [], next: "", order: { key: "name", down: false }, ended: false, shown: "" }, options);
    const title = this.key[0].toUpperCase() + this.key.slice(1);
    this.filter = make("input", { type: "search", id: "filter", placeholder: options.filter, "aria-label": "Filter " + this.key, autocomplete: "off", spellcheck: false, oninput: () => this.draw() });
    this.rows = new Rows({ label: title, columns: this.chosen(), sort: this.order, onsort: order => { this.order = order; this.draw(); }, idOf: x => x.name, open: x => attempt(() => this.open(x.name)) });
    this.empty = make("p", { className: "empty", hidden: true });
    this.status = make("span", { className: "soft", role: "status" });
    this.more = make("button", { type: "button", id: "more", hidden: true, onclick: () => attempt(() => this.read(false)) }, "More");
    main.append(make("div", { className: "bar" }, make("h1", {}, title), this.filter, options.actions,
      make("button", { type: "button", id: "read", "data-read": "", onclick: () => attempt(() => this.read(true)) }, "Refresh")),
    this.rows.element, this.empty, make("div", { className: "foot" }, this.status, this.more));
    this.resized = () => this.draw();
    narrow.addEventListener("change", this.resized);
    this.timers = [setInterval(() => { if (!document.hidden && this.single) this.read(true).catch(() => {}); }, every), setInterval(() => this.rows.soon(), 1000)];
    attempt(async () => {
      await this.read(true);
      if (name && !this.ended) await this.open(name);
    });
  }

  end() {
    this.ended = true;
    this.timers.forEach(clearInterval);
    narrow.removeEventListener("change", this.resized);
  }

  // chosen returns the columns that fit, and in which a thing has something.
  chosen() { return this.columns.filter(c => (!narrow.matches || c.phone) && (!c.has || this.all.some(c.has))); }

  async read(refresh) {
    const reading = this.reading = {};
    let all = refresh ? [] : this.all, next = refresh ? "" : this.next;
    const before = all.length;
    do {
      const got = await call("GET", this.path, { query: { limit: page, cursor: next } });
      if (this.ended || this.reading !== reading) return;
      all = all.concat(got[this.key]);
      next = got.next;
    } while (next && all.length - before < most);
    Object.assign(this, { all, next, single: all.length <= page });
    this.main.dataset.ready = "true";
    this.draw();
  }

  draw() {
    const chosen = this.chosen(), shown = chosen.map(c => c.key).join();
    if (shown !== this.shown) this.rows.setColumns(chosen);
    this.shown = shown;
    const text = this.filter.value.trim().toLowerCase(), by = this.columns.find(c => c.key === this.order.key).value, sign = this.order.down ? -1 : 1;
    const list = this.all.filter(x => this.words(x).some(word => word.toLowerCase().includes(text))).map(x => ({ x, value: by(x) }))
      .sort((a, b) => compare(a.value, b.value) * sign || compare(a.x.name, b.x.name)).map(({ x }) => x);
    this.rows.set(list);
    this.rows.element.hidden = !list.length;
    this.empty.hidden = list.length > 0 || !this.main.dataset.ready;
    this.empty.textContent = this.all.length ? `No ${this.noun} matches the filter.` : `There is no ${this.noun}.`;
    const status = list.length ? `${this.next ? "The first " : ""}${list.length === 1 ? plural(1, this.noun) : number(list.length) + " " + this.key}: ${this.summary(list)}.` : "";
    if (this.status.textContent !== status) this.status.textContent = status; // screen readers read it out
    this.more.hidden = !this.next;
  }

  // dialog shows a thing in a dialog. parts is called with a function that closes it.
  dialog(kind, name, badge, parts) {
    const d = make("dialog", { "data-dialog": kind, className: "middle", "aria-label": `${kind[0].toUpperCase()}${kind.slice(1)} ${name}` },
      make("div", { className: "bar tight" }, make("h2", { tabIndex: -1, autofocus: true }, name, badge), make("button", { type: "button", className: "quiet", "aria-label": "Close", "data-do": "close", onclick: () => d.close() }, "×")));
    d.append(...parts(() => d.close()).filter(Boolean));
    d.addEventListener("close", () => d.remove());
    document.body.append(d);
    d.showModal();
  }
}

// properties returns a list of names with values; what is not there is left out.
export const properties = rows => make("dl", { className: "properties" }, rows.filter(Boolean).map(([k, v]) => make("div", {}, make("dt", {}, k), make("dd", {}, v))));
