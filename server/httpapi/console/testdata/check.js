// Accessibility checks of a page. Each function returns the problems it finds, as texts.
window.check = (() => {
  const pixel = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });

  // rgba parses a CSS color in any notation.
  function rgba(css) {
    pixel.clearRect(0, 0, 1, 1);
    pixel.fillStyle = "#000";
    pixel.fillStyle = css;
    pixel.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = pixel.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  }
  const over = ([r, g, b, a], under) => [r, g, b].map((c, i) => c * a + under[i] * (1 - a));

  // behind returns the background color of an element: the blended backgrounds of its ancestors.
  function behind(e) {
    const layers = [];
    for (let p = e; p; p = p.parentElement) {
      const c = rgba(getComputedStyle(p).backgroundColor);
      layers.push(c);
      if (c[3] === 1) break;
    }
    return layers.reduceRight((under, c) => over(c, under), [255, 255, 255]);
  }
  function opacity(e) {
    let o = 1;
    for (let p = e; p; p = p.parentElement) o *= Number(getComputedStyle(p).opacity);
    return o;
  }
  function light(c) {
    const [r, g, b] = c.map(v => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  }
  function ratio(a, b) {
    const [x, y] = [light(a), light(b)].sort((m, n) => n - m);
    return (x + 0.05) / (y + 0.05);
  }
  const seen = e => e.checkVisibility({ opacityProperty: true, visibilityProperty: true }) && e.getClientRects().length > 0;
  const name = e => e.tagName.toLowerCase() + (e.id ? "#" + e.id : "") + [...e.classList].map(c => "." + c).join("");
  const dialog = () => [...document.querySelectorAll("dialog[open]")].at(-1) ?? document.body;

  function faint(e, colour, what) {
    const [r, g, b, a] = rgba(colour), back = behind(e);
    const found = ratio(over([r, g, b, a * opacity(e)], back), back);
    return found < 4.5 ? [`${what} in ${name(e)} has a contrast of ${found.toFixed(2)}`] : [];
  }

  // contrast: each text has a contrast of at least 4.5 to 1.
  function contrast() {
    const wrong = [], walk = document.createTreeWalker(dialog(), NodeFilter.SHOW_TEXT);
    for (let n = walk.nextNode(); n; n = walk.nextNode()) {
      const e = n.parentElement, text = n.data.trim();
      if (!text || !seen(e) || e.closest("option, noscript, script, style, :disabled")) continue;
      const style = getComputedStyle(e);
      wrong.push(...faint(e, e instanceof SVGElement ? style.fill : style.color, JSON.stringify(text.slice(0, 30))));
    }
    for (const e of dialog().querySelectorAll("input, textarea, select")) {
      if (!seen(e) || e.type === "checkbox") continue;
      wrong.push(...faint(e, getComputedStyle(e).color, "the text"));
      if (e.placeholder) wrong.push(...faint(e, getComputedStyle(e, "::placeholder").color, "the placeholder " + JSON.stringify(e.placeholder)));
    }
    return [...new Set(wrong)];
  }

  // structure: a title, one h1 and no skipped heading level, landmarks, unique ids.
  function structure() {
    const wrong = [];
    if (document.documentElement.lang !== "en") wrong.push("the page has no language");
    if (!document.title) wrong.push("the page has no title");
    const levels = [...document.querySelectorAll("h1, h2, h3, h4")].filter(seen).filter(h => !h.closest("dialog")).map(h => Number(h.tagName[1]));
    if (levels.filter(l => l === 1).length !== 1) wrong.push(`there are ${levels.filter(l => l === 1).length} h1 headings`);
    levels.forEach((l, i) => { if (l > (levels[i - 1] ?? 0) + 1) wrong.push(`a heading of level ${l} follows one of ${levels[i - 1] ?? 0}`); });
    for (const [what, count] of [["main", 1], ["header", 1], ["nav", 1]]) {
      const found = document.querySelectorAll(`body > ${what}, body > header > ${what}`).length;
      if (found !== count) wrong.push(`there are ${found} ${what}`);
    }
    const ids = [...document.querySelectorAll("[id]")].map(e => e.id);
    for (const id of new Set(ids.filter((id, i) => ids.indexOf(id) !== i))) wrong.push(`the id ${id} is not unique`);
    for (const e of document.querySelectorAll("[aria-labelledby], [aria-describedby], [aria-controls], label[for]")) {
      for (const a of ["aria-labelledby", "aria-describedby", "aria-controls", "for"]) {
        for (const id of (e.getAttribute(a) ?? "").split(/\s+/).filter(Boolean)) if (!document.getElementById(id)) wrong.push(`${name(e)}: there is no ${id}, which ${a} names`);
      }
    }
    return wrong;
  }

  // focus: the focused element has an outline with a contrast of at least 3 to 1.
  function focus() {
    const e = document.activeElement;
    if (!e || e === document.body) return ["no element has the focus"];
    const style = getComputedStyle(e), box = e.getBoundingClientRect(), wrong = [];
    if (style.outlineStyle === "none" || parseFloat(style.outlineWidth) < 2) wrong.push(`${name(e)} does not show that it has the focus`);
    else {
      const found = ratio(rgba(style.outlineColor).slice(0, 3), behind(e.parentElement ?? e));
      if (found < 3) wrong.push(`the line around ${name(e)} has a contrast of ${found.toFixed(2)}`);
    }
    if (box.bottom <= 0 || box.top >= innerHeight || box.right <= 0 || box.left >= innerWidth) wrong.push(`${name(e)} has the focus but is not in the window`);
    return wrong;
  }

  // narrow: nothing exceeds the width of the window, and touch targets are large enough.
  function narrow() {
    const wrong = [], main = document.querySelector("main");
    if (document.scrollingElement.scrollWidth > innerWidth) wrong.push(`the page is ${document.scrollingElement.scrollWidth} wide in a window of ${innerWidth}`);
    if (main.scrollWidth > main.clientWidth) wrong.push(`the content is ${main.scrollWidth} wide in ${main.clientWidth}`);
    for (const e of dialog().querySelectorAll("a, button, input, select, textarea, summary")) {
      if (!seen(e) || e.closest(".skip, [role=grid]")) continue;
      const box = e.getBoundingClientRect();
      if (box.left < -1 || box.right > innerWidth + 1) wrong.push(`${name(e)} ${JSON.stringify(e.innerText)} reaches from ${box.left} to ${box.right}`);
      const around = e.closest("label")?.getBoundingClientRect() ?? box; // a label can be touched as well
      const [wide, tall] = [Math.max(box.width, around.width), Math.max(box.height, around.height)];
      const inText = getComputedStyle(e).display === "inline" || e.closest(".tree");
      if (!inText && (wide < 23.5 || tall < 23.5)) wrong.push(`${name(e)} ${JSON.stringify(e.innerText)} is ${wide.toFixed()} × ${tall.toFixed()} px`);
    }
    return wrong;
  }

  return { contrast, structure, focus, narrow };
})();
