// Requests to the HTTP API, the user and its rights, and the event stream.

const loginKey = "redstalk.login"; // in sessionStorage: for this tab, until it is closed

// login returns the value of the Authorization header, or null if nobody has signed in.
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

// headers returns the headers of every request. X-Redstalk makes the server answer 401 in a way for
// which the browser does not open its own login window.
function headers() {
  const all = { "X-Redstalk": "console" };
  if (signedIn()) all.Authorization = login();
  return all;
}

let refused = () => {}; // called for each 401 answer
export function onRefused(f) { refused = f; }

// urlOf returns the URL of a path of the API. The console can be below a path of a proxy, so it is relative to the page.
const urlOf = path => new URL("." + path, location.href);

// call makes a request and returns its answer. The message of an error is the detail of the problem.
export async function call(method, path, { query, body, signal } = {}) {
  const url = urlOf(path);
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
  try { value = JSON.parse(text); } catch { /* reported below */ }
  if (reply.ok) return value;
  const err = new Error(value?.detail || value?.title || `The server answered ${reply.status}.`);
  Object.assign(err, { status: reply.status, code: value?.code });
  if (reply.status === 401) refused(err);
  throw err;
}

export const tubePath = name => "/v1/tubes/" + encodeURIComponent(name).replace(/\./g, "%2E");
export const tubePage = name => "#/tube/" + encodeURIComponent(name);
export const endedPage = name => "#/ended/" + encodeURIComponent(name);
export const groupPage = (name, group) => tubePage(name) + "/groups/" + encodeURIComponent(group);
export const schedulePath = name => "/v1/schedules/" + encodeURIComponent(name).replace(/\./g, "%2E");
export const schedulePage = name => "#/schedules/" + encodeURIComponent(name);
export const batchPath = name => "/v1/batches/" + encodeURIComponent(name).replace(/\./g, "%2E");
export const batchPage = name => "#/batches/" + encodeURIComponent(name);
export const searchPage = text => "#/search/" + encodeURIComponent(text);
export const parkedPage = name => "#/parked/" + encodeURIComponent(name);
export const jobPage = id => "#/job/" + id;
export const workersPage = filter => "#/workers/" + encodeURIComponent(filter);

// caller is the user and its rights, as /v1/caller returns them.
export const caller = { user: "", person: "", anonymous: false, everywhere: [], somewhere: [] };
export const may = right => caller.somewhere.includes(right);
export const mayEverywhere = right => caller.everywhere.includes(right);

const onTube = new Map(); // rights by tube

export async function readCaller() {
  Object.assign(caller, { user: "", person: "", anonymous: false }, await call("GET", "/v1/caller"));
  onTube.clear();
}

// readRights loads the rights of the user on tubes, for mayOn.
export async function readRights(names) {
  if (caller.somewhere.every(mayEverywhere)) return;
  const unknown = [...new Set(names)].filter(n => !onTube.has(n));
  for (let i = 0; i < unknown.length; i += 100) {
    const got = await call("GET", "/v1/caller", { query: { tube: unknown.slice(i, i + 100) } });
    for (const [name, rights] of Object.entries(got.tubes ?? {})) onTube.set(name, rights);
  }
}

export const mayOn = (name, right) => mayEverywhere(right) || (onTube.get(name)?.includes(right) ?? false);

// tubes has the current state of all tubes by name. The object of a tube stays the same while the tube
// exists. Subscribers are called after each change.
export const tubes = new Map();
const subscribers = new Set();
export function follow(subscriber) {
  subscribers.add(subscriber);
  return () => subscribers.delete(subscriber);
}

// stream is the state of the event stream: connecting, live, paused (by the user), suspended (the page is
// hidden), lost (no connection), or unavailable (the store is), since when in ms since 1970. reason says more.
export const stream = { state: "connecting", since: 0, reason: "", at: 0 };
const stale = 60_000; // ms without data after which the connection counts as lost
const suspendAfter = 60_000; // ms after which a hidden page ends its stream
let wanted = true, connection = null; // an AbortController

function set(state, reason = "") {
  if (state !== stream.state) stream.since = Date.now();
  Object.assign(stream, { state, reason });
  for (const s of subscribers) s();
}

// setFollowing resumes or pauses the stream.
export function setFollowing(on) {
  wanted = on;
  if (!on) connection?.abort();
  set(on ? "connecting" : "paused");
  wake();
}

let wake = () => {};
const pause = ms => new Promise(done => {
  const timer = setTimeout(done, ms);
  wake = () => { clearTimeout(timer); done(); };
});

// listen reads the stream, and reconnects, for the lifetime of the page.
export async function listen() {
  let timer = null;
  document.addEventListener("visibilitychange", () => {
    clearTimeout(timer);
    if (document.hidden) timer = setTimeout(() => { if (wanted) { set("suspended"); connection?.abort(); } }, suspendAfter);
    else if (stream.state === "suspended") { set("connecting"); wake(); }
  });
  // A page in the back/forward cache must not keep its connection: browsers allow six per server.
  addEventListener("pagehide", () => { if (wanted) set("suspended"); connection?.abort(); });
  addEventListener("pageshow", event => { if (event.persisted && stream.state === "suspended") { set("connecting"); wake(); } });
  for (let wait = 1000; ;) {
    if (!wanted || stream.state === "suspended") {
      await pause(3600_000);
      continue;
    }
    try {
      await readStream();
      wait = 1000;
    } catch (err) {
      if (err.status === 401) return; // listen is called again after signing in
      if (wanted && stream.state !== "suspended") set("lost", err.message);
    }
    if (wanted && stream.state !== "suspended") await pause(wait = Math.min(wait * 2, 15_000));
  }
}

async function readStream() {
  const controller = connection = new AbortController();
  let timer = setTimeout(() => controller.abort(), stale), first = true;
  try {
    const reply = await fetch(urlOf("/v1/watch"), { headers: { ...headers(), Accept: "text/event-stream" }, signal: controller.signal, credentials: "same-origin" });
    if (!reply.ok) await answer(reply);
    const reader = reply.body.pipeThrough(new TextDecoderStream()).getReader();
    for (let text = ""; ;) {
      const { done, value } = await reader.read();
      if (done) throw new Error("The server closed the connection.");
      clearTimeout(timer);
      timer = setTimeout(() => controller.abort(), stale);
      text += value;
      for (let end; (end = text.indexOf("\n\n")) >= 0; text = text.slice(end + 2)) first = apply(text.slice(0, end), first);
    }
  } finally {
    clearTimeout(timer);
  }
}

// apply applies an event to tubes. The first event of a connection has all tubes.
function apply(event, first) {
  const name = /^event: (.*)$/m.exec(event)?.[1], data = JSON.parse(/^data: (.*)$/m.exec(event)[1]);
  if (name === "problem") {
    set("unavailable", data.detail || "The store is unavailable.");
    return first;
  }
  if (first) {
    const names = new Set(data.tubes.map(t => t.name));
    for (const known of tubes.keys()) if (!names.has(known)) tubes.delete(known);
  }
  for (const t of data.tubes) {
    const known = tubes.get(t.name);
    if (known) Object.assign(known, { pause_reason: "" }, t);
    else tubes.set(t.name, t);
  }
  for (const gone of data.gone ?? []) tubes.delete(gone);
  stream.at = data.at;
  set("live");
  return false;
}
