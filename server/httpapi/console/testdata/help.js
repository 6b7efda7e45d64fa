// Helpers of the tests within a page. They run before the scripts of the page. Waiting happens here, so that it
// takes no round trips between the test and the browser.
window.help = (() => {
  const pause = ms => new Promise(done => setTimeout(done, ms));

  // until waits until a condition holds. Until then it can throw. It returns false after limit ms, so that the
  // test calls it again.
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

  // rows returns the texts of the rows in the DOM, by the keys of their columns. The key row has the id of the
  // row.
  const rows = () => [...document.querySelectorAll(".row[data-id]")].sort((a, b) => a.ariaRowIndex - b.ariaRowIndex).map(r =>
    Object.fromEntries([["row", r.dataset.id], ...[...r.querySelectorAll("[data-column]")].map(c => [c.dataset.column, squeeze(c.innerText)])]));
  const column = key => rows().map(r => r[key]);
  const cell = (row, key) => squeeze(document.querySelector(`.row[data-id=${JSON.stringify(row)}] [data-column=${key}]`).innerText);
  const same = (a, b) => JSON.stringify(a) === JSON.stringify(b);

  // locate returns the position of the element that matches a selector. While a dialog is open, only its
  // elements count.
  function locate(selector) {
    const top = [...document.querySelectorAll("dialog[open]")].at(-1) ?? document;
    const found = [...top.querySelectorAll(selector)].filter(e => e.checkVisibility());
    if (found.length !== 1) return { count: found.length };
    const e = found[0];
    e.scrollIntoView({ block: "nearest", inline: "nearest" });
    const box = e.getBoundingClientRect(), x = box.x + box.width / 2, y = box.y + box.height / 2;
    const over = document.elementFromPoint(x, y), free = over && (e.contains(over) || over.contains(e));
    return { count: 1, e, over, x, y, under: free ? "" : over?.outerHTML.slice(0, 200) ?? "outside of the window" };
  }

  // find waits until an element does not move and can be clicked.
  async function find(selector) {
    const steady = 3; // consecutive calls of locate with the same result
    let at = { count: 0 }, found = 0;
    const ok = await until(() => {
      const was = at;
      at = locate(selector);
      found = at.e === was.e && at.x === was.x && at.y === was.y && at.under === was.under ? found + 1 : 1;
      return at.count === 1 && at.under === "" && found >= steady;
    });
    return { ...at, found: ok };
  }
  const plain = ({ found, count, x, y, under }) => ({ found, count, x, y, under });

  // A click is aimed at an element. If it hits another one because something moved, the event is suppressed.
  let aimed = null;
  async function aim(selector) {
    aimed = null;
    const at = await find(selector);
    if (at.found) aimed = { ...at, selector, missed: false, clicked: false };
    return plain(at);
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

  // hit reports whether the click reached the element at which it was aimed, and ends the aiming.
  function hit() {
    const was = !aimed || aimed.clicked;
    aimed = null;
    return was;
  }

  // messages has all texts that messages and status lines have ever had.
  const messages = [];
  new MutationObserver(changes => {
    for (const { target } of changes) {
      const e = target.closest?.("#notes, [role=status]");
      if (e) messages.push(squeeze(e.innerText));
    }
  }).observe(document, { childList: true, subtree: true });

  return { until, text, has, rows, column, cell, same, find: async selector => plain(await find(selector)), aim, hit, messages };
})();
