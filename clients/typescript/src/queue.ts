import { Client } from './client.js';
import type { ConnectionOptions } from './options.js';
import type { PutOptions } from './put.js';

/** Options of a queue. */
export interface QueueOptions {
  connection?: ConnectionOptions;
  /** For the jobs that do not set them themselves. */
  defaultJobOptions?: JobOptions;
}

/** Options of a job; times are in milliseconds, as in BullMQ, except in those of PutOptions. */
export interface JobOptions extends Pick<PutOptions, 'ttr' | 'keyTtl' | 'onDuplicate' | 'dead' | 'expire' | 'onExpire' | 'group' | 'meta' | 'trace'> {
  delay?: number;
  /** How often the job is tried before it is buried; 1 by default. */
  attempts?: number;
  /** The wait before each further attempt; none by default. */
  backoff?: number | { type: 'fixed' | 'exponential'; delay: number };
  /** The key: while there is a job with it, and an hour longer (`keyTtl`), no other is added. */
  jobId?: string;
  /** 0, the default, is the most urgent. */
  priority?: number;
}

/** What was added. */
export interface Added<T> {
  /** The id that the server gave. */
  id: string;
  name: string;
  data: T;
  /** The state of the job that already has this jobId; then `id` is that job, and nothing was added. */
  state?: string;
}

/** Adds jobs to a tube. A body is the JSON of `{ name, data }`. */
export class Queue<T = unknown> {
  /** For everything that a queue has no method for. */
  readonly client: Client;

  constructor(readonly name: string, private readonly options: QueueOptions = {}) {
    this.client = new Client(options.connection);
  }

  async add(name: string, data: T, options: JobOptions = {}): Promise<Added<T>> {
    const put = putOptions({ ...this.options.defaultJobOptions, ...options });
    const receipt = await this.client.put(JSON.stringify({ name, data }), { ...put, tube: this.name });
    return { ...receipt, name, data };
  }

  /** Adds jobs in one round trip. It is no transaction: if some fail, the others are added, and the first error is thrown. */
  addBulk(jobs: { name: string; data: T; opts?: JobOptions }[]): Promise<Added<T>[]> {
    return Promise.all(jobs.map(job => this.add(job.name, job.data, job.opts)));
  }

  /** How many jobs are waiting, delayed, active, and failed for good. */
  async getJobCounts(): Promise<{ waiting: number; delayed: number; active: number; failed: number }> {
    const tubes = await this.client.listTubes();
    const stats = tubes.includes(this.name) ? await this.client.statsTube(this.name).catch(none) : {};
    const count = (state: string) => Number(stats[`current-jobs-${state}`] ?? 0);
    return { waiting: count('ready'), delayed: count('delayed'), active: count('reserved'), failed: count('buried') };
  }

  /** Deletes the job with a jobId in any state. */
  remove(jobId: string): Promise<void> {
    return this.client.deleteKey(this.name, jobId);
  }

  /** Gives all jobs another chance that have failed for good; resolves to their number. */
  async retryJobs(): Promise<number> {
    await this.client.use(this.name);
    return (await this.getJobCounts()).failed && this.client.kick(1_000_000);
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
}

function none(error: Error & { code?: string }): Record<string, never> {
  if (error.code === 'NOT_FOUND') return {};
  throw error;
}

const longestWait = 3650 * 24 * 3600;

function putOptions(o: JobOptions): PutOptions {
  const { delay, attempts = 1, backoff = 0, jobId, priority = 0, ...rest } = o;
  const put: PutOptions = { ...rest, priority };
  if (delay) put.delay = delay / 1000;
  if (jobId !== undefined) {
    put.key = jobId;
    put.keyTtl ??= '1h';
  }
  const waits = attempts - 1;
  if (waits < 1) return put;
  const first = (typeof backoff === 'number' ? backoff : backoff.delay) / 1000;
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
