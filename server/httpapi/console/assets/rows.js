// A virtual table: only the visible rows are in the DOM.
import { make } from "./ui.js";

const height = 40; // of a row, px, as in style.css
const spare = 6; // rows above and below the visible ones
const narrow = matchMedia("(max-width: 720px)"); // as in style.css: rows have less padding
const calm = matchMedia("(prefers-reduced-motion: reduce)");
let tables = 0;

// Rows shows rows in a grid. columns is [{key, label, number, cell(row), stamp(row), title, min, grow}]. cell
// returns text or an element; an element is created again when stamp changes. min is the least width in px,
// grow the share of the remaining width. idOf(row) is the id of a row. open(row) is called when a row is
// opened. selection is the set of selected ids, or null if rows cannot be selected.
export class Rows {
  constructor({ label, columns, open, sort, onsort, selection = null, idOf = r => r.id, nameOf = idOf }) {
    Object.assign(this, { open, onsort, selection, idOf, nameOf, rows: [], sorted: sort, at: 0, shown: new Map(), highlight: false, id: "rows" + ++tables, frame: 0 });
    this.head = make("div", { className: "row head", role: "row", "aria-rowindex": 1 });
    this.body = make("div", { className: "rows", role: "rowgroup" });
    this.element = make("div", { className: "grid", role: "grid", "aria-label": label, tabIndex: 0 },
      make("div", { role: "rowgroup", className: "headgroup" }, this.head), this.body);
    if (selection) this.element.setAttribute("aria-multiselectable", "true");
    this.element.addEventListener("scroll", () => this.soon(), { passive: true });
    this.element.addEventListener("keydown", e => this.pressed(e));
    this.element.addEventListener("focus", () => this.point());
    this.element.addEventListener("blur", () => this.point());
    this.body.addEventListener("mousedown", e => { if (e.shiftKey && this.selection) e.preventDefault(); }); // it would select text
    this.body.addEventListener("click", e => this.clicked(e));
    this.body.addEventListener("change", e => this.checked(e));
    this.setColumns(columns);
    new ResizeObserver(() => this.soon()).observe(this.element);
  }

  setColumns(columns) {
    this.columns = columns;
    const widths = columns.map(c => `minmax(${c.min ?? 76}px, ${c.grow ?? 1}fr)`);
    this.template = (this.selection ? "28px " : "") + widths.join(" ");
    const { gap, around, box } = narrow.matches ? { gap: 8, around: 20, box: 28 } : { gap: 12, around: 26, box: 28 };
    this.least = columns.reduce((sum, c) => sum + (c.min ?? 76) + gap, this.selection ? box + gap : 0) - gap + around + "px";
    this.drawHead();
    this.clear();
    this.soon();
  }

  clear() {
    for (const r of this.shown.values()) r.element.remove();
    this.shown.clear();
  }

  drawHead() {
    Object.assign(this.head.style, { gridTemplateColumns: this.template, minWidth: this.least });
    this.body.style.minWidth = this.least;
    this.head.replaceChildren(...(this.selection ? [this.selectAll()] : []), ...this.columns.map(c => {
      const sorted = this.sorted?.key === c.key;
      const cell = make("div", { role: "columnheader", className: "cell" + (c.number ? " number" : ""), title: c.title ?? "", "data-column": c.key });
      if (sorted) cell.setAttribute("aria-sort", this.sorted.down ? "descending" : "ascending");
      if (c.sortable === false || !this.onsort) cell.append(c.label);
      else cell.append(make("button", { type: "button", className: "sort", "data-sort": c.key, onclick: () => this.sortBy(c) }, c.label, make("span", { className: "arrow", "aria-hidden": "true" }, sorted ? (this.sorted.down ? "↓" : "↑") : "")));
      return cell;
    }));
  }

  sortBy(c) {
    const down = this.sorted?.key === c.key ? !this.sorted.down : !!c.number;
    this.sorted = { key: c.key, down };
    this.drawHead();
    this.head.querySelector(`[data-sort="${c.key}"]`)?.focus();
    this.onsort(this.sorted);
  }

  selectAll() {
    this.all = make("input", { type: "checkbox", "aria-label": "Select all listed", onchange: e => {
      for (const r of this.rows) e.target.checked ? this.selection.add(this.idOf(r)) : this.selection.delete(this.idOf(r));
      this.selectionChanged();
    } });
    this.updateSelectAll();
    return make("div", { role: "columnheader", className: "cell" }, this.all);
  }

  updateSelectAll() {
    if (!this.selection) return;
    this.all.checked = this.rows.length > 0 && this.selection.size >= this.rows.length && this.rows.every(r => this.selection.has(this.idOf(r)));
    this.all.indeterminate = !this.all.checked && this.selection.size > 0;
  }

  // selectionChanged must be called after each change of the selection.
  selectionChanged() {
    this.updateSelectAll();
    this.soon();
    this.element.dispatchEvent(new Event("selectionchanged"));
  }

  set(rows) {
    this.rows = rows;
    this.at = Math.min(this.at, Math.max(0, rows.length - 1));
    this.element.setAttribute("aria-rowcount", rows.length + 1);
    this.body.style.height = rows.length * height + "px";
    this.updateSelectAll();
    this.soon();
  }

  // soon draws once in the next frame.
  soon() {
    this.frame ||= requestAnimationFrame(() => { this.frame = 0; this.draw(); });
  }

  // draw creates the visible rows and updates the cells that have changed.
  draw() {
    const top = this.element.scrollTop, view = this.element.clientHeight;
    const first = Math.max(0, Math.floor(top / height) - spare), last = Math.min(this.rows.length, Math.ceil((top + view) / height) + spare);
    const free = [];
    for (const [i, r] of this.shown) if (i < first || i >= last) { this.shown.delete(i); free.push(r); }
    for (let i = first; i < last; i++) {
      let r = this.shown.get(i);
      if (!r) {
        r = free.pop() ?? this.makeRow();
        this.shown.set(i, r);
        r.index = i;
        r.element.id = this.id + "-" + i;
        r.element.dataset.index = i;
        r.element.setAttribute("aria-rowindex", i + 2);
        r.element.style.transform = `translateY(${i * height}px)`;
      }
      this.fill(r, this.rows[i]);
    }
    for (const r of free) r.element.remove();
    this.point();
  }

  makeRow() {
    const element = make("div", { className: "row", role: "row" });
    Object.assign(element.style, { gridTemplateColumns: this.template, minWidth: this.least });
    let box = null;
    if (this.selection) {
      box = make("input", { type: "checkbox", tabIndex: -1 });
      element.append(make("div", { role: "gridcell", className: "cell" }, box));
    }
    const cells = this.columns.map(c => ({ column: c, seen: undefined, className: "", element: make("div", { role: "gridcell", className: "cell" + (c.number ? " number" : ""), "data-column": c.key }) }));
    element.append(...cells.map(c => c.element));
    this.body.append(element);
    return { element, cells, box, of: undefined };
  }

  fill(r, row) {
    const id = this.idOf(row), same = r.of === id;
    if (!same) {
      r.of = id;
      r.element.dataset.id = id;
      if (r.box) r.box.setAttribute("aria-label", "Select " + this.nameOf(row));
    }
    for (const cell of r.cells) {
      const c = cell.column, seen = c.stamp ? c.stamp(row) : c.cell(row);
      const extra = c.className?.(row) ?? "";
      if (extra !== cell.className) {
        cell.className = extra;
        cell.element.className = "cell" + (c.number ? " number" : "") + extra;
      }
      if (same && seen === cell.seen) continue;
      if (c.stamp) cell.element.replaceChildren(c.cell(row));
      else if (typeof seen === "string") cell.element.textContent = seen;
      else cell.element.replaceChildren(seen);
      if (this.highlight && same && c.number && !calm.matches) cell.element.animate([{ backgroundColor: "rgb(214 158 46 / .38)" }, { backgroundColor: "transparent" }], 1200);
      cell.seen = seen;
    }
    if (r.box) {
      const selected = this.selection.has(id);
      r.box.checked = selected;
      r.element.setAttribute("aria-selected", selected);
    }
  }

  // point shows the row to which keys apply.
  point() {
    const here = this.element.matches(":focus") && this.rows.length > 0;
    for (const r of this.shown.values()) r.element.classList.toggle("at", here && r.index === this.at);
    if (here && this.shown.has(this.at)) this.element.setAttribute("aria-activedescendant", this.id + "-" + this.at);
    else this.element.removeAttribute("aria-activedescendant");
  }

  indexOf(event) {
    const e = event.target.closest(".row");
    return e ? Number(e.dataset.index) : -1;
  }

  clicked(event) {
    const i = this.indexOf(event), row = this.rows[i];
    if (!row || event.target.closest("a,button")) return;
    this.shift = event.shiftKey;
    if (event.target.closest("input")) return; // its change follows
    if (this.selection && event.target.closest(".cell") === event.target.closest(".row").firstElementChild) {
      this.toggle(row);
      return;
    }
    if (getSelection()?.toString()) return; // text is being copied
    this.at = i;
    this.open(row, i);
  }

  checked(event) {
    const row = this.rows[this.indexOf(event)];
    if (row && this.selection) this.toggle(row, event.target.checked);
  }

  // toggle selects a row, and with the shift key all rows from the one before.
  toggle(row, on = !this.selection.has(this.idOf(row))) {
    const to = this.rows.indexOf(row), from = this.shift ? this.rows.findIndex(r => this.idOf(r) === this.anchor) : -1;
    for (const r of from < 0 ? [row] : this.rows.slice(Math.min(from, to), Math.max(from, to) + 1)) on ? this.selection.add(this.idOf(r)) : this.selection.delete(this.idOf(r));
    Object.assign(this, { anchor: this.idOf(row), shift: false });
    this.selectionChanged();
  }

  pressed(event) {
    if (event.target !== this.element) return;
    const page = Math.max(1, Math.floor(this.element.clientHeight / height) - 2);
    const steps = { ArrowDown: 1, ArrowUp: -1, j: 1, k: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity };
    const row = this.rows[this.at];
    if (event.key in steps) {
      this.at = Math.max(0, Math.min(this.rows.length - 1, this.at + steps[event.key]));
      const y = this.at * height, box = this.element;
      if (y < box.scrollTop) box.scrollTop = y;
      if (y + 2 * height > box.scrollTop + box.clientHeight) box.scrollTop = y + 2 * height - box.clientHeight;
      this.draw();
    } else if (event.key === "Enter" && row) {
      this.open(row, this.at);
    } else if ((event.key === "x" || event.key === " ") && this.selection && row) {
      this.toggle(row);
    } else return;
    event.preventDefault();
  }
}
