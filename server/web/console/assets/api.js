// Requests to the HTTP API, and the stream of changes.

// call makes a request and returns what it is answered. Its error is the problem's detail.
export async function call(method, path, { query, body, signal } = {}) {
  const url = new URL(path, location.href);
  for (const [key, value] of Object.entries(query ?? {})) {
    if (value !== undefined && value !== "") url.searchParams.append(key, value);
  }
  const headers = { "X-Redstalk": "console" };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  let reply;
  try {
    reply = await fetch(url, { method, headers, signal, body: body === undefined ? undefined : JSON.stringify(body), credentials: "same-origin" });
  } catch (err) {
    throw err.name === "AbortError" ? err : new Error("The server cannot be reached.");
  }
  if (reply.status === 204) return null;
  const text = await reply.text();
  let value = null;
  try { value = JSON.parse(text); } catch { /* said below */ }
  if (!reply.ok) {
    const err = new Error(value?.detail || value?.title || `The server answered ${reply.status}.`);
    err.status = reply.status;
    err.code = value?.code;
    throw err;
  }
  return value;
}

export const tubePath = name => "/v1/tubes/" + encodeURIComponent(name).replace(/\./g, "%2E");

// caller is who one is, and may do what. Views ask may(right).
export const caller = { user: "", everywhere: [], somewhere: [] };
export const may = right => caller.somewhere.includes(right);
export const mayEverywhere = right => caller.everywhere.includes(right);

// tubes has the present state of all tubes by name. Who listens is told when it has changed.
export const tubes = new Map();
export let at = 0;
const listeners = new Set();
export function follow(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

let source = null;
let state = "connecting";
export function streamState() { return state; }

function tell() { for (const l of listeners) l(); }

// listen begins the stream. A browser connects again by itself; then the first event has all.
export function listen() {
  source = new EventSource("/v1/watch");
  let first = true;
  source.onopen = () => { first = true; };
  source.addEventListener("tubes", event => {
    const news = JSON.parse(event.data);
    if (first) tubes.clear();
    first = false;
    at = news.at;
    for (const t of news.tubes) tubes.set(t.name, t);
    for (const name of news.gone ?? []) tubes.delete(name);
    state = "live";
    tell();
  });
  source.addEventListener("problem", event => { state = JSON.parse(event.data).detail || "the store is away"; tell(); });
  source.onerror = () => {
    state = "connection lost";
    tell();
    if (source.readyState === EventSource.CLOSED) setTimeout(listen, 3000);
  };
}
