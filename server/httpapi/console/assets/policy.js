// The policy of a tube: its summary, and the form to change it.
import { make, ask, note, plural, number, bytes, delays } from "./ui.js";
import { call, tubes, tubePath } from "./api.js";

const numbers = ["jitter", "max", "quota_jobs", "quota_bytes", "group_concurrency", "concurrency", "push_concurrency"];

// readPolicy returns the policy of a tube, or {} if it has none.
export const readPolicy = name => call("GET", tubePath(name) + "/policy", { query: { empty: "true" } });

// policyText returns a summary of a policy.
export function policyText(p) {
  return [p.retry && `retry delays ${[p.retry].flat().join(", ")}`, p.jitter !== undefined && `delays spread by ${p.jitter} %`, p.max && `at most ${plural(p.max, "delivery", "deliveries")}`, p.dead && `dead-letter tube ${p.dead}`, p.expire && p.expire !== "0s" && `${p.on_expire === "park" ? "parked" : "deleted"} if not done within ${p.expire}`,
    p.key_ttl && `keys stay taken for ${p.key_ttl}`, p.on_duplicate && `if a key is taken: ${p.on_duplicate}`, p.quota_jobs !== undefined && `at most ${plural(p.quota_jobs, "job")}`,
    p.quota_bytes !== undefined && `at most ${bytes(p.quota_bytes)} of bodies`, p.group_concurrency && `at most ${plural(p.group_concurrency, "reserved job")} of each group`, p.group_rate && `at most ${p.group_rate} reserves of each group`, p.group_order && `${p.group_order} order of groups`,
    p.concurrency && `at most ${plural(p.concurrency, "reserved job")}`, p.rate && `at most ${p.rate} reserves`, p.push && `pushed to ${p.push}`, p.push_rate && `at most ${p.push_rate} calls`].filter(Boolean).join(" · ");
}

export const policyLine = p => policyText(p) && make("p", { className: "policyline", "data-policy": "" }, make("span", { className: "badge soft" }, "policy"), " ", policyText(p));

export async function policyDialog(name) {
  const now = await readPolicy(name), t = tubes.get(name);
  const jobs = t ? t.ready + t.reserved + t.delayed + t.buried : 0;
  const v = await ask({
    name: "policy", title: "Policy of " + name, action: "Save", wide: true, text: "Defaults for jobs that do not set these options themselves. Leave all fields empty to delete the policy.",
    hits: `${number(jobs)} ${jobs === 1 ? "job is" : "jobs are"} in the tube now. The policy applies to them as well.`,
    fields: [
      { name: "retry", label: "Retry delays", value: [now.retry ?? []].flat().join(", "), placeholder: "10s, 1m, 10m", help: "Up to 32 durations with commas, or exp(10s,1h,25). After the last one the job is parked" },
      { name: "jitter", label: "Spread of these delays", type: "number", value: now.jitter ?? "", max: 100, help: "In per cent" },
      { name: "max", label: "Maximum deliveries", type: "number", value: now.max ?? "", min: 1 },
      { name: "dead", label: "Dead-letter tube", value: now.dead ?? "", suggest: [...tubes.keys()].slice(0, 500), help: "Exhausted jobs go there instead of being buried" },
      { name: "expire", label: "Expire after", value: now.expire ?? "", placeholder: "1h", help: "From when a job is due; for jobs put from now on" },
      { name: "on_expire", label: "Expired jobs", value: now.on_expire ?? "", options: [{ value: "", label: "default (delete)" }, "delete", "park"] },
      { name: "key_ttl", label: "Keep keys taken for", value: now.key_ttl ?? "", placeholder: "1h", help: "After their job is gone" },
      { name: "on_duplicate", label: "If a key is taken", value: now.on_duplicate ?? "", options: [{ value: "", label: "default (keep)" }, "keep", "replace", "fail"] },
      { name: "quota_jobs", label: "Maximum jobs", type: "number", value: now.quota_jobs ?? "" },
      { name: "quota_bytes", label: "Maximum bytes of bodies", type: "number", value: now.quota_bytes ?? "" },
      { name: "group_concurrency", label: "Group concurrency", type: "number", value: now.group_concurrency ?? "", min: 1, max: 1000000, help: "Maximum reserved jobs of each group" },
      { name: "group_rate", label: "Group rate", value: now.group_rate ?? "", placeholder: "100/m,1000/h", help: "Maximum reserves of each group" },
      { name: "group_order", label: "Group order", value: now.group_order ?? "", options: [{ value: "", label: "default (fair)" }, "fair", "strict"], help: "strict: one job of a group at a time" },
      { name: "concurrency", label: "Concurrency", type: "number", value: now.concurrency ?? "", min: 1, max: 1000000, help: "Maximum reserved jobs of the tube" },
      { name: "rate", label: "Rate", value: now.rate ?? "", placeholder: "100/s", help: "Maximum reserves from the tube" },
      { name: "push", label: "Push jobs to", value: now.push ?? "", placeholder: "https://example.org/jobs", help: "A URL to which this server is allowed to push" },
      { name: "push_concurrency", label: "Concurrent calls", type: "number", value: now.push_concurrency ?? "", min: 1 },
      { name: "push_timeout", label: "Call timeout", value: now.push_timeout ?? "", placeholder: "30s" },
      { name: "push_rate", label: "Maximum call rate", value: now.push_rate ?? "", placeholder: "100/s" },
    ],
  });
  if (!v) return null;
  const policy = { ...now }; // keeps fields that the form does not have
  for (const [key, text] of Object.entries(v)) {
    const value = text.trim();
    delete policy[key];
    if (value) policy[key] = key === "retry" ? delays(value) : numbers.includes(key) ? Number(value) : value;
  }
  if (Object.keys(policy).length) await call("PUT", tubePath(name) + "/policy", { body: policy });
  else await call("DELETE", tubePath(name) + "/policy");
  note(Object.keys(policy).length ? "The policy is saved." : "The policy is deleted.");
  return policy;
}
