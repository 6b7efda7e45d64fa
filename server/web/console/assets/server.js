// The instance that is asked, and what it knows of the store.
import { make, number, span, attempt, note, ask, bytes } from "./ui.js";
import { call, mayEverywhere, caller } from "./api.js";

export function server(main) {
  const box = make("div", { className: "cards" });
  const drain = make("button", { type: "button" });
  main.append(make("div", { className: "bar" }, make("h1", {}, "Server"), mayEverywhere("admin") && drain, make("a", { className: "button", href: "/docs" }, "HTTP API")), box);
  async function read() {
    const s = await call("GET", "/v1/server");
    const card = (title, rows) => make("section", { className: "card" }, make("h2", {}, title), make("dl", { className: "facts" }, rows.filter(Boolean).map(([k, v]) => make("div", {}, make("dt", {}, k), make("dd", {}, v)))));
    box.replaceChildren(
      card("This instance", [["Version", s.version || "–"], ["Host", s.hostname], ["Process", String(s.pid)], ["Id", s.id], ["Up for", span(s.uptime * 1000)], ["Takes puts", s.draining ? "no, it drains" : "yes"], ["Largest body", bytes(s.max_job_size)], ["Connections", number(s.connections)], ["Waiting reserves", number(s.waiting)], caller.user && ["You are", caller.user]]),
      card("The store", [["Instances on it", s.instances ? number(s.instances) : "this one only"], ["Tubes", number(s.tubes)], ["Ready", number(s.ready)], ["Urgent", number(s.urgent)], ["Reserved", number(s.reserved)], ["Delayed", number(s.delayed)], ["Buried", number(s.buried)], ["Jobs ever put", number(s.jobs)], ["Timeouts", number(s.timeouts)]]));
    drain.textContent = s.draining ? "Accept puts again" : "Drain";
    drain.onclick = () => attempt(async () => {
      if (!s.draining && !await ask({ title: "Drain this instance?", text: "Every put is refused until it is told otherwise.", action: "Drain", danger: true })) return;
      await call("POST", "/v1/server/" + (s.draining ? "undrain" : "drain"));
      note(s.draining ? "Puts are accepted again." : "Puts are refused now.");
      await read();
    });
  }
  attempt(read);
  const timer = setInterval(() => read().catch(() => {}), 5000);
  return () => clearInterval(timer);
}
