import { Client } from './client.js';
import { Emitter } from './emitter.js';
import type { EndedJob } from './ended.js';
import { ClosedError } from './errors.js';
import { Progress, progressOf } from './job.js';
import type { ConnectionOptions } from './options.js';
import { endOf, valueOf } from './queuejob.js';
import { check, Names, Value, word } from './text.js';

/** Options of QueueEvents. */
export interface QueueEventsOptions {
  connection?: ConnectionOptions;
  /** The pause from one look at the server to the next, in milliseconds; 500 by default. */
  interval?: number;
}

const names: Names<QueueEventsOptions> = { connection: true, interval: true };

/** What QueueEvents emits. */
export interface QueueEventsEvents {
  /** A job is done whose record is kept. */
  completed: [event: { jobId: string; returnvalue: any }];
  /** A job is buried; or a job whose record is kept is dead or expired. */
  failed: [event: { jobId: string; failedReason: string }];
  /** A job whose record is kept was deleted or moved. */
  removed: [event: { jobId: string }];
  /** A job was seen at work; and its progress has changed. What begins and ends between two looks is not seen. */
  active: [event: { jobId: string }];
  progress: [event: { jobId: string; data: Progress }];
  error: [error: Error];
  closed: [];
}

const events: Names<QueueEventsEvents> = { completed: true, failed: true, removed: true, active: true, progress: true, error: true, closed: true };
/** What Node emits for an emitter itself. */
const ofNode = ['newListener', 'removeListener'];

const pageSize = 1000;
const defaultInterval = 500;

/**
 * Tells what happens to the jobs of a queue, whatever process does it, from when it was made on. It looks at the records of ended jobs and at the lists of
 * the server, again and again, so it is told of nothing that leaves no trace there.
 */
export class QueueEvents extends Emitter<QueueEventsEvents> {
  /** For waitUntilFinished, and everything else. */
  readonly client: Client;
  private readonly interval: number;
  private readonly ended: EndedJobs;
  private readonly buried: BuriedJobs;
  private readonly running: RunningJobs;
  private readonly looking: Promise<void>;
  private readonly ready: Promise<void>;
  private setReady = () => {};
  private closing = false;
  private wake = () => {};

  constructor(readonly name: string, options: QueueEventsOptions = {}) {
    super(`events of ${name}`);
    word(name, 'queue');
    check(options, names, 'QueueEvents');
    this.interval = options.interval ?? defaultInterval;
    if (!(this.interval > 0 && this.interval < 2 ** 31)) throw new TypeError('interval must be a number of milliseconds');
    // One that never comes would be waited for in vain.
    super.on('newListener' as never, (event: string) => {
      if (!Object.hasOwn(events, event) && !ofNode.includes(event)) throw new TypeError(`QueueEvents has no event ${event}`);
    });
    this.client = new Client(options.connection);
    this.ended = new EndedJobs(this.client, name);
    this.buried = new BuriedJobs(this.client, name);
    this.running = new RunningJobs(this.client, name);
    this.ready = new Promise(resolve => { this.setReady = resolve; });
    this.looking = this.lookOn();
  }

  /** Resolves when nothing more is missed: what ended before is not told. */
  waitUntilReady(): Promise<void> {
    return this.ready;
  }

  /** Ends the looking, and closes the connection. */
  async close(): Promise<void> {
    this.closing = true;
    this.wake();
    await this.client.close();
    await this.looking;
    this.setReady();
    this.report('closed');
  }

  /** The same as close(). */
  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  private async lookOn(): Promise<void> {
    while (!this.closing) {
      try {
        await this.look();
        this.setReady();
      } catch (error) {
        if (!(error instanceof ClosedError)) this.reportError(error);
      }
      if (!this.closing) await this.pause();
    }
  }

  private pause(): Promise<void> {
    return new Promise(resolve => {
      const timer = setTimeout(resolve, this.interval);
      this.wake = () => { clearTimeout(timer); resolve(); };
    });
  }

  private async look(): Promise<void> {
    for (const record of await this.ended.news()) this.tellEnd(record);
    for (const { jobId, failedReason } of await this.buried.news()) this.report('failed', { jobId, failedReason });
    if (!this.listenerCount('active') && !this.listenerCount('progress')) return;
    for (const { jobId, data } of await this.running.news()) {
      if (data === undefined) this.report('active', { jobId });
      else this.report('progress', { jobId, data });
    }
  }

  private tellEnd(record: EndedJob): void {
    const { id: jobId, how, reason, result } = record;
    switch (endOf(record)) {
      case 'completed': return this.report('completed', { jobId, returnvalue: valueOf(result?.toString() ?? '') });
      case 'failed': return this.report('failed', { jobId, failedReason: reason ?? `the job is ${how}` });
      default: return this.report('removed', { jobId });
    }
  }
}

/** The last texts that were added. */
class Recent {
  private readonly texts = new Set<string>();

  constructor(private readonly most: number) {}

  /** Whether there can have been more. */
  get full(): boolean {
    return this.texts.size === this.most;
  }

  has(text: string): boolean {
    return this.texts.has(text);
  }

  add(text: string): void {
    this.texts.add(text);
    if (this.texts.size > this.most) for (const oldest of this.texts) return void this.texts.delete(oldest);
  }
}

/** The records of ended jobs. The server lists the newest first, and appends in this order. */
class EndedJobs {
  /** More than one, as the newest ones can be those that are kept shortest. */
  private readonly seen = new Recent(10 * pageSize);
  private begun = false;

  constructor(private readonly client: Client, private readonly tube: string) {}

  /** Those since the last time, the oldest first. */
  async news(): Promise<EndedJob[]> {
    const news: EndedJob[] = [];
    // A page of one says whether there are any.
    for (let count = 1, cursor: string | undefined; ; count = pageSize) {
      const { next, jobs } = await this.client.ended(this.tube, { count, cursor });
      const known = jobs.findIndex(job => this.seen.has(keyOf(job)));
      news.push(...(known < 0 ? jobs : jobs.slice(0, known)));
      cursor = next;
      if (known >= 0 || !next || (!this.begun && news.length > pageSize)) break;
    }
    const begun = this.begun;
    this.begun = true;
    news.reverse();
    for (const job of news) this.seen.add(keyOf(job));
    return begun ? news : [];
  }
}

/** An id alone can come again, after the end of a server that keeps its jobs in memory. */
function keyOf({ id, ended }: EndedJob): string {
  return `${id} ${ended.getTime()}`;
}

/** A buried job as the server lists it. */
interface Buried {
  key: string;
  jobId: string;
  failedReason: string;
  /** When it failed, in milliseconds since 1970; 0 if it was buried without a reason. */
  time: number;
}

function toBuried(entry: Record<string, Value>): Buried {
  const time = Number(entry['failed-ms'] ?? 0);
  const failedReason = String(entry['reason'] ?? (entry['parked'] || 'the job was buried'));
  return { key: `${entry['id']} ${entry['buries']} ${time}`, jobId: String(entry['id']), failedReason, time };
}

/** The buried jobs. The server lists them in the order in which they were buried. */
class BuriedJobs {
  /** Before the last one that is known. */
  private cursor = '';
  /** The connection for which it means something. */
  private connections = 0;
  /** When the newest one failed. */
  private newest = 0;
  private readonly seen = new Recent(pageSize);
  private begun = false;

  constructor(private readonly client: Client, private readonly tube: string) {}

  /** Those since the last time, in this order. */
  async news(): Promise<Buried[]> {
    let found = await this.list(this.cursor);
    // After a restart of the server the cursor can mean nothing.
    const again = this.connections !== this.client.connections;
    this.connections = this.client.connections;
    if (again) found = await this.list('');
    // What is listed again is known if it is among the last ones, or older than these.
    const since = again && this.seen.full ? this.newest : 0;
    const news = found.filter(({ key, time }) => time >= since && !this.seen.has(key));
    for (const { key, time } of news) {
      this.seen.add(key);
      this.newest = Math.max(this.newest, time);
    }
    const begun = this.begun;
    this.begun = true;
    return begun ? news : [];
  }

  /** The jobs behind a cursor, which is moved to the last one. */
  private async list(cursor: string): Promise<Buried[]> {
    const all: Buried[] = [];
    for (let from = (this.cursor = cursor); ; ) {
      const { next, entries } = await this.client.listJobs(this.tube, 'buried', { count: pageSize, cursor: from });
      all.push(...entries.map(toBuried));
      if (next) {
        from = next;
        continue;
      }
      this.cursor = entries.length > 1 ? await this.beforeLast(from, entries.map(toBuried)) : from;
      return all;
    }
  }

  /** A cursor before the last one of a page that began at `from`; there is none behind it. It is `from` if other jobs are there meanwhile. */
  private async beforeLast(from: string, page: Buried[]): Promise<string> {
    const { next, entries } = await this.client.listJobs(this.tube, 'buried', { count: page.length - 1, cursor: from });
    const known = new Set(page.map(({ key }) => key));
    return next && entries.every(entry => known.has(toBuried(entry).key)) ? next : from;
  }
}

/** The reserved jobs. */
class RunningJobs {
  /** Those of the last time, by id: their delivery, and their progress. */
  private known?: Map<string, { delivery: Value | undefined; progress: string }>;

  constructor(private readonly client: Client, private readonly tube: string) {}

  /** The jobs that have been reserved since the last time, and progress that has changed. */
  async news(): Promise<{ jobId: string; data?: Progress }[]> {
    const [before, now] = [this.known, new Map<string, { delivery: Value | undefined; progress: string }>()];
    const news: { jobId: string; data?: Progress }[] = [];
    let cursor: string | undefined;
    do {
      const { next, entries } = await this.client.listJobs(this.tube, 'reserved', { count: pageSize, cursor });
      for (const entry of entries) {
        const [jobId, delivery, progress] = [String(entry['id']), entry['reserves'], String(entry['progress'] ?? '')];
        const old = before?.get(jobId);
        if (old?.delivery !== delivery) news.push({ jobId });
        if (progress && (old?.delivery !== delivery || old?.progress !== progress)) news.push({ jobId, data: progressOf(progress) });
        now.set(jobId, { delivery, progress });
      }
      cursor = next;
    } while (cursor);
    this.known = now;
    return before ? news : [];
  }
}
