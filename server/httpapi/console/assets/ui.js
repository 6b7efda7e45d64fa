// Elements, dialogs, messages, formatted numbers.

// make returns an element. Properties that start with "on" are event listeners; class, data-* and aria-* are
// attributes; all others are DOM properties. Children are elements or text, never HTML.
export function make(tag, properties = {}, ...children) {
  const e = document.createElement(tag);
  for (const [key, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false && key !== "checked") continue;
    if (key.startsWith("on")) e.addEventListener(key.slice(2), value);
    else if (key in e && !key.includes("-") && key !== "list" && key !== "form") e[key] = value;
    else e.setAttribute(key === "className" ? "class" : key, value);
  }
  e.append(...children.flat(Infinity).filter(c => c !== null && c !== undefined && c !== false));
  return e;
}

export const number = n => Math.round(n).toLocaleString("en-US");

export function rate(n) {
  if (!n) return "–";
  return n < 10 ? n.toFixed(1) : number(n);
}

// span formats a time in ms in one or two units.
export function span(ms) {
  if (ms < 0) ms = 0;
  if (ms < 1000) return Math.round(ms) + " ms";
  const units = [["d", 86400e3], ["h", 3600e3], ["m", 60e3], ["s", 1e3]];
  const i = units.findIndex(([, size]) => ms >= size);
  const [unit, size] = units[i];
  const first = Math.floor(ms / size);
  const next = units[i + 1];
  const rest = next ? Math.floor((ms % size) / next[1]) : 0;
  return first + " " + unit + (rest && first < 10 ? " " + rest + " " + next[0] : "");
}

// moment formats a time in ms since 1970 as local date and time with the zone. The hyphens do not break lines.
export const moment = ms => new Date(ms).toLocaleString("sv-SE", { year: "numeric", month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit", second: "2-digit", timeZoneName: "shortOffset" }).replaceAll("-", "\u2011");

// both returns a relative time with the date and the time, in ms since 1970, below it.
export const both = (relative, ms) => make("span", {}, relative, make("small", { className: "when" }, moment(ms)));
export const ago = ms => both(span(Date.now() - ms) + " ago", ms);

export function bytes(n) {
  if (n < 1024) return n + " B";
  for (const unit of ["KiB", "MiB", "GiB", "TiB"]) {
    n /= 1024;
    if (n < 1024 || unit === "TiB") return (n < 10 ? n.toFixed(1) : Math.round(n)) + " " + unit;
  }
}

// shareIn returns how much is done, from 0 to 1, by the first per cent or n/m in a text; null if there is none.
export function shareIn(text) {
  for (const [, percent, done, of] of text.matchAll(/(?<![\d.,])(\d+(?:\.\d+)?)\s?%|(?<![\d.,/])(\d[\d,]*)\s?\/\s?(\d[\d,]*)(?![\d/])/g)) {
    const n = Number((percent ?? done).replaceAll(",", "")), m = percent ? 100 : Number(of.replaceAll(",", ""));
    if (m > 0 && n <= m) return n / m;
  }
  return null;
}

// progress returns what a worker says of how far it is, with a bar if it says that in figures.
export function progress(text) {
  const share = shareIn(text);
  if (share === null) return text;
  const done = make("span", { className: "share reserved" });
  done.style.width = share * 100 + "%";
  return make("span", {}, text, make("span", { className: "progress", role: "progressbar", "aria-label": "Progress", "aria-valuenow": Math.round(share * 100) }, done));
}

export const plural = (n, noun, many = noun + "s") => number(n) + " " + (n === 1 ? noun : many);

// note shows a message for 6 s. An error stays until it is closed.
// delays returns the retry delays that a text means: durations, or exp(FIRST,LONGEST,COUNT).
export const delays = text => /^exp\(/.test(text) ? text : text.split(",").map(s => s.trim()).filter(Boolean);

export function note(text, bad) {
  const e = make("div", { className: "note" + (bad ? " bad" : "") }, make("span", {}, text),
    make("button", { type: "button", className: "quiet", "aria-label": "Close this message", onclick: () => e.remove() }, "×"));
  const notes = document.getElementById("notes");
  notes.append(e);
  while (notes.children.length > 5) notes.firstChild.remove();
  if (!bad) setTimeout(() => e.remove(), 6000);
}

// attempt runs f and shows its error. problem is where, if the server refuses a value, see problemOf.
export async function attempt(f, problem) {
  try {
    return await f();
  } catch (err) {
    if (err.name === "AbortError" || err.status === 401) return;
    if (problem && (err.status === 400 || err.status === 422)) problem.say(err.message);
    else note(err.message, true);
  }
}

// problemOf returns what says beside a field what is wrong with its value; "" is nothing.
export function problemOf(input) {
  const element = make("small", { className: "problem", id: input.id + "-problem", role: "status" });
  input.setAttribute("aria-describedby", element.id);
  return { element, say(text) {
    if (element.textContent !== text) element.textContent = text;
    text ? input.setAttribute("aria-invalid", "true") : input.removeAttribute("aria-invalid");
  } };
}

// problemOfSearch returns what is wrong with a text to search for, or "".
export function problemOfSearch(text) {
  if (!/^[{[]/.test(text)) return "";
  try {
    JSON.parse(text);
    return "";
  } catch {
    return "This is not valid JSON, so it is looked for letter by letter.";
  }
}

// button returns a button for an action. Its data-action attribute is the name of the action.
export const button = (action, label, f, className = "") => make("button", { type: "button", className, "data-action": action, onclick: () => attempt(f) }, label);

// two returns a cell with two lines.
export const two = (first, second) => make("span", { className: "two" }, make("span", {}, first), make("span", {}, second));

// icon returns a sign that screen readers skip.
const names = new Intl.Collator("en", { numeric: true });

// compare orders numbers, and texts as people do: mailer-2 before mailer-10.
export function compare(a, b) {
  const order = typeof a === "string" && typeof b === "string" ? names.compare(a, b) : 0;
  return order || (a < b ? -1 : a > b ? 1 : 0);
}

export const icon = text => make("span", { className: "icon", "aria-hidden": "true" }, text);

export const durations = "A whole number with ms, s, m, h or d, such as 90s";
export const wrongDuration = text => /^[0-9]+(ms|s|m|h|d)?$/.test(text) ? "" : durations + ".";

// ask shows a dialog with fields and returns their values by name, or null if it is cancelled. A field is
// {name, label, type, value, options, help, required}. hits, a text or a function of the values, says what the
// action affects. check, a function of the values, returns an error text or "".
export function ask({ name, title, text, hits, fields = [], action, danger, check, wide }) {
  return new Promise(resolve => {
    const id = "d" + Math.random().toString(36).slice(2);
    const inputs = fields.map(f => fieldOf(f, id));
    const problem = make("p", { className: "problem", role: "alert" });
    const hit = hits && make("p", { className: "hits", role: "status", "data-hits": "" });
    const values = () => Object.fromEntries(inputs.map(i => [i.name, i.value()]));
    const showHits = () => {
      const text = typeof hits === "function" ? hits(values()) : hits;
      if (hit && hit.textContent !== text) hit.textContent = text;
    };
    const clock = setInterval(showHits, 500); // keeps it up to date while the dialog is open
    const dialog = make("dialog", { "aria-labelledby": id, "data-dialog": name, className: wide ? "middle" : "" },
      make("form", { method: "dialog", onsubmit: submit, oninput: showHits },
        make("h2", { id }, title), text && make("p", {}, text), make("div", { className: wide ? "columns" : "" }, inputs.map(i => i.row)), hit, problem,
        make("div", { className: "buttons" },
          make("button", { type: "button", "data-do": "cancel", onclick: () => close(null), autofocus: danger && !fields.length }, "Cancel"),
          make("button", { type: "submit", "data-do": "ok", className: danger ? "danger" : "main", autofocus: !fields.length && !danger }, action))));
    function submit(event) {
      event.preventDefault();
      const wrong = check && check(values());
      if (wrong) problem.textContent = wrong;
      else close(values());
    }
    function close(value) {
      clearInterval(clock);
      dialog.close();
      dialog.remove();
      resolve(value);
    }
    dialog.addEventListener("cancel", event => { event.preventDefault(); close(null); });
    document.body.append(dialog);
    showHits();
    dialog.showModal();
    const first = inputs.find(i => i.input.tagName !== "SELECT")?.input;
    first?.focus();
    first?.select?.();
  });
}

export function fieldOf(f, id = "f") {
  const own = id + "-" + f.name;
  let input;
  if (f.options) {
    input = make("select", { id: own, name: f.name }, f.options.map(o => make("option", { value: o.value ?? o, selected: (o.value ?? o) === f.value }, o.label ?? o)));
  } else if (f.type === "textarea") {
    input = make("textarea", { id: own, name: f.name, value: f.value ?? "", rows: f.rows ?? 8, required: f.required, spellcheck: false });
  } else {
    input = make("input", { id: own, name: f.name, type: f.type ?? "text", value: f.value ?? "", required: f.required, placeholder: f.placeholder ?? "", autocomplete: f.autocomplete ?? "off", spellcheck: false });
    for (const key of ["min", "max", "step", "maxLength"]) if (f[key] !== undefined) input[key] = f[key];
    if (f.type === "number" && f.min === undefined) input.min = 0;
    if (f.suggest) input.setAttribute("list", own + "-list");
  }
  if (f.help) input.setAttribute("aria-describedby", own + "-help");
  const row = make("div", { className: "field" }, make("label", { htmlFor: own }, f.label), input,
    f.suggest && make("datalist", { id: own + "-list" }, f.suggest.map(s => make("option", { value: s }))),
    f.help && make("small", { id: own + "-help" }, f.help));
  return { name: f.name, row, input, value: () => input.value };
}

// withMarks returns a text as elements in which a searched word is highlighted.
export function withMarks(text, word) {
  if (!word) return [text];
  const out = [], low = text.toLowerCase(), sought = word.toLowerCase();
  if (low.length !== text.length) return [text]; // some letter has another length in lower case
  let from = 0;
  for (let at; (at = low.indexOf(sought, from)) >= 0 && out.length < 2000; from = at + sought.length) {
    out.push(text.slice(from, at), make("mark", {}, text.slice(at, at + sought.length)));
  }
  out.push(text.slice(from));
  return out;
}

// save downloads a text as a file.
export function save(name, text, type) {
  const url = URL.createObjectURL(new Blob([text], { type }));
  make("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}

// remember stores values in the browser.
export const remember = {
  get(key, otherwise) {
    try {
      return JSON.parse(localStorage.getItem("redstalk." + key)) ?? otherwise;
    } catch {
      return otherwise;
    }
  },
  set(key, value) {
    try {
      localStorage.setItem("redstalk." + key, JSON.stringify(value));
    } catch {
      note("The browser storage is full.", true);
    }
  },
};
