// The banner that names the jobs whose workers probably hang.
import { make, number, plural, span } from "./ui.js";
import { call, may, jobPage } from "./api.js";

const most = 5; // jobs that are named

export class HungBanner {
  constructor() {
    this.jobs = []; // the longest held first
    this.element = make("div", { className: "banner", role: "status", id: "hung", hidden: true });
  }

  async read() {
    this.jobs = (await call("GET", "/v1/hung")).jobs.sort((a, b) => b.held_ms - a.held_ms);
    this.draw();
  }

  // draw links to each job, where it can be taken back.
  draw() {
    const { jobs, element } = this, stamp = jobs.map(j => j.id + ":" + Math.floor(j.held_ms / 60_000)).join();
    element.hidden = !jobs.length;
    if (stamp === element.dataset.stamp) return; // a link keeps the focus
    element.dataset.stamp = stamp;
    const more = jobs.length - most;
    element.replaceChildren(make("span", {}, jobs.length === 1 ? "The worker of a job probably hangs: it holds it for more than ten times the TTR: " : `The workers of ${plural(jobs.length, "job")} probably hang: they hold them for more than ten times the TTR: `,
      ...jobs.slice(0, most).flatMap((j, i) => [i ? ", " : "", make("a", { href: jobPage(j.id) }, `job ${j.id}`), ` of ${j.tube} for ${span(j.held_ms)}`]), more > 0 ? `, and ${number(more)} more.` : ".", may("admin") && " Open a job to take it back."));
  }
}
