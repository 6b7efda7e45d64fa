// The form of a tube's policy.
import { ask, note } from "./ui.js";
import { call, tubes, tubePath } from "./api.js";

export async function policyDialog(name) {
  const path = tubePath(name) + "/policy";
  let now = {};
  try {
    now = await call("GET", path);
  } catch (err) {
    if (err.status !== 404) throw err;
  }
  const v = await ask({
    title: "Policy of " + name, action: "Save", text: "What holds for jobs that do not say it themselves. Leave everything empty to take the policy away.",
    fields: [
      { name: "retry", label: "Waits after failures", value: (now.retry ?? []).join(", "), placeholder: "10s, 1m, 10m", help: "Up to 32 durations with commas. When they are used up, the job is parked" },
      { name: "max", label: "Deliveries at most", type: "number", value: now.max ?? "" },
      { name: "dead", label: "Exhausted jobs go to tube", value: now.dead ?? "", suggest: [...tubes.keys()].slice(0, 500), help: "Instead of being buried" },
      { name: "key_ttl", label: "Keys stay taken for", value: now.key_ttl ?? "", placeholder: "1h" },
      { name: "on_duplicate", label: "If a key is taken", value: now.on_duplicate ?? "", options: [{ value: "", label: "as usual (keep)" }, "keep", "replace", "fail"] },
      { name: "quota_jobs", label: "Jobs at most", type: "number", value: now.quota_jobs ?? "" },
      { name: "quota_bytes", label: "Bytes of bodies at most", type: "number", value: now.quota_bytes ?? "" },
    ],
  });
  if (!v) return;
  const policy = { ...now }; // what the form does not know stays
  for (const key of ["retry", "max", "dead", "key_ttl", "on_duplicate", "quota_jobs", "quota_bytes"]) {
    delete policy[key];
    if (v[key] === "") continue;
    policy[key] = key === "retry" ? v.retry.split(",").map(s => s.trim()).filter(Boolean) : ["max", "quota_jobs", "quota_bytes"].includes(key) ? Number(v[key]) : v[key];
  }
  if (Object.keys(policy).length) await call("PUT", path, { body: policy });
  else await call("DELETE", path);
  note("The policy is saved.");
}
