import { Client } from './client.js';
import { KickOptions, kickWord } from './commands.js';
import { envelope, typed } from './envelope.js';
import { NotFoundError, RedstalkError } from './errors.js';
import { findJob, QueueJob } from './queuejob.js';
import type { ConnectionOptions } from './options.js';
import type { PutOptions } from './put.js';
import type { Schedule, ScheduleOptions } from './schedule.js';
import { check, Duration, Names, Stats } from './text.js';

/** Options of a queue. */
export interface QueueOptions {
  connection?: ConnectionOptions;
  /** For the jobs that do not set them themselves. */
  defaultJobOptions?: JobOptions;
}

/** Options of a job; times are in milliseconds, as in BullMQ, except in those of PutOptions. */
export interface JobOptions extends Pick<PutOptions, 'ttr' | 'keyTtl' | 'onDuplicate' | 'dead' | 'expire' | 'onExpire' | 'keep' | 'group' | 'meta' | 'trace' | 'batch' | 'after' | 'afterAll'> {
  delay?: number;
  /** How often the job is tried before it is buried. By default the policy of the tube says so, else the worker tries on; with `dead` it is 1. */
  attempts?: number;
  /** The wait before each further attempt; none by default. */
  backoff?: number | { type: 'fixed' | 'exponential'; delay: number };
  /** The key: while there is a job with it, and an hour longer (`keyTtl`), no other is added. */
  jobId?: string;
  /** 0 is the most urgent; 1024 by default. */
  priority?: number;
  /**
   * For how long the record of the job is kept, as `keep`: `age` in seconds; a day for false or a number of jobs, which is not counted. True, and
   * 0 jobs, leave that to the policy of the tube, without which there is no record.
   */
  removeOnComplete?: boolean | number | { age?: number; count?: number; limit?: number };
}

/** When a job scheduler adds jobs; times are in milliseconds. It has either `pattern` or `every`. */
export interface RepeatOptions extends Pick<ScheduleOptions, 'tz' | 'overlap' | 'catchUpAll'> {
  /** A cron expression. */
  pattern?: string;
  /** At least 1,000. */
  every?: number;
  startDate?: Date | number | string;
  endDate?: Date | number | string;
  /** Each job is added later by a part of this. */
  spread?: number;
  /** How late a missed job can be added. */
  catchUp?: number;
}

/** The jobs of a scheduler. */
export interface JobTemplate<T> {
  /** By default the id of the scheduler. */
  name?: string;
  data?: T;
  opts?: Omit<JobOptions, 'jobId' | 'keyTtl' | 'onDuplicate'>;
}

const jobNames: Names<JobOptions> = {
  delay: true, attempts: true, backoff: true, jobId: true, priority: true, removeOnComplete: true, ttr: true, keyTtl: true, onDuplicate: true, dead: true,
  expire: true, onExpire: true, keep: true, group: true, meta: true, trace: true, batch: true, after: true, afterAll: true,
};
const repeatNames: Names<RepeatOptions> = {
  pattern: true, every: true, startDate: true, endDate: true, spread: true, catchUp: true, tz: true, overlap: true, catchUpAll: true,
};

/** Adds jobs to a tube. A body is the JSON of `{ type: name, data }`. */
export class Queue<T = unknown> {
  /** For everything that a queue has no method for. */
  readonly client: Client;

  constructor(readonly name: string, private readonly options: QueueOptions = {}) {
    check(options, { connection: true, defaultJobOptions: true }, 'a queue');
    putOptions(options.defaultJobOptions ?? {});
    this.client = new Client(options.connection);
  }

  async add(name: string, data: T, options: JobOptions = {}): Promise<QueueJob<T>> {
    const put = putOptions({ ...this.options.defaultJobOptions, ...options });
    const receipt = await this.client.put(envelope(name, data), { ...(await typed(this.client, put)), tube: this.name });
    return new QueueJob(this.client, receipt, name, data);
  }

  /** Adds jobs in one round trip. It is no transaction: if some fail, the others are added, and the first error is thrown. */
  addBulk(jobs: { name: string; data: T; opts?: JobOptions }[]): Promise<QueueJob<T>[]> {
    return Promise.all(jobs.map(async job => {
      check(job, { name: true, data: true, opts: true }, 'a job of addBulk');
      return this.add(job.name, job.data, job.opts);
    }));
  }

  /**
   * A job with all that the server knows of it, or undefined. `id` is the number that the server gave; any other text is a jobId, which only a job
   * that has not ended has. A job that has ended is there while its record is, but without name and data.
   */
  async getJob(id: string): Promise<QueueJob<T> | undefined> {
    const found = /^[0-9]+$/.test(id) ? id : (await this.client.find(this.name, id).catch(ifMissing(undefined)))?.id;
    return found === undefined ? undefined : findJob<T>(this.client, this.name, found);
  }

  /** How many jobs are waiting, delayed, active, and failed for good. */
  async getJobCounts(): Promise<{ waiting: number; delayed: number; active: number; failed: number }> {
    const tubes = await this.client.listTubes();
    const stats = tubes.includes(this.name) ? await this.client.statsTube(this.name).catch(ifMissing<Stats>({})) : {};
    const count = (state: string) => Number(stats[`current-jobs-${state}`] ?? 0);
    return { waiting: count('ready'), delayed: count('delayed'), active: count('reserved'), failed: count('buried') };
  }

  /** Deletes the job with a jobId in any state; resolves to 1, or to 0 if there is none. */
  remove(jobId: string): Promise<0 | 1> {
    return this.client.deleteKey(this.name, jobId).then((): 1 => 1, ifMissing(0));
  }

  /** Adds jobs at times, until it is removed; or changes what it adds, and when. The names of schedulers are those of all queues: one of another queue is an error. */
  async upsertJobScheduler(id: string, repeat: RepeatOptions, template: JobTemplate<T> = {}): Promise<Schedule> {
    check(repeat, repeatNames, 'a job scheduler');
    check(template, { name: true, data: true, opts: true }, 'a template');
    const { pattern, every, startDate, endDate, spread, catchUp, ...rest } = repeat;
    const times: ScheduleOptions = { ...rest, cron: pattern };
    if (every !== undefined) times.every = every / 1000;
    if (startDate !== undefined) times.from = new Date(startDate);
    if (endDate !== undefined) times.until = new Date(endDate);
    if (spread !== undefined) times.spread = spread / 1000;
    if (catchUp !== undefined) times.catchUp = catchUp / 1000;
    const { name = id, data, opts } = template;
    const { jobId: _, keyTtl: __, onDuplicate: ___, ...defaults } = this.options.defaultJobOptions ?? {};
    const found = await this.client.getSchedule(id).catch(ifMissing(undefined));
    if (found && found.tube !== this.name) throw new RedstalkError(`the job scheduler ${id} is one of the queue ${found.tube}`);
    await this.client.setSchedule(id, this.name, envelope(name, data), { ...times, ...(await typed(this.client, putOptions({ ...defaults, ...opts }))) });
    return this.client.getSchedule(id);
  }

  /** Resolves to whether there was such a scheduler in this queue. Jobs that it has added stay. */
  async removeJobScheduler(id: string): Promise<boolean> {
    if (!(await this.getJobScheduler(id))) return false;
    return this.client.deleteSchedule(id).then(() => true, ifMissing(false));
  }

  async getJobScheduler(id: string): Promise<Schedule | undefined> {
    const found = await this.client.getSchedule(id).catch(ifMissing(undefined));
    return found?.tube === this.name ? found : undefined;
  }

  /** The schedulers of this queue, by name. */
  async getJobSchedulers(): Promise<Schedule[]> {
    const found: Schedule[] = [];
    let cursor: string | undefined;
    do {
      const { next, schedules } = await this.client.listSchedules({ count: 1000, cursor });
      found.push(...schedules.filter(schedule => schedule.tube === this.name));
      cursor = next;
    } while (cursor);
    return found;
  }

  /** Gives all jobs another chance that have failed for good; resolves to their number. */
  async retryJobs(options: KickOptions = {}): Promise<number> {
    kickWord(options); // a wrong option is an error also if there are none
    await this.client.use(this.name);
    return (await this.getJobCounts()).failed && this.client.kick(1_000_000, options);
  }

  /** Stops the delivery of jobs, at most for a year. */
  pause(): Promise<void> {
    return this.client.pauseTube(this.name, { delay: 365 * 24 * 3600 });
  }

  resume(): Promise<void> {
    return this.client.pauseTube(this.name, { delay: 0 });
  }

  /** Deletes the jobs that wait and, with `delayed`, the delayed ones; resolves to their number. */
  async drain(delayed = false): Promise<number> {
    return (await this.client.flushTube(this.name, 'ready')) + (delayed ? await this.client.flushTube(this.name, 'delayed') : 0);
  }

  close(): Promise<void> {
    return this.client.close();
  }

  /** The same as close(). */
  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}

/** Stands for what is not there. */
function ifMissing<V>(value: V): (error: Error) => V {
  return error => {
    if (error instanceof NotFoundError) return value;
    throw error;
  };
}

/** For how long a record is kept, if only a number of jobs is said. */
const defaultKeep: Duration = '24h';

function keepOf(remove: JobOptions['removeOnComplete']): Duration | undefined {
  if (typeof remove === 'object') check(remove, { age: true, count: true, limit: true }, 'removeOnComplete');
  const { age, count } = typeof remove === 'object' ? remove : { age: undefined, count: remove };
  if (age !== undefined) return age;
  return count === undefined || count === true || count === 0 ? undefined : defaultKeep;
}

const longestWait = 3650 * 24 * 3600;

/** The options of a put for those of a job, which are checked. */
export function putOptions(o: JobOptions): PutOptions {
  check(o, jobNames, 'a job');
  const { delay, attempts = o.dead === undefined ? undefined : 1, backoff = 0, jobId, removeOnComplete, ...rest } = o;
  if (typeof backoff === 'object') {
    check(backoff, { type: true, delay: true }, 'backoff');
    if (backoff.type !== 'fixed' && backoff.type !== 'exponential') throw new TypeError(`backoff has no type ${backoff.type}`);
  }
  const pause = typeof backoff === 'object' ? backoff.delay : backoff;
  if (typeof pause !== 'number' || !(pause >= 0 && pause <= longestWait * 1000)) throw new TypeError(`backoff is no time in milliseconds: ${pause}`);
  if (attempts !== undefined && (!Number.isInteger(attempts) || attempts < 0 || attempts > 251)) throw new TypeError(`attempts must be a whole number up to 251, not ${attempts}`);
  const put: PutOptions = { keep: keepOf(removeOnComplete), ...rest };
  if (delay) put.delay = delay / 1000;
  if (jobId !== undefined) {
    put.key = jobId;
    put.keyTtl ??= '1h';
  }
  if (attempts === undefined) return put;
  const waits = attempts - 1;
  // A worker leaves to the server only what has `retry`; `max` makes the first failure the last one.
  if (waits < 1) return { ...put, retry: [0], max: 1 };
  const first = pause / 1000;
  const exponential = typeof backoff === 'object' && backoff.type === 'exponential';
  if (waits <= 32) {
    put.retry = Array.from({ length: waits }, (_, n) => Math.min(exponential ? first * 2 ** n : first, longestWait));
  } else {
    // The server's delays that double are at least 1 ms.
    const shortest = Math.max(0.001, first);
    put.retry = { first: shortest, longest: exponential && first ? longestWait : shortest, count: waits };
    put.jitter = 0;
  }
  return put;
}
