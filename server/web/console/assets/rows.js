// A table of any length, of which only the rows that are seen exist.
import { make } from "./ui.js";

const height = 40; // of a row, px, as in style.css

// Rows shows rows in a grid. columns: [{key, label, number, cell(row), title}]; open(row) is
// called for a row that is chosen.
export class Rows {
  constructor({ label, columns, open, sort, onsort, mark }) {
    Object.assign(this, { columns, open, onsort, mark, rows: [], sorted: sort, at: 0, shown: new Map() });
    this.head = make("div", { className: "row head", role: "row" });
    this.body = make("div", { className: "rows", role: "rowgroup" });
    this.element = make("div", { className: "grid", role: "grid", "aria-label": label, tabIndex: 0, onscroll: () => this.draw(), onkeydown: e => this.pressed(e) },
      make("div", { role: "rowgroup", className: "headgroup" }, this.head), this.body);
    this.setColumns(columns);
    new ResizeObserver(() => this.draw()).observe(this.element);
  }

  setColumns(columns) {
    this.columns = columns;
    this.template = (this.mark ? "36px " : "") + columns.map(c => c.width ?? "minmax(5rem, 1fr)").join(" ");
    this.drawHead();
    this.shown.forEach(r => r.remove());
    this.shown.clear();
    this.draw();
  }

  drawHead() {
    this.head.style.gridTemplateColumns = this.template;
    this.head.replaceChildren(...(this.mark ? [this.markAll()] : []), ...this.columns.map(c => {
      const sorted = this.sorted?.key === c.key;
      const cell = make("div", { role: "columnheader", className: "cell" + (c.number ? " number" : ""), title: c.title ?? "" });
      if (sorted) cell.setAttribute("aria-sort", this.sorted.down ? "descending" : "ascending");
      if (c.sortable === false || !this.onsort) cell.append(c.label);
      else cell.append(make("button", { type: "button", className: "sort", onclick: () => this.sortBy(c) }, c.label, make("span", { "aria-hidden": "true" }, sorted ? (this.sorted.down ? " ▾" : " ▴") : "")));
      return cell;
    }));
  }

  sortBy(c) {
    const down = this.sorted?.key === c.key ? !this.sorted.down : !!c.number;
    this.sorted = { key: c.key, down };
    this.drawHead();
    this.onsort(this.sorted);
  }

  markAll() {
    const all = this.rows.length > 0 && this.rows.every(r => this.mark.has(r.id));
    return make("div", { role: "columnheader", className: "cell" }, make("input", { type: "checkbox", checked: all, "aria-label": "Mark all that are listed", onchange: e => {
      for (const r of this.rows) e.target.checked ? this.mark.add(r.id) : this.mark.delete(r.id);
      this.marked();
    } }));
  }

  marked() {
    this.drawHead();
    this.shown.forEach(r => r.remove());
    this.shown.clear();
    this.draw();
    this.element.dispatchEvent(new Event("marked"));
  }

  set(rows) {
    this.rows = rows;
    this.at = Math.min(this.at, Math.max(0, rows.length - 1));
    this.element.setAttribute("aria-rowcount", rows.length + 1);
    this.body.style.height = rows.length * height + "px";
    if (this.mark) this.drawHead();
    this.draw(true);
  }

  // draw makes the rows that are seen, and with fresh also fills in those that were there.
  draw(fresh) {
    const top = this.element.scrollTop;
    const first = Math.max(0, Math.floor(top / height) - 4);
    const last = Math.min(this.rows.length, Math.ceil((top + this.element.clientHeight) / height) + 4);
    for (const [i, r] of this.shown) {
      if (i < first || i >= last) { r.remove(); this.shown.delete(i); }
    }
    for (let i = first; i < last; i++) {
      let r = this.shown.get(i);
      if (!r) {
        r = make("div", { className: "row", role: "row" });
        r.style.transform = `translateY(${i * height}px)`;
        r.style.gridTemplateColumns = this.template;
        this.shown.set(i, r);
        this.body.append(r);
      } else if (!fresh) continue;
      this.fill(r, i);
    }
  }

  fill(r, i) {
    const row = this.rows[i];
    r.setAttribute("aria-rowindex", i + 2);
    r.classList.toggle("at", i === this.at && this.element.matches(":focus"));
    r.onclick = e => { if (!e.target.closest("input,a,button")) { this.at = i; this.open(row); } };
    const cells = this.columns.map(c => {
      const cell = make("div", { role: "gridcell", className: "cell" + (c.number ? " number" : "") + (c.className?.(row) ?? "") });
      cell.append(c.cell(row));
      return cell;
    });
    if (this.mark) {
      cells.unshift(make("div", { role: "gridcell", className: "cell" }, make("input", { type: "checkbox", checked: this.mark.has(row.id), "aria-label": `Mark job ${row.id}`, onchange: e => {
        e.target.checked ? this.mark.add(row.id) : this.mark.delete(row.id);
        this.drawHead();
        this.element.dispatchEvent(new Event("marked"));
      } })));
    }
    r.replaceChildren(...cells);
  }

  pressed(event) {
    if (event.target !== this.element) return;
    const page = Math.max(1, Math.floor(this.element.clientHeight / height) - 2);
    const steps = { ArrowDown: 1, ArrowUp: -1, j: 1, k: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity };
    if (event.key in steps) {
      this.at = Math.max(0, Math.min(this.rows.length - 1, this.at + steps[event.key]));
      const y = this.at * height, box = this.element;
      if (y < box.scrollTop) box.scrollTop = y;
      if (y + 2 * height > box.scrollTop + box.clientHeight) box.scrollTop = y + 2 * height - box.clientHeight;
      this.draw(true);
    } else if (event.key === "Enter" && this.rows[this.at]) {
      this.open(this.rows[this.at]);
    } else if (event.key === "x" && this.mark && this.rows[this.at]) {
      const id = this.rows[this.at].id;
      this.mark.has(id) ? this.mark.delete(id) : this.mark.add(id);
      this.marked();
    } else return;
    event.preventDefault();
  }
}
