// Views of a body: text, JSON, PHP-serialized, base64, hex, and what gzip or zlib has packed.
import { make, withMarks, note, save } from "./ui.js";

// bytesOf returns the bytes of a job's body.
export function bytesOf(job) {
  if (job.body_base64) return Uint8Array.from(atob(job.body_base64), c => c.charCodeAt(0));
  return new TextEncoder().encode(job.body ?? "");
}

// excerptOf returns the part of a body in a list. mark is for words that were searched for.
export const excerptOf = (job, mark = text => text) => job.hidden ? make("span", { className: "excerpt", title: "You do not have the right to read bodies." }, "hidden")
  : job.excerpt && make("code", { className: "excerpt" }, mark(job.excerpt));

// hiddenNote says what is not shown of a job, of a record or of a schedule; undefined if all is.
export function hiddenNote(of) {
  if (of.hidden) return make("p", { className: "soft", "data-note": "hidden" }, "Body, headers, progress, reasons and results are hidden: you do not have the right to read them.");
  if (of.redacted) return make("p", { className: "soft", "data-note": "redacted" }, "Some values of the body are hidden, so the job cannot be copied.");
  return undefined;
}

const maxShown = 256 * 1024; // characters of a body that are shown

// bodyView shows the body of a job, at first in the maxShown suitable format. It highlights a word that was
// searched for.
export function bodyView(job, word = "") {
  const bytes = bytesOf(job), text = job.body;
  const packed = packing(bytes);
  const forms = [...packed ? [["unpacked", "Unpacked"]] : [], ["text", "Text"], ["json", "JSON"], ["php", "PHP"], ["base64", "Base64"], ["hex", "Hex"]];
  const box = make("div", { className: "body" });
  const buttons = forms.map(([form, label]) => make("button", { type: "button", "aria-pressed": "false", "data-form": form, onclick: () => show(form) }, label));
  let shown = "";
  async function show(form) {
    shown = form;
    buttons.forEach((b, i) => b.setAttribute("aria-pressed", forms[i][0] === form));
    let view;
    try {
      view = form === "unpacked" ? await unpackedView(bytes, packed, word) : views[form](bytes, text, word);
    } catch (err) {
      view = make("p", { className: "problem" }, err.message);
    }
    if (shown === form) box.replaceChildren(view);
  }
  show(packed ? "unpacked" : best(bytes, text));
  async function copy() {
    try {
      await navigator.clipboard.writeText(text ?? hex(bytes));
      note("Body copied.");
    } catch {
      note("The browser does not allow copying. Select the text instead.", true);
    }
  }
  return make("div", {}, make("div", { className: "tabs", role: "group", "aria-label": "Body format" }, buttons,
    make("button", { type: "button", className: "quiet", "data-action": "copy-body", onclick: copy }, "Copy"),
    make("button", { type: "button", className: "quiet", "data-action": "download-body", onclick: () => save(`job-${job.id}.bin`, bytes, "application/octet-stream") }, "Download")), box);
}

const maxUnpacked = 1024 * 1024; // bytes

// packing returns the format of DecompressionStream that a body begins like, "" if none.
function packing([first, second]) {
  if (first === 0x1f && second === 0x8b) return "gzip";
  return first === 0x78 && (first * 256 + second) % 31 === 0 ? "deflate" : ""; // the header of zlib
}

// unpack returns the beginning of what is packed in a body, and whether there is more.
async function unpack(bytes, format) {
  const reader = new Blob([bytes]).stream().pipeThrough(new DecompressionStream(format)).getReader(), parts = [];
  let size = 0;
  try {
    while (size <= maxUnpacked) {
      const { done, value } = await reader.read();
      if (done) break;
      parts.push(value);
      size += value.length;
    }
  } catch {
    throw new Error("The body begins like packed data, but cannot be unpacked.");
  }
  reader.cancel().catch(() => {});
  return { inside: new Uint8Array(await new Blob(parts).arrayBuffer()).subarray(0, maxUnpacked), more: size > maxUnpacked };
}

async function unpackedView(bytes, format, word) {
  const { inside, more } = await unpack(bytes, format), text = textOf(inside);
  return make("div", {}, make("p", { className: "soft intro" }, `Packed by ${format === "gzip" ? "gzip" : "zlib"}.` + (more ? " The first MiB:" : "")), views[more ? text === undefined ? "hex" : "text" : best(inside, text)](inside, text, word));
}

function best(bytes, text) {
  if (text === undefined || text === null) return "hex";
  if (/^\s*[[{]/.test(text)) {
    try { readJSON(text); return "json"; } catch { /* text, or too deep */ }
  }
  if (/^(a|O):\d+:/.test(text)) {
    try { unserialize(bytes); return "php"; } catch { /* text */ }
  }
  return "text";
}

// textOf returns bytes as text, or undefined if they are not UTF-8.
function textOf(bytes) {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    return undefined;
  }
}

const views = {
  text: (bytes, text, word) => pre(text ?? new TextDecoder().decode(bytes), word),
  json: (bytes, text, word) => treeOf(readJSON(text ?? new TextDecoder().decode(bytes)), word),
  php: (bytes, text, word) => treeOf(unserialize(bytes), word),
  base64: (bytes, text, word) => {
    const plain = (text ?? "").replace(/\s+/g, "");
    if (plain && plain.length % 4 === 0 && /^[A-Za-z0-9+/]+=*$/.test(plain)) {
      const inside = Uint8Array.from(atob(plain), c => c.charCodeAt(0)), read = textOf(inside);
      return make("div", {}, make("p", { className: "soft intro" }, "The body is base64. Decoded:"), views[best(inside, read)](inside, read, word));
    }
    let out = "";
    for (let i = 0; i < Math.min(bytes.length, maxShown); i += 57) out += btoa(String.fromCharCode(...bytes.subarray(i, i + 57))) + "\n";
    return make("div", {}, make("p", { className: "soft intro" }, "The body as base64:"), pre(out));
  },
  hex: bytes => pre(hex(bytes)),
};

function pre(text, word) {
  const cut = text.length > maxShown;
  return make("pre", { tabIndex: 0, role: "region", "aria-label": "Body" }, withMarks(cut ? text.slice(0, maxShown) : text, word), text === "" && make("em", {}, "The body is empty."), cut && make("em", {}, `\n… ${text.length - maxShown} more characters`));
}

// Numeral is a number that JavaScript cannot represent exactly. It keeps the original text.
class Numeral {
  constructor(text) { this.text = text; }
  toString() { return this.text; }
}

function readJSON(text) {
  try {
    return JSON.parse(text, (key, value, context) => typeof value === "number" && context?.source !== undefined && JSON.stringify(value) !== context.source ? new Numeral(context.source) : value);
  } catch (err) {
    throw new Error("The body is not valid JSON: " + err.message);
  }
}

function hex(bytes) {
  let out = "";
  for (let i = 0; i < Math.min(bytes.length, 16384); i += 16) {
    const part = [...bytes.subarray(i, i + 16)];
    out += i.toString(16).padStart(6, "0") + "  " + part.map(b => b.toString(16).padStart(2, "0")).join(" ").padEnd(48) + "  " +
      part.map(b => b >= 32 && b < 127 ? String.fromCharCode(b) : ".").join("") + "\n";
  }
  return bytes.length > 16384 ? out + `… ${bytes.length - 16384} more bytes` : out;
}

// treeOf shows a value as a tree, with a button that folds or unfolds all of it.
function treeOf(value, word) {
  const box = make("div", { className: "tree", tabIndex: 0, role: "region", "aria-label": "Body" }, tree(value, null, word, 0));
  const nested = box.querySelectorAll("details").length > 1;
  const fold = make("button", { type: "button", className: "quiet fold", onclick: () => {
    const all = [...box.querySelectorAll("details")].slice(1), open = !all.every(d => d.open);
    for (const d of all) d.open = open;
    fold.textContent = open ? "Fold all" : "Unfold all";
  } }, "Unfold all");
  return make("div", { className: "treebox" }, nested && fold, box);
}

const maxEntries = 500; // shown entries of one object or list

// tree shows a value. Objects and lists are folded from the third level on.
function tree(value, key, word, level) {
  const label = key === null ? [] : [make("span", { className: "key" }, withMarks(key, word)), ": "];
  if (value instanceof Numeral) return make("div", { className: "leaf" }, label, make("span", { className: "v number" }, withMarks(value.text, word)));
  if (value === null || typeof value !== "object") {
    return make("div", { className: "leaf" }, label, make("span", { className: "v " + (value === null ? "null" : typeof value) }, withMarks(JSON.stringify(value), word)));
  }
  const list = Array.isArray(value), entries = Object.entries(value);
  if (!entries.length) return make("div", { className: "leaf" }, label, list ? "[]" : "{}");
  const inside = () => [entries.slice(0, maxEntries).map(([k, v]) => tree(v, list ? k : JSON.stringify(k), word, level + 1)), entries.length > maxEntries && make("div", { className: "leaf soft" }, `… ${entries.length - maxEntries} more`)];
  return make("details", { "aria-label": key ?? "Body", open: level < 2 || word && JSON.stringify(value).toLowerCase().includes(word.toLowerCase()) },
    make("summary", {}, label, make("span", { className: "soft" }, list ? `[ ${entries.length} ]` : `{ ${entries.length} }`)), inside());
}

// unserialize parses the output of PHP's serialize. Lengths in it are in bytes.
export function unserialize(bytes) {
  let at = 0, depth = 0;
  const fail = () => { throw new Error(`This is not PHP-serialized data (byte ${at}).`); };
  const char = () => String.fromCharCode(bytes[at] ?? fail());
  const expect = c => { if (char() !== c) fail(); at++; };
  const until = end => {
    const from = at;
    while (at < bytes.length && char() !== end) at++;
    if (at >= bytes.length) fail();
    const text = new TextDecoder().decode(bytes.subarray(from, at));
    at++;
    return text;
  };
  const whole = end => { const n = Number(until(end)); return Number.isSafeInteger(n) && n >= 0 ? n : fail(); };
  const string = () => {
    const n = whole(":");
    expect('"');
    if (at + n > bytes.length) fail();
    const text = new TextDecoder().decode(bytes.subarray(at, at + n));
    at += n;
    expect('"');
    return text;
  };
  const numeral = text => String(Number(text)) === text ? Number(text) : new Numeral(text);
  const entries = (n, to) => {
    expect("{");
    for (let i = 0; i < n; i++) {
      const key = String(value()).replace(/\0/g, "·");
      Object.defineProperty(to, key, { value: value(), enumerable: true, configurable: true, writable: true });
    }
    expect("}");
    return to;
  };
  function value() {
    if (++depth > 200) fail();
    const kind = char();
    at++;
    let result;
    if (kind === "N") { expect(";"); result = null; }
    else {
      expect(":");
      if (kind === "i" || kind === "d") result = numeral(until(";"));
      else if (kind === "b") result = until(";") === "1";
      else if (kind === "s" || kind === "E") { result = string(); expect(";"); }
      else if (kind === "r" || kind === "R") result = "→ value " + until(";");
      else if (kind === "a") { const n = whole(":"); const o = entries(n, {}); result = Object.keys(o).every((k, i) => k === String(i)) ? Object.values(o) : o; }
      else if (kind === "O") { const name = string(); expect(":"); result = { [name]: entries(whole(":"), {}) }; }
      else if (kind === "C") { const name = string(); expect(":"); const n = whole(":"); expect("{"); result = { [name]: new TextDecoder().decode(bytes.subarray(at, at + n)) }; at += n; expect("}"); }
      else fail();
    }
    depth--;
    return result;
  }
  const read = value();
  if (at !== bytes.length) fail();
  return read;
}
