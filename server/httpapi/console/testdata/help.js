// What tests do within a page. It is there before the page's own scripts, in each document. Waiting
// is done here, so that it takes no messages to and fro.
window.help = (() => {
  const pause = ms => new Promise(done => setTimeout(done, ms));

  // until waits until something holds, which may fail until then. It returns false when it has
  // waited for long enough to be asked again.
  async function until(holds, limit = 2000) {
    for (const end = performance.now() + limit; ; await pause(20)) {
      try {
        if (holds()) return true;
      } catch { /* not yet */ }
      if (performance.now() > end) return false;
    }
  }

  const squeeze = text => text.replace(/\s+/g, " ").trim();
  const text = () => squeeze(document.body.innerText);
  const has = selector => [...document.querySelectorAll(selector)].some(e => e.checkVisibility());

  // rows are the texts of the rows of the table that are there, by the keys of their columns; row is
  // what each is of.
  const rows = () => [...document.querySelectorAll(".row[data-id]")].sort((a, b) => a.ariaRowIndex - b.ariaRowIndex).map(r =>
    Object.fromEntries([["row", r.dataset.id], ...[...r.querySelectorAll("[data-column]")].map(c => [c.dataset.column, squeeze(c.innerText)])]));
  const column = key => rows().map(r => r[key]);
  const cell = (row, key) => squeeze(document.querySelector(`.row[data-id=${JSON.stringify(row)}] [data-column=${key}]`).innerText);
  const same = (a, b) => JSON.stringify(a) === JSON.stringify(b);

  // look returns where the element that fits a selector is. While a dialog is open, only what is in
  // it counts.
  function look(selector) {
    const top = [...document.querySelectorAll("dialog[open]")].at(-1) ?? document;
    const found = [...top.querySelectorAll(selector)].filter(e => e.checkVisibility());
    if (found.length !== 1) return { count: found.length };
    const e = found[0];
    e.scrollIntoView({ block: "nearest", inline: "nearest" });
    const box = e.getBoundingClientRect(), x = box.x + box.width / 2, y = box.y + box.height / 2;
    const over = document.elementFromPoint(x, y), free = over && (e.contains(over) || over.contains(e));
    return { count: 1, e, over, x, y, under: free ? "" : over?.outerHTML.slice(0, 200) ?? "outside of the window" };
  }

  // find waits until an element stands still and a mouse could hit it.
  async function find(selector) {
    const stands = 3; // looks one after the other that find it in the same place
    let at = { count: 0 }, found = 0;
    const is = await until(() => {
      const was = at;
      at = look(selector);
      found = at.e === was.e && at.x === was.x && at.y === was.y && at.under === was.under ? found + 1 : 1;
      return at.count === 1 && at.under === "" && found >= stands;
    });
    return { ...at, found: is };
  }
  const told = ({ found, count, x, y, under }) => ({ found, count, x, y, under });

  // A click is aimed at an element. Whatever else it meets, because something moved, does not feel it.
  let aimed = null;
  async function aim(selector) {
    aimed = null;
    const at = await find(selector);
    if (at.found) aimed = { ...at, selector, missed: false, clicked: false };
    return told(at);
  }
  function guard(event) {
    if (!aimed || aimed.clicked || !event.isTrusted) return;
    const { e, over, selector } = aimed;
    aimed.missed ||= !e.isConnected || !e.matches(selector) || !e.contains(event.target) && event.target !== over;
    if (aimed.missed) {
      event.preventDefault();
      event.stopImmediatePropagation();
    } else if (event.type === "click") aimed.clicked = true;
  }
  for (const type of ["pointerdown", "mousedown", "pointerup", "mouseup", "click"]) addEventListener(type, guard, true);

  // hit returns whether the click came to what it was aimed at, and aims no more.
  function hit() {
    const was = !aimed || aimed.clicked;
    aimed = null;
    return was;
  }

  // said is everything that the page has told of in messages and in lines that tell how things stand.
  const said = [];
  new MutationObserver(changes => {
    for (const { target } of changes) {
      const e = target.closest?.("#notes, [role=status]");
      if (e) said.push(squeeze(e.innerText));
    }
  }).observe(document, { childList: true, subtree: true });

  return { until, text, has, rows, column, cell, same, find: async selector => told(await find(selector)), aim, hit, said };
})();
