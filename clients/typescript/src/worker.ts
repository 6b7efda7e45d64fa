import { Client } from './client.js';
import { Emitter } from './emitter.js';
import { ClosedError, NotFinishedError, TimedOutError, UnrecoverableError, UnsupportedError } from './errors.js';
import { Job, Progress, progressText, toJob, tried } from './job.js';
import { Backoff, Lease } from './lease.js';
import { Limiter, limit, rateOf } from './limiter.js';
import type { ConnectionOptions } from './options.js';
import { check, Names, word } from './text.js';
import { messageOf, toError } from './usercode.js';

/** Handles a job: the job is deleted if it resolves, and has failed if it throws, unless that is a NotFinishedError. */
export type Processor<T = any, R = any> = (job: Job<T>) => Promise<R> | R;

/** Processors by the names of jobs. A job with another name is buried. */
export type Processors<T = any, R = any> = Record<string, Processor<T, R>>;

/** Options of a worker. */
export interface WorkerOptions {
  connection?: ConnectionOptions;
  /** How many jobs are handled at a time; 1 by default. */
  concurrency?: number;
  /**
   * How many milliseconds a processor can run, or a function of the job that says it; 0 is no limit, and 30 minutes the default. Then the signal of the job
   * is aborted. If the processor throws then, but no NotFinishedError, or does not end within ten seconds, the job has failed with a JobTimeoutError.
   */
  timeout?: number | ((job: Job) => number | undefined);
  /**
   * At most so many jobs of the queue start in any `duration`, which is 1,000, 60,000 or 3,600,000 milliseconds, whatever worker has them: it is set as the
   * `rate` of the tube's policy, so the user of the worker needs the right to do so, and it stays. Until it is set, the worker takes no jobs.
   */
  limiter?: Limiter;
  /** False: the worker starts with run(). */
  autorun?: boolean;
  settings?: {
    /**
     * The wait in milliseconds before a job without `attempts` is tried again; negative: it is buried. By default, and if this fails, 1 s, 2 s, 4 s up to
     * an hour.
     */
    backoffStrategy?: Backoff;
  };
}

const names: Names<WorkerOptions> = { connection: true, concurrency: true, timeout: true, limiter: true, autorun: true, settings: true };

/** What a worker emits. */
export interface WorkerEvents<T, R> {
  active: [job: Job<T>];
  progress: [job: Job<T>, progress: Progress];
  completed: [job: Job<T>, result: R];
  failed: [job: Job<T>, error: Error];
  stalled: [jobId: string];
  error: [error: Error];
  closed: [];
}

/** How long a reserve waits, in seconds, and so how long close() waits at most for one. */
const reserveSeconds = 1;
const errorPause = 200;
const defaultTimeout = 30 * 60_000;
/** After how many milliseconds without a connection a worker says so, if nobody listens to its errors. */
const silence = 2_000;

/**
 * Handles the jobs of a tube. On redstalk, one connection reserves jobs with leases, and another one keeps and settles
 * them; on beanstalkd, each of the handlers has a connection. Whatever a processor, a backoffStrategy or a listener throws, the worker goes on.
 */
export class Worker<T = any, R = any> extends Emitter<WorkerEvents<T, R>> {
  private readonly fetcher: Client;
  private readonly keeper: Client;
  private readonly concurrency: number;
  /** The connections of the handlers, on servers without leases. */
  private readonly slots = new Set<Client>();
  private readonly running = new Set<Promise<void>>();
  /** The jobs of the handlers. */
  private readonly leases = new Set<Lease>();
  /** Jobs on whose processors the worker has given up. Each takes up a slot until it ends. */
  private readonly stuck = new Set<Lease>();
  private closing = false;
  private features: ReadonlySet<string> = new Set();
  private done?: Promise<void>;
  private wake = () => {};

  private readonly processorOf: (name: string) => Processor<T, R> | undefined;
  private readonly rate?: string;

  constructor(readonly name: string, processor: Processor<T, R> | Processors<T, R>, private readonly options: WorkerOptions = {}) {
    super(`worker of ${name}`);
    word(name, 'queue');
    check(options, names, 'a worker');
    check(options.settings ?? {}, { backoffStrategy: true }, 'settings');
    this.concurrency = options.concurrency ?? 1;
    this.processorOf = lookup(processor);
    this.rate = options.limiter && rateOf(options.limiter);
    if (!Number.isInteger(this.concurrency) || this.concurrency < 1) throw new TypeError(`concurrency must be a positive whole number: ${options.concurrency}`);
    if (typeof options.timeout !== 'function') timeLimit(options.timeout);
    this.fetcher = new Client(options.connection);
    this.keeper = new Client(options.connection);
    if (options.autorun !== false) void this.run();
  }

  /** Handles jobs until close(). */
  run(): Promise<void> {
    return (this.done ??= this.work());
  }

  /** Takes no more jobs, tells the handlers, waits for them, and closes the connections; with `force` it does not wait for handlers. */
  async close(force = false): Promise<void> {
    this.closing = true;
    this.wake();
    for (const lease of this.leases) lease.stop();
    if (!force) await this.fetched();
    await this.end();
    this.report('closed');
  }

  /** The same as close(). */
  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  /** Waits until nothing is fetched or handled. A connection that is lost has no job that arrives, so it is not waited for. */
  private async fetched(): Promise<void> {
    const check = () => {
      for (const client of [this.fetcher, ...this.slots]) if (!client.connected) void client.close();
    };
    check();
    const timer = setInterval(check, errorPause);
    await this.done;
    clearInterval(timer);
  }

  private async end(): Promise<void> {
    await Promise.all([this.fetcher, this.keeper, ...this.slots].map(client => client.close()));
  }

  private async work(): Promise<void> {
    const features = await this.attempt(() => this.fetcher.capabilities());
    if (!features) return;
    this.features = features;
    if (this.rate) await this.attempt(() => limit(this.fetcher, this.name, this.rate!));
    if (['lease', 'batch', 'info', 'reason'].every(name => features.has(name))) {
      await this.listen(this.fetcher);
      await this.fetchLeased();
      await Promise.all(this.running);
      return;
    }
    await Promise.all(Array.from({ length: this.concurrency }, () => this.slot()));
  }

  /** Calls until it succeeds; undefined if the worker closes first. */
  private async attempt<V>(call: () => Promise<V>): Promise<V | undefined> {
    while (!this.closing) {
      const late = setTimeout(() => this.printTrouble(), silence);
      try {
        return await call();
      } catch (error) {
        if (error instanceof ClosedError) return undefined;
        this.reportError(error);
        await pause();
      } finally {
        clearTimeout(late);
      }
    }
    return undefined;
  }

  /** Says why there is no connection, before the wait for one is over. */
  private printTrouble(): void {
    const { connected, trouble } = this.fetcher;
    if (!connected && trouble && !this.closing && !this.listenerCount('error')) this.print(trouble);
  }

  private async listen(client: Client): Promise<void> {
    await this.attempt(async () => {
      await client.watch(this.name);
      if (this.name !== 'default') await client.ignore('default');
    });
  }

  private async fetchLeased(): Promise<void> {
    while (!this.closing) {
      const free = Math.min(1000, this.concurrency - this.running.size - this.stuck.size);
      if (free < 1) {
        await new Promise<void>(resolve => { this.wake = resolve; });
        continue;
      }
      const sent = Date.now();
      const jobs = (await this.attempt(() => this.fetcher.reserveBatch(free, { seconds: reserveSeconds, lease: true }))) ?? [];
      for (const job of jobs) this.start(new Lease(this.keeper, job, sent));
    }
  }

  private start(lease: Lease): void {
    const running = this.handle(lease).finally(() => {
      this.running.delete(running);
      this.wake();
    });
    this.running.add(running);
  }

  /** One handler with a connection of its own, for servers without leases. */
  private async slot(): Promise<void> {
    const client = new Client(this.options.connection);
    this.slots.add(client);
    await this.listen(client);
    while (!this.closing) {
      const sent = Date.now();
      const job = await this.attempt(() => client.reserveWithTimeout(reserveSeconds).catch(none));
      if (!job) continue;
      const lease = new Lease(client, job, sent);
      await this.handle(lease);
      while (this.stuck.has(lease) && !this.closing) await pause();
    }
    this.slots.delete(client);
    await client.close();
  }

  private async handle(lease: Lease): Promise<void> {
    this.leases.add(lease);
    try {
      if (!(await lease.begin())) return this.report('stalled', lease.job.id);
      if (this.closing) return void (await lease.giveBack());
      const job = toJob<T>(this.name, lease, progress => this.update(job, lease, progress));
      this.report('active', job);
      const fault = (thrown: unknown) => this.reportError(thrown);
      let result: R;
      try {
        result = await this.process(job, lease);
      } catch (thrown) {
        const error = lease.failure(toError(thrown));
        const failed = !(error instanceof NotFinishedError);
        const settled = failed ? await lease.fail(error, this.options.settings?.backoffStrategy, fault) : await lease.giveBack();
        if (!settled) this.report('stalled', lease.job.id);
        else if (failed) this.report('failed', tried(job, lease), error);
        return;
      }
      if (!(await lease.done(result, fault))) return this.report('stalled', lease.job.id);
      this.report('completed', tried(job, lease, result), result);
    } catch (error) {
      if (!(error instanceof ClosedError)) this.reportError(error);
    } finally {
      this.leases.delete(lease);
      lease.end();
    }
  }

  private update(job: Job<T>, lease: Lease, progress: Progress): void {
    if (!this.features.has('progress')) throw new UnsupportedError('the progress of jobs', 'progress');
    lease.progress(progressText(progress));
    this.report('progress', job, progress);
  }

  /** What the processor resolves to. It throws if the processor ignores that its time is over. */
  private process(job: Job<T>, lease: Lease): Promise<R> {
    const { timeout } = this.options;
    const overtime = lease.overtime(timeLimit(typeof timeout === 'function' ? timeout(job) : timeout));
    const processing = (async () => this.processorFor(job)(job))().finally(() => lease.stopLimit());
    return Promise.race([processing, overtime.then(error => this.giveUp(lease, processing, error))]);
  }

  private processorFor({ name }: Job<T>): Processor<T, R> {
    const processor = this.processorOf(name);
    if (!processor) throw new UnrecoverableError(`no processor for this job: ${name}`);
    return processor;
  }

  private giveUp(lease: Lease, processing: Promise<R>, error: Error): never {
    const ended = () => {
      this.stuck.delete(lease);
      this.wake();
    };
    this.stuck.add(lease);
    processing.then(ended, ended);
    this.reportError(new Error(`the processor of job ${lease.job.id} of ${this.name} ignores that its time is over; it takes up a slot until it ends`));
    throw error;
  }
}

/** The processor for the name of a job. */
function lookup<T, R>(processor: Processor<T, R> | Processors<T, R>): (name: string) => Processor<T, R> | undefined {
  if (typeof processor === 'function') return () => processor;
  const processors = new Map(Object.entries(processor ?? {}));
  if (!processors.size || [...processors.values()].some(one => typeof one !== 'function')) {
    throw new TypeError('the processor of a worker must be a function, or an object of functions by the names of jobs');
  }
  return name => processors.get(name);
}

function pause(): Promise<void> {
  return new Promise(resolve => setTimeout(resolve, errorPause));
}

/** The time of a processor in milliseconds; an error if it can have no such time. */
function timeLimit(limit = defaultTimeout): number {
  if (typeof limit !== 'number' || !(limit >= 0)) throw new TypeError(`timeout must be a number of milliseconds: ${messageOf(toError(limit))}`);
  return limit;
}

function none(error: Error): undefined {
  if (error instanceof TimedOutError) return undefined;
  throw error;
}
