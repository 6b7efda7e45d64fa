// How a body can be read: as text, JSON, PHP-serialised, base64, hex.
import { make } from "./ui.js";

// bytesOf returns the bytes of a job's body.
export function bytesOf(job) {
  if (job.body_base64) return Uint8Array.from(atob(job.body_base64), c => c.charCodeAt(0));
  return new TextEncoder().encode(job.body ?? "");
}

const most = 256 * 1024; // of a body that is shown

// bodyView shows the body of a job, in the form that suits it best at first.
export function bodyView(job) {
  const bytes = bytesOf(job), text = job.body;
  const forms = [["text", "Text"], ["json", "JSON"], ["php", "PHP"], ["base64", "Base64"], ["hex", "Hex"]];
  const box = make("div", { className: "body" });
  const buttons = forms.map(([form, label]) => make("button", { type: "button", "aria-pressed": "false", onclick: () => show(form) }, label));
  function show(form) {
    buttons.forEach((b, i) => b.setAttribute("aria-pressed", forms[i][0] === form));
    try {
      box.replaceChildren(views[form](bytes, text));
    } catch (err) {
      box.replaceChildren(make("p", { className: "problem" }, err.message));
    }
  }
  show(best(bytes, text));
  return make("div", {}, make("div", { className: "tabs", role: "group", "aria-label": "How to show the body" }, buttons,
    make("button", { type: "button", className: "quiet", onclick: () => navigator.clipboard?.writeText(text ?? hex(bytes)) }, "Copy")), box);
}

function best(bytes, text) {
  if (text === undefined || text === null) return "hex";
  if (/^\s*[[{]/.test(text)) {
    try { JSON.parse(text); return "json"; } catch { /* text */ }
  }
  if (/^(a|O):\d+:/.test(text)) {
    try { unserialize(bytes); return "php"; } catch { /* text */ }
  }
  return "text";
}

const views = {
  text: (bytes, text) => pre(text ?? new TextDecoder().decode(bytes)),
  json: (bytes, text) => make("div", { className: "tree" }, tree(JSON.parse(text ?? new TextDecoder().decode(bytes)), "", true)),
  php: bytes => make("div", { className: "tree" }, tree(unserialize(bytes), "", true)),
  base64: (bytes, text) => {
    const plain = (text ?? "").replace(/\s+/g, "");
    if (plain && plain.length % 4 === 0 && /^[A-Za-z0-9+/]+=*$/.test(plain)) {
      const inside = Uint8Array.from(atob(plain), c => c.charCodeAt(0));
      return make("div", {}, make("p", { className: "soft" }, "The body is base64. In it:"), pre(new TextDecoder().decode(inside)));
    }
    let out = "";
    for (let i = 0; i < Math.min(bytes.length, most); i += 57) out += btoa(String.fromCharCode(...bytes.subarray(i, i + 57))) + "\n";
    return make("div", {}, make("p", { className: "soft" }, "The body as base64:"), pre(out));
  },
  hex: bytes => pre(hex(bytes)),
};

function pre(text) {
  const cut = text.length > most;
  return make("pre", { tabIndex: 0, "aria-label": "Body" }, cut ? text.slice(0, most) : text, cut && make("em", {}, `\n… ${text.length - most} more characters`));
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

// tree shows a value, objects and lists folded from the third level on.
function tree(value, key, last, level = 0) {
  const label = key === "" ? [] : [make("span", { className: "key" }, key), ": "];
  if (value === null || typeof value !== "object") {
    return make("div", { className: "leaf" }, label, make("span", { className: "v " + (value === null ? "null" : typeof value) }, JSON.stringify(value)));
  }
  const list = Array.isArray(value), entries = Object.entries(value), name = value.constructor?.phpName;
  if (!entries.length) return make("div", { className: "leaf" }, label, list ? "[]" : "{}");
  return make("details", { open: level < 2 }, make("summary", {}, label, make("span", { className: "soft" }, `${name ?? ""}${list ? "[" : "{"} ${entries.length} ${list ? "]" : "}"}`)),
    entries.slice(0, 1000).map(([k, v]) => tree(v, list ? k : JSON.stringify(k), false, level + 1)), entries.length > 1000 && make("div", { className: "leaf soft" }, `… ${entries.length - 1000} more`));
}

// unserialize reads what PHP's serialize writes. Lengths there are of bytes.
export function unserialize(bytes) {
  let at = 0, depth = 0;
  const fail = () => { throw new Error(`This is not serialised by PHP (byte ${at}).`); };
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
    let made;
    if (kind === "N") { expect(";"); made = null; }
    else {
      expect(":");
      if (kind === "i") made = Number(until(";"));
      else if (kind === "d") made = until(";");
      else if (kind === "b") made = until(";") === "1";
      else if (kind === "s" || kind === "E") { made = string(); expect(";"); }
      else if (kind === "r" || kind === "R") made = "→ value " + until(";");
      else if (kind === "a") { const n = whole(":"); const o = entries(n, {}); made = Object.keys(o).every((k, i) => k === String(i)) ? Object.values(o) : o; }
      else if (kind === "O") { const name = string(); expect(":"); made = { [name]: entries(whole(":"), {}) }; }
      else if (kind === "C") { const name = string(); expect(":"); const n = whole(":"); expect("{"); made = { [name]: new TextDecoder().decode(bytes.subarray(at, at + n)) }; at += n; expect("}"); }
      else fail();
    }
    depth--;
    return made;
  }
  const read = value();
  if (at !== bytes.length) fail();
  return read;
}
