// Which view is shown, and what is the same in all of them.
import { make, note, remember } from "./ui.js";
import { call, caller, follow, listen, may, streamState } from "./api.js";
import { overview } from "./overview.js";
import { tube } from "./tube.js";
import { put } from "./put.js";
import { parked } from "./parked.js";
import { server } from "./server.js";

const main = document.getElementById("main");
let leave = null; // ends the view that is shown

// A view is a function (main, ...arguments) that returns what ends it.
function show() {
  const [name, ...rest] = location.hash.replace(/^#\/?/, "").split("/").map(decodeURIComponent);
  const views = { "": overview, tube, put, parked, server };
  leave?.();
  leave = null;
  main.replaceChildren();
  document.querySelectorAll("header nav a").forEach(a => {
    const here = a.getAttribute("href") === "#/" + name || name === "tube" && a.getAttribute("href") === "#/";
    here ? a.setAttribute("aria-current", "page") : a.removeAttribute("aria-current");
  });
  const view = views[name];
  if (!view) {
    main.append(make("p", { className: "empty" }, "There is no such page."));
    return;
  }
  document.title = [rest[0] ?? { "": "Tubes", put: "Put", parked: "Parked", server: "Server" }[name], "redstalk"].join(" · ");
  leave = view(main, ...rest);
}

function theme(next) {
  const themes = ["", "light", "dark"];
  let now = remember.get("theme", "");
  if (next) {
    now = themes[(themes.indexOf(now) + 1) % 3];
    remember.set("theme", now);
    note({ "": "As the system has it", light: "Light", dark: "Dark" }[now]);
  }
  document.documentElement.dataset.theme = now;
}

function tellState() {
  const e = document.getElementById("live"), state = streamState();
  if (e.textContent !== state) e.textContent = state;
  e.className = "live " + (state === "live" ? "ok" : "bad");
}

// keys that work everywhere; ? tells of them.
const help = [["t", "tubes"], ["p", "parked jobs"], ["n", "put a job"], ["s", "server"], ["/", "filter or search"],
  ["↑ ↓ j k", "move in a table"], ["Enter", "open"], ["x", "mark a job"], ["r", "read anew"], ["Esc", "back"]];

document.addEventListener("keydown", event => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input:not([type=checkbox]),textarea,select,dialog")) return;
  const pages = { t: "#/", p: "#/parked", n: "#/put", s: "#/server" };
  if (event.key in pages) location.hash = pages[event.key];
  else if (event.key === "/") main.querySelector("input[type=search]")?.focus();
  else if (event.key === "r") main.querySelector("[data-read]")?.click();
  else if (event.key === "Escape" && !document.querySelector("dialog[open]")) history.back();
  else if (event.key === "?") {
    const d = make("dialog", { "aria-label": "Keys" }, make("h2", {}, "Keys"),
      make("dl", { className: "keys" }, help.map(([k, what]) => [make("dt", {}, make("kbd", {}, k)), make("dd", {}, what)])),
      make("div", { className: "buttons" }, make("button", { type: "button", className: "main", autofocus: true, onclick: () => d.remove() }, "Close")));
    d.addEventListener("close", () => d.remove());
    document.body.append(d);
    d.showModal();
  } else return;
  event.preventDefault();
});

async function begin() {
  theme();
  document.getElementById("theme").onclick = () => theme(true);
  try {
    Object.assign(caller, await call("GET", "/v1/caller"));
  } catch (err) {
    main.append(make("p", { className: "empty" }, err.status === 403 ? "This user may not look at anything." : err.message),
      make("p", { className: "empty" }, make("button", { type: "button", onclick: () => location.reload() }, "Try again")));
    return;
  }
  document.querySelectorAll("[data-right]").forEach(e => { e.hidden = !may(e.dataset.right); });
  follow(tellState);
  listen();
  addEventListener("hashchange", () => { show(); main.focus(); });
  show();
}

begin();
