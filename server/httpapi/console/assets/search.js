// A search over all tubes. What is found is grouped by what it is: a job with this id, a tube, a key, a group and so on.
import { make, number, plural, attempt, problemOf, problemOfSearch, withMarks } from "./ui.js";
import { call, tubes, follow, jobPage, tubePage, groupPage, batchPage, schedulePage, searchPage } from "./api.js";
import { Walk, WalkBar } from "./walk.js";
import { JobDialog, groupBadge, isLetter } from "./job.js";
import { excerptOf } from "./body.js";
import { readRecord } from "./ended.js";

const most = 10_000; // jobs that are found before the search asks whether to go on
const shownAtFirst = 5, step = 200; // jobs of a group of results, so that the next group is in sight

// kinds are the places where the text can be, in the order of the page. page returns the address of what has the text in a job, and name its name.
const kinds = [
  { key: "id", label: "Jobs with this id" },
  { key: "key", label: "Keys" },
  { key: "group", label: "Groups", name: j => j.group, page: j => groupPage(j.tube, j.group), inTube: true },
  { key: "batch", label: "Batches", name: j => j.batch ?? j.after ?? j.after_all, page: j => batchPage(j.batch ?? j.after ?? j.after_all) },
  { key: "schedule", label: "Schedules", name: j => j.schedule, page: j => schedulePage(j.schedule) },
  { key: "meta", label: "Meta" },
  { key: "reason", label: "Reasons" },
  { key: "body", label: "Bodies" },
];

export function search(main, text = "") {
  const view = new Search(main, text.trim());
  return () => view.end();
}

class Search {
  constructor(main, text) {
    Object.assign(this, { main, text, ended: false, sections: new Map() });
    const input = make("input", { type: "search", id: "search", value: text, placeholder: "Id, key, group, text or JSON", "aria-label": "Search all jobs", maxLength: 200, autocomplete: "off", spellcheck: false });
    const problem = problemOf(input);
    problem.say(problemOfSearch(text));
    this.progress = new WalkBar(attempt);
    this.empty = make("p", { className: "empty", hidden: true });
    this.results = make("div", { className: "results" });
    main.append(make("div", { className: "bar" }, make("h1", {}, "Search"), make("form", { className: "searchform", role: "search", "aria-label": "All jobs", onsubmit: e => {
      e.preventDefault();
      if (input.value.trim()) location.hash = searchPage(input.value.trim());
    } }, problem.element, input, make("button", { type: "submit", className: "main" }, "Search"))),
    make("p", { className: "soft" }, "A JSON object is compared by value: {\"customer\": 4711} finds it in any notation."),
    make("div", { className: "bar tight" }, this.progress.element), this.results, this.empty);
    if (!text) {
      main.dataset.ready = "true";
      input.focus();
      return;
    }
    this.walk = new Walk({ text }, { wanted: most, changed: () => this.changed() });
    attempt(() => this.begin(), problem);
  }

  end() {
    this.ended = true;
    this.walk?.stop();
    this.stop?.();
  }

  // begin shows at once what needs no search: the names of tubes, the jobs with this id or key, and the record of a job that has ended.
  async begin() {
    this.stop = follow(() => this.findTubes());
    this.findTubes();
    this.walk.start(await this.lookUp());
    if (!this.ended) await this.walk.run();
  }

  // findTubes shows the tubes with the text in their names. The stream may know only some of them at first.
  findTubes() {
    const found = [...tubes.keys()].filter(name => name.toLowerCase().includes(this.text.toLowerCase())), key = found.join(" ");
    if (key === this.tubesFound || !found.length) return;
    this.tubesFound = key;
    this.results.querySelector("[data-found=tubes]")?.remove();
    this.names("Tubes", found.map(name => [name, tubePage(name)]));
    this.changed();
  }

  async lookUp() {
    const jobs = [];
    if (/^[0-9]{1,19}$/.test(this.text)) {
      try {
        jobs.push({ ...await call("GET", "/v1/jobs/" + this.text), in: "id" });
        jobs[0].excerpt = jobs[0].body?.slice(0, 160);
      } catch (err) {
        if (err.status !== 404) throw err;
        const record = await readRecord(this.text);
        if (record && !this.ended) this.names("Ended jobs with this id", [[`Job ${this.text} of ${record.tube}: ${record.how}`, jobPage(this.text)]]);
      }
    }
    if (/^[!-~]{1,128}$/.test(this.text)) jobs.push(...(await call("GET", "/v1/jobs", { query: { key: this.text } })).jobs.filter(j => j.id !== jobs[0]?.id).map(j => ({ ...j, in: "key" })));
    return jobs;
  }

  // names adds a group of results that are links.
  names(label, links) {
    if (!links.length) return;
    const shown = links.slice(0, 100);
    this.hasNames = true;
    this.results.prepend(make("section", { className: "card", "data-found": label.split(" ")[0].toLowerCase() }, make("h2", {}, label, " ", make("span", { className: "soft" }, number(links.length))),
      make("div", { className: "links" }, shown.map(([name, page]) => make("a", { href: page }, withMarks(name, this.text))), links.length > shown.length && make("span", { className: "soft" }, `and ${number(links.length - shown.length)} more`))));
  }

  changed() {
    if (this.ended) return;
    const { walk } = this;
    if (walk.jobs.length >= walk.wanted && walk.running) {
      walk.stop();
      walk.wanted += most;
    }
    this.progress.show(walk);
    for (const kind of kinds) {
      const jobs = walk.jobs.filter(j => j.in === kind.key || this.isNamed(kind.name?.(j)));
      if (jobs.length) this.section(kind, jobs);
    }
    this.empty.hidden = walk.jobs.length > 0 || !!this.hasNames || !walk.done;
    this.empty.textContent = "Nothing was found.";
    if (walk.examined || walk.done) this.main.dataset.ready = "true";
  }

  // isNamed returns whether a name has the text. A job can have it in its key and in its group: then it is shown with both.
  isNamed(name) { return !!name && name.toLowerCase().includes(this.text.toLowerCase()); }

  // section shows the jobs that have the text in one place.
  section(kind, jobs) {
    let s = this.sections.get(kind.key);
    if (!s) {
      s = { most: shownAtFirst, count: make("span", { className: "soft" }), links: make("div", { className: "links" }), body: make("tbody", {}), drawn: 0 };
      s.more = make("button", { type: "button", "data-more": kind.key, onclick: () => { s.most += step; this.section(kind, s.jobs); } }, "More");
      s.element = make("section", { className: "card", "data-found": kind.key }, make("h2", {}, kind.label, " ", s.count), kind.name && s.links,
        make("div", { className: "tablebox" }, make("table", { "aria-label": kind.label }, make("thead", {}, make("tr", {}, ["Job", "Tube", "State", "Key and group", "Reason", "Body"].map(text => make("th", {}, text)))), s.body)), s.more);
      this.sections.set(kind.key, s);
      const after = kinds.slice(kinds.indexOf(kind) + 1).map(k => this.sections.get(k.key)?.element).find(Boolean);
      after ? after.before(s.element) : this.results.append(s.element);
    }
    s.jobs = jobs;
    s.count.textContent = plural(jobs.length, "job");
    for (; s.drawn < Math.min(jobs.length, s.most); s.drawn++) s.body.append(this.row(s, jobs[s.drawn], s.drawn));
    s.more.hidden = s.drawn >= jobs.length;
    s.more.textContent = `${number(jobs.length - s.drawn)} more`;
    if (kind.name) this.drawLinks(kind, s);
  }

  // drawLinks shows what has the text, such as groups, with its number of jobs. What has it as its whole name comes first.
  drawLinks(kind, s) {
    const all = new Map();
    for (const j of s.jobs) {
      const page = kind.page(j), one = all.get(page) ?? { name: kind.name(j) + (kind.inTube ? ` in ${j.tube}` : ""), page, whole: kind.name(j).toLowerCase() === this.text.toLowerCase(), n: 0 };
      one.n++;
      all.set(page, one);
    }
    const links = [...all.values()].sort((a, b) => b.whole - a.whole || b.n - a.n), seen = JSON.stringify(links.slice(0, 30));
    if (s.seen === seen) return; // the focus stays where it is
    s.seen = seen;
    s.links.replaceChildren(...links.slice(0, 30).map(l => make("a", { href: l.page }, withMarks(l.name, this.text), " ", make("b", {}, number(l.n)))), ...links.length > 30 ? [make("span", { className: "soft" }, `and ${number(links.length - 30)} more`)] : []);
  }

  row(s, j, i) {
    const mark = text => withMarks(text, this.text), meta = j.in === "meta" && Object.entries(j.meta ?? {}).map(([name, value]) => make("span", { className: "badge soft" }, mark(`${name}=${value}`)));
    const open = event => {
      event.preventDefault();
      attempt(() => new JobDialog({ list: () => s.jobs, at: i, word: this.text }).show());
    };
    return make("tr", { "data-id": j.id }, make("td", {}, make("a", { href: jobPage(j.id), onclick: open }, String(j.id)), j.from_id && isLetter(j) && make("small", { className: "when" }, `was ${j.from_id}`)), make("td", {}, make("a", { href: tubePage(j.tube) }, j.tube)),
      make("td", {}, make("span", { className: "badge first " + j.state }, j.state)), make("td", {}, j.key && make("b", {}, mark(j.key)), groupBadge(j, mark), meta),
      make("td", {}, j.reason ? mark(j.reason) : j.parked ?? ""), make("td", {}, excerptOf(j, mark)));
  }
}
