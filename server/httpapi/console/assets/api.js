// Requests to the HTTP API, who asks, and the stream of changes.

const loginKey = "redstalk.login"; // of this tab, until it is closed

// login is the value of the header Authorization; null: nobody has signed in.
const login = () => {
  try { return sessionStorage.getItem(loginKey); } catch { return null; }
};
export const signedIn = () => login() !== null;

export function signIn(user, secret) {
  const bytes = new TextEncoder().encode(user + ":" + secret);
  sessionStorage.setItem(loginKey, "Basic " + btoa(Array.from(bytes, b => String.fromCharCode(b)).join("")));
}

export function signOut() {
  sessionStorage.removeItem(loginKey);
}

// headers are those of every request. The server asks the console, and not the browser, for a user.
function headers() {
  const all = { "X-Redstalk": "console" };
  if (signedIn()) all.Authorization = login();
  return all;
}

let refused = () => {}; // is told when nobody, or the wrong one, has signed in
export function onRefused(f) { refused = f; }

// call makes a request and returns what it is answered. Its error is the problem's detail.
export async function call(method, path, { query, body, signal } = {}) {
  const url = new URL(path, location.href);
  for (const [key, value] of Object.entries(query ?? {})) {
    for (const one of [value].flat()) if (one !== undefined && one !== "") url.searchParams.append(key, one);
  }
  const request = { method, headers: headers(), signal, credentials: "same-origin" };
  if (body !== undefined) {
    request.headers["Content-Type"] = "application/json";
    request.body = JSON.stringify(body);
  }
  let reply;
  try {
    reply = await fetch(url, request);
  } catch (err) {
    throw err.name === "AbortError" ? err : new Error("The server cannot be reached.");
  }
  if (reply.status === 204) return null;
  return answer(reply);
}

async function answer(reply) {
  const text = await reply.text();
  let value = null;
  try { value = JSON.parse(text); } catch { /* said below */ }
  if (reply.ok) return value;
  const err = new Error(value?.detail || value?.title || `The server answered ${reply.status}.`);
  Object.assign(err, { status: reply.status, code: value?.code });
  if (reply.status === 401) refused(err);
  throw err;
}

export const tubePath = name => "/v1/tubes/" + encodeURIComponent(name).replace(/\./g, "%2E");
export const tubePage = name => "#/tube/" + encodeURIComponent(name);

// caller is who one is, and may do what.
export const caller = { user: "", anonymous: false, everywhere: [], somewhere: [] };
export const may = right => caller.somewhere.includes(right);
export const mayEverywhere = right => caller.everywhere.includes(right);

const onTube = new Map(); // rights by tube

export async function readCaller() {
  Object.assign(caller, { user: "", anonymous: false }, await call("GET", "/v1/caller"));
  onTube.clear();
}

// readRights finds out what one may do on tubes, for mayOn.
export async function readRights(names) {
  if (caller.somewhere.every(mayEverywhere)) return;
  const unknown = [...new Set(names)].filter(n => !onTube.has(n));
  for (let i = 0; i < unknown.length; i += 100) {
    const got = await call("GET", "/v1/caller", { query: { tube: unknown.slice(i, i + 100) } });
    for (const [name, rights] of Object.entries(got.tubes ?? {})) onTube.set(name, rights);
  }
}

export const mayOn = (name, right) => mayEverywhere(right) || (onTube.get(name)?.includes(right) ?? false);

// tubes has the present state of all tubes by name. An object stays that of its tube. Who
// listens is told when something has changed.
export const tubes = new Map();
const listeners = new Set();
export function follow(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

// The stream. state: connecting, live, paused (by the user), resting (nobody sees the page), lost,
// or away (the store is). why says more.
export const stream = { state: "connecting", why: "", at: 0 };
const stale = 60_000; // ms without a word after which the stream is taken for broken
const restAfter = 60_000; // ms for which a page that nobody sees goes on to listen
let wanted = true, cut = null;

function set(state, why = "") {
  Object.assign(stream, { state, why });
  for (const l of listeners) l();
}

// setFollowing lets the stream go on, or stops it.
export function setFollowing(on) {
  wanted = on;
  if (!on) cut?.abort();
  set(on ? "connecting" : "paused");
  wake();
}

let wake = () => {};
const pause = ms => new Promise(done => {
  const timer = setTimeout(done, ms);
  wake = () => { clearTimeout(timer); done(); };
});

// listen follows the stream for as long as the page is there.
export async function listen() {
  let resting = null;
  document.addEventListener("visibilitychange", () => {
    clearTimeout(resting);
    if (document.hidden) resting = setTimeout(() => { if (wanted) { set("resting"); cut?.abort(); } }, restAfter);
    else if (stream.state === "resting") { set("connecting"); wake(); }
  });
  // A page that the browser keeps for when one comes back must not keep its connection, too: there
  // are six for a server.
  addEventListener("pagehide", () => { if (wanted) set("resting"); cut?.abort(); });
  addEventListener("pageshow", event => { if (event.persisted && stream.state === "resting") { set("connecting"); wake(); } });
  for (let wait = 1000; ;) {
    if (!wanted || stream.state === "resting") {
      await pause(3600_000);
      continue;
    }
    try {
      await readStream();
      wait = 1000;
    } catch (err) {
      if (err.status === 401) return; // one begins anew after having signed in
      if (wanted && stream.state !== "resting") set("lost", err.message);
    }
    if (wanted && stream.state !== "resting") await pause(wait = Math.min(wait * 2, 15_000));
  }
}

async function readStream() {
  const mine = cut = new AbortController();
  let timer = setTimeout(() => mine.abort(), stale), first = true;
  try {
    const reply = await fetch("/v1/watch", { headers: { ...headers(), Accept: "text/event-stream" }, signal: mine.signal, credentials: "same-origin" });
    if (!reply.ok) await answer(reply);
    const reader = reply.body.pipeThrough(new TextDecoderStream()).getReader();
    for (let text = ""; ;) {
      const { done, value } = await reader.read();
      if (done) throw new Error("The server has ended the connection.");
      clearTimeout(timer);
      timer = setTimeout(() => mine.abort(), stale);
      text += value;
      for (let end; (end = text.indexOf("\n\n")) >= 0; text = text.slice(end + 2)) first = take(text.slice(0, end), first);
    }
  } finally {
    clearTimeout(timer);
  }
}

// take takes an event in. The first one of a connection has all tubes.
function take(event, first) {
  const name = /^event: (.*)$/m.exec(event)?.[1], news = JSON.parse(/^data: (.*)$/m.exec(event)[1]);
  if (name === "problem") {
    set("away", news.detail || "The store is away.");
    return first;
  }
  if (first) {
    const names = new Set(news.tubes.map(t => t.name));
    for (const known of tubes.keys()) if (!names.has(known)) tubes.delete(known);
  }
  for (const t of news.tubes) {
    const known = tubes.get(t.name);
    if (known) Object.assign(known, { paused_because: "" }, t);
    else tubes.set(t.name, t);
  }
  for (const gone of news.gone ?? []) tubes.delete(gone);
  stream.at = news.at;
  set("live");
  return false;
}
