// The entry point: chooses the view, and has what all views share.
import { make, note, remember, fieldOf } from "./ui.js";
import { caller, follow, listen, may, onRefused, readCaller, searchPage, signedIn, signIn, signOut, stream } from "./api.js";
import { overview } from "./overview.js";
import { tube, job } from "./tube.js";
import { search } from "./search.js";
import { closeJob } from "./job.js";
import { ended } from "./ended.js";
import { put } from "./put.js";
import { parked } from "./parked.js";
import { server } from "./server.js";
import { workers } from "./workers.js";
import { schedules } from "./schedules.js";
import { batches } from "./batches.js";

const main = document.getElementById("main");
let leave = null; // ends the current view

// A view is a function (main, ...arguments) that returns a function that ends it. right is the right that it
// needs.
const views = {
  "": { name: "overview", title: "Tubes", view: overview, right: "list" },
  tube: { name: "tube", title: "Tube", view: tube, right: "list" },
  job: { name: "tube", title: "Job", view: job, right: "list" },
  ended: { name: "ended", title: "Ended", view: ended, right: "list" },
  search: { name: "search", title: "Search", view: search, right: "list" },
  put: { name: "put", title: "Put", view: put, right: "put" },
  parked: { name: "parked", title: "Parked", view: parked, right: "list" },
  schedules: { name: "schedules", title: "Schedules", view: schedules, right: "list" },
  batches: { name: "batches", title: "Batches", view: batches, right: "list" },
  workers: { name: "workers", title: "Workers", view: workers, right: "list" },
  server: { name: "server", title: "Server", view: server, right: "list" },
};

// route returns the view for the address, or null if there is none.
function route() {
  try {
    const [name, ...rest] = location.hash.replace(/^#\/?/, "").split("/").map(decodeURIComponent);
    return Object.hasOwn(views, name) ? { key: name, ...views[name], rest } : null;
  } catch {
    return null; // the address has an invalid escape
  }
}

function clear(name) {
  leave?.();
  leave = null;
  document.querySelectorAll("dialog").forEach(d => d.remove());
  main.replaceChildren();
  main.scrollTop = 0;
  main.dataset.view = name;
  delete main.dataset.ready;
}

function show() {
  const at = route();
  clear(at?.name ?? "none");
  document.querySelectorAll("header nav a").forEach(a => {
    const here = at && (a.getAttribute("href") === "#/" + at.key || at.name === "tube" && a.getAttribute("href") === "#/");
    here ? a.setAttribute("aria-current", "page") : a.removeAttribute("aria-current");
  });
  document.title = [at?.key === "job" ? "Job " + at.rest[0] : at?.rest[0] || at?.title || "No such page", "redstalk"].join(" · ");
  if (!at) say("There is no such page.");
  else if (!may(at.right)) say("You do not have the right to do this.");
  else leave = at.view(main, ...at.rest);
}

const say = (...text) => main.append(make("h1", {}, document.title.split(" · ")[0]), make("p", { className: "empty" }, text));

function theme(next) {
  const themes = ["", "light", "dark"];
  let now = remember.get("theme", "");
  if (next) {
    now = themes[(themes.indexOf(now) + 1) % 3];
    remember.set("theme", now);
    note({ "": "Theme: same as the system.", light: "Theme: light.", dark: "Theme: dark." }[now]);
  }
  document.documentElement.dataset.theme = now;
}

const stateTexts = { connecting: "connecting", live: "live", paused: "updates paused", suspended: "suspended", lost: "connection lost", unavailable: "store unavailable" };

function showState() {
  const e = document.getElementById("live"), old = stream.state === "lost" || stream.state === "unavailable";
  const text = stateTexts[stream.state] + (old ? " since " + new Date(stream.since).toLocaleTimeString() : "");
  main.toggleAttribute("data-old", old); // what the page shows is not true any more
  if (e.textContent !== text) e.textContent = text;
  e.dataset.state = stream.state;
  e.title = stream.reason;
}

// The keyboard shortcuts, as the dialog of ? lists them.
const help = [["t", "tubes"], ["p", "parked jobs"], ["c", "schedules"], ["b", "batches"], ["w", "workers"], ["n", "put a job"], ["s", "server"], ["/", "filter or search"],
  ["↑ ↓ j k", "move in a table"], ["Enter", "open"], ["x", "select"], ["← →", "previous or next job"], ["r", "refresh"], ["Esc", "close; back to the tubes"]];

document.addEventListener("keydown", event => {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input:not([type=checkbox]),textarea,select,dialog") || main.dataset.view === "signin") return;
  const pages = { t: "#/", p: "#/parked", c: "#/schedules", b: "#/batches", w: "#/workers", n: "#/put", s: "#/server" };
  if (Object.hasOwn(pages, event.key)) location.hash = pages[event.key];
  else if (event.key === "/") (main.querySelector("input[type=search]") ?? document.querySelector("#find input")).focus();
  else if (event.key === "r") main.querySelector("[data-read]")?.click();
  else if (event.key === "Escape" && main.dataset.view !== "overview") location.hash = "#/";
  else if (event.key === "?") showKeys();
  else return;
  event.preventDefault();
});

function showKeys() {
  const d = make("dialog", { "aria-label": "Keyboard shortcuts", "data-dialog": "keys" }, make("h2", {}, "Keyboard shortcuts"),
    make("dl", { className: "keys" }, help.map(([k, what]) => [make("dt", {}, make("kbd", {}, k)), make("dd", {}, what)])),
    make("div", { className: "buttons" }, make("button", { type: "button", className: "main", "data-do": "close", autofocus: true, onclick: () => d.close() }, "Close")));
  d.addEventListener("close", () => d.remove());
  document.body.append(d);
  d.showModal();
}

// askForUser shows the sign-in form.
function askForUser(problem = "") {
  clear("signin");
  document.title = "Sign in · redstalk";
  showUser(false);
  const user = fieldOf({ name: "user", label: "User", required: true, autocomplete: "username" }, "signin");
  const secret = fieldOf({ name: "secret", label: "Secret", type: "password", required: true, autocomplete: "current-password" }, "signin");
  const form = make("form", { id: "signin", className: "card", onsubmit: e => {
    e.preventDefault();
    signIn(user.value(), secret.value());
    begin();
  } }, make("h1", {}, "Sign in"), user.row, secret.row, make("p", { className: "problem", role: "alert" }, problem),
  make("div", { className: "buttons" }, caller.anonymous && may("list") && make("button", { type: "button", "data-do": "cancel", onclick: () => location.reload() }, "Cancel"), make("button", { type: "submit", className: "main", "data-do": "ok" }, "Sign in")), make("small", { className: "soft" }, "Stored in this tab until it is closed."));
  main.append(form);
  user.input.focus();
  main.dataset.ready = "true";
}

// showUser shows the user, and the pages for which it has the right.
function showUser(known) {
  document.querySelectorAll("header [data-right]").forEach(e => { e.hidden = !known || !may(e.dataset.right); });
  const box = document.getElementById("user");
  box.replaceChildren();
  if (!known || !caller.user) return;
  if (caller.anonymous) box.append(make("button", { type: "button", "data-action": "signin", onclick: () => askForUser() }, "Sign in"));
  else box.append(make("span", { className: "soft", "data-user": "", title: caller.person && `${caller.person} is signed on as ${caller.user}` }, caller.person || caller.user), signedIn() ? make("button", { type: "button", className: "quiet", "data-action": "signout", onclick: () => { signOut(); location.reload(); } }, "Sign out") : "");
}

let listening = false;

// begin loads the user and its rights, and shows the view for the address.
async function begin() {
  try {
    await readCaller();
  } catch (err) {
    if (err.status === 401) {
      const tried = signedIn();
      signOut();
      return askForUser(tried ? "The user or the secret is wrong." : "");
    }
    clear("none");
    showUser(false);
    say(err.message);
    main.append(make("p", { className: "empty" }, make("button", { type: "button", onclick: () => { signOut(); location.reload(); } }, "Try again")));
    return;
  }
  if (listening && main.dataset.view === "signin") return location.reload(); // the stream belongs to another user
  showUser(true);
  if (!listening && may("list")) {
    listening = true;
    listen().finally(() => { listening = false; });
  }
  show();
}

theme();
document.getElementById("theme").onclick = () => theme(true);
document.getElementById("keys").onclick = showKeys;
document.querySelector(".skip").onclick = event => { event.preventDefault(); main.focus(); };
follow(showState);
onRefused(() => {
  if (caller.person) location.reload(); // the proxy lets people sign on again
  else if (main.dataset.view !== "signin" && caller.user) {
    signOut();
    askForUser("You have been signed out.");
  }
});
addEventListener("hashchange", () => { if (main.dataset.view !== "signin" && !closeJob()) { show(); main.focus(); } });
document.getElementById("find").onsubmit = event => {
  event.preventDefault();
  const text = event.target.elements.text.value.trim();
  if (text) location.hash = searchPage(text);
  event.target.reset();
};
begin();
