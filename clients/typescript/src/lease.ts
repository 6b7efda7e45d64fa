import type { Client } from './client.js';
import type { Job } from './commands.js';
import { ClosedError, isPassingReply, JobDeletedError, JobLostError, JobTimeoutError, NotFinishedError, NotFoundError, NotKeptError, RedstalkError, ServerError, UnavailableError, UnknownOutcomeError, UnrecoverableError } from './errors.js';
import { defaultPriority } from './put.js';
import { messageOf, toError } from './usercode.js';

const retryPause = 100;
/** How long a progress waits after the one before, in milliseconds. */
const progressPause = 1000;
const longestTimer = 2 ** 31 - 1;
/** The longest delay that a server accepts, in milliseconds. */
const longestDelay = (2 ** 32 - 1) * 1000;

/** Says how many milliseconds a job waits after a failure; negative or undefined: it is buried. */
export type Backoff = (attemptsMade: number, error: Error) => number | undefined | Promise<number | undefined>;

/** After 1 s, 2 s, 4 s up to an hour, and up to a tenth longer or shorter: the same as in the workers of the other languages. */
export function defaultBackoff(attemptsMade: number): number {
  return Math.min(1000 * 2 ** (attemptsMade - 1), 3_600_000) * (0.9 + Math.random() / 5);
}

/** A held job: touched at each third of its TTR, and settled in the end. */
export class Lease {
  /** How long a processor can go on when its time is over, in milliseconds, before the worker gives up on it. */
  static grace = 10_000;
  /** How often the job has failed before. */
  failures = 0;
  /** The last checkpoint of the job, as text; empty is none. */
  saved = '';
  private readonly abort = new AbortController();
  private readonly stopper = new AbortController();
  private ttr = 1000;
  private priority = defaultPriority;
  private retries = false;
  private keeps = false;
  /** Until when the job is ours for certain, in milliseconds since 1970. */
  private deadline = 0;
  private timer?: NodeJS.Timeout;
  /** The progress that was not sent yet, and when the one before was, in milliseconds since 1970. */
  private news?: string;
  private reported = 0;
  private touching = false;
  private limit?: NodeJS.Timeout;
  private ended = false;

  /** `sent` is when the reserve was sent, in milliseconds since 1970: the TTR cannot have begun before. */
  constructor(readonly client: Client, readonly job: Job, private readonly sent: number) {}

  get signal(): AbortSignal {
    return this.abort.signal;
  }

  /** Aborted by stop(). */
  get stopping(): AbortSignal {
    return this.stopper.signal;
  }

  /** Tells the processor that the worker closes. */
  stop(): void {
    this.stopper.abort();
  }

  /** Learns about the job, and begins to touch it. False if it is no longer held. */
  async begin(): Promise<boolean> {
    const { info } = this.job;
    this.keeps = Boolean(info?.keep);
    let unread = info?.['checkpoint-bytes'];
    if (info?.ttr !== undefined) this.learn(info.ttr, info.pri ?? defaultPriority, info.failures ?? 0, info.retry);
    else {
      const stats = await this.client.statsJob(this.job.id);
      const failures = stats['failures'] ?? Number(stats['releases']) + Number(stats['timeouts']);
      this.learn(Number(stats['ttr']), Number(stats['pri']), Number(failures), stats['retry']);
      unread = Number(stats['checkpoint-bytes']);
    }
    this.deadline = this.sent + this.ttr;
    if (Date.now() - this.sent > this.ttr / 3) await this.touchLate();
    else this.schedule();
    if (info?.checkpoint) this.saved = Buffer.from(info.checkpoint, 'base64').toString();
    else if (unread) await this.readCheckpoint();
    return !this.lost;
  }

  /** Reads the checkpoint, which was too long for the info. It can be missing only if the job is no longer held. */
  private async readCheckpoint(): Promise<void> {
    try {
      this.saved = (await this.client.getCheckpoint(this.job.id)).toString();
    } catch (error) {
      if (!(error instanceof NotFoundError)) throw error;
      await this.notHeld();
    }
  }

  private learn(ttr: number, priority: number, failures: number, retry: unknown): void {
    this.ttr = Math.max(1, ttr) * 1000;
    this.priority = priority;
    this.failures = failures;
    this.retries = retry !== undefined && retry !== '';
  }

  private schedule(pause = this.ttr / 3): void {
    clearTimeout(this.timer);
    if (this.news !== undefined) pause = Math.min(pause, Math.max(0, this.reported + progressPause - Date.now()));
    if (!this.ended) this.timer = setTimeout(() => void this.touch(), Math.min(pause, longestTimer));
  }

  /** Finds out whether the job is still ours, since the reserve can have waited for it longer than its TTR. */
  private async touchLate(): Promise<void> {
    await this.touch(Date.now() + this.ttr);
    if (Date.now() >= this.deadline) this.lose();
  }

  private async touch(deadline = this.deadline): Promise<void> {
    const sent = Date.now();
    if (sent >= deadline) return this.lose();
    // A touch without an answer must not outlive the lease.
    const over = setTimeout(() => this.lose(), Math.min(deadline - sent, longestTimer));
    const progress = this.news;
    this.news = undefined;
    if (progress !== undefined) this.reported = sent;
    this.touching = true;
    try {
      const { id, lease } = this.job;
      await (lease ? this.client.touchLease(id, lease, { progress }) : this.client.touch(id, { progress }));
      this.deadline = sent + this.ttr;
      this.schedule();
    } catch (error) {
      if (isPassing(error)) this.news ??= progress;
      if (error instanceof NotFoundError) await this.notHeld();
      else if (error instanceof ClosedError) this.lose();
      else this.schedule(isPassing(error) ? Math.min(retryPause, this.ttr / 10) : undefined);
    } finally {
      this.touching = false;
      clearTimeout(over);
    }
  }

  /** Shows a progress with the next touch: at once, or a second after the one before. Throws if the job is no longer held. */
  progress(text: string): void {
    if (this.lost) throw this.signal.reason;
    const waits = this.touching || this.news !== undefined;
    this.news = text;
    if (!waits) this.schedule();
  }

  /** Sends the last progress before the job is given back. The connection keeps the order, so there is nothing to wait for. */
  private sendProgress(): void {
    if (this.news !== undefined && !this.lost) void this.touch();
  }

  /** Saves what the next attempt begins with. Throws the reason of the signal if the job is no longer held. */
  async checkpoint(text: string): Promise<void> {
    if (this.lost) throw this.signal.reason;
    const { id, lease } = this.job;
    const sent = Date.now();
    try {
      await (lease ? this.client.checkpointLease(id, lease, text) : this.client.checkpoint(id, text));
    } catch (error) {
      throw error instanceof NotFoundError ? await this.notHeld() : error;
    }
    this.saved = text;
    this.deadline = Math.max(this.deadline, sent + this.ttr);
  }

  /** Aborts the signal, since the server says that the job is not held, and resolves to the reason. */
  private async notHeld(): Promise<JobLostError> {
    const reason = (await this.isDeleted()) ? new JobDeletedError('the job was deleted') : new JobLostError('the job is no longer held');
    this.lose(reason);
    return reason;
  }

  private lose(reason = new JobLostError('the job is no longer held')): void {
    if (!this.ended) this.abort.abort(reason);
  }

  /** Whether a job that is no longer held is nowhere else. */
  private isDeleted(): Promise<boolean> {
    return this.client.statsJob(this.job.id).then(() => false, error => error instanceof NotFoundError);
  }

  /** Whether the job is no longer held. */
  get lost(): boolean {
    return this.signal.reason instanceof JobLostError;
  }

  /** Limits the time of the processor, in milliseconds; 0 is no limit. Resolves a while later, if the processor ignores that it is over. */
  overtime(limit: number): Promise<JobTimeoutError> {
    return new Promise(resolve => {
      if (!limit || limit > longestTimer) return;
      this.limit = setTimeout(() => {
        const error = new JobTimeoutError();
        this.abort.abort(error);
        this.limit = setTimeout(() => resolve(error), Lease.grace).unref();
      }, limit).unref();
    });
  }

  /** What it means for the job that its processor throws this: that its time is over, if so, unless it says something special. */
  failure(thrown: Error): Error {
    const { reason } = this.signal;
    if (!(reason instanceof JobTimeoutError) || thrown instanceof UnrecoverableError || thrown instanceof NotFinishedError) return thrown;
    if (thrown !== reason) reason.cause = thrown;
    return reason;
  }

  /** Lifts the limit, since the processor has ended. */
  stopLimit(): void {
    clearTimeout(this.limit);
  }

  /** Ends the touching. */
  end(): void {
    this.ended = true;
    clearTimeout(this.timer);
  }

  /** Ends the job, with the result if its record is kept. False if it is no longer held. A result that cannot be kept is reported. */
  async done(result: unknown, report: (fault: unknown) => void): Promise<boolean> {
    const { id, lease } = this.job;
    try {
      const text = this.keeps && lease ? JSON.stringify(result) : undefined;
      if (text !== undefined) return await this.settle(() => this.client.finishLease(id, lease!, text));
    } catch (fault) {
      if (!isAboutResult(fault)) throw fault;
      if (!(fault instanceof NotKeptError)) report(new Error(`the result of job ${id} was dropped: ${messageOf(toError(fault))}`));
    }
    return this.delete();
  }

  /** Deletes the job. False if it is no longer held. */
  private delete(): Promise<boolean> {
    const { id, lease } = this.job;
    return this.settle(() => (lease ? this.client.deleteLease(id, lease) : this.client.delete(id)));
  }

  /** Gives the job back, which has not failed. False if it is no longer held. */
  giveBack(): Promise<boolean> {
    this.sendProgress();
    return this.release(0, this.job.lease ? { failure: false } : {});
  }

  /**
   * Lets the server retry the job, or does so after what `backoff` says; else buries it. False if it is no longer held. A `backoff` that
   * fails is reported, and replaced by the default one.
   */
  async fail(error: Error, backoff: Backoff = defaultBackoff, report: (fault: unknown) => void): Promise<boolean> {
    this.sendProgress();
    const reason = this.job.lease ? messageOf(error) : undefined;
    const final = error instanceof UnrecoverableError;
    const wait = final ? -1 : this.retries ? 0 : await this.wait(error, backoff).catch(fault => { report(fault); return defaultBackoff(this.failures + 1); });
    if (wait >= 0) return this.release(Math.ceil(wait / 1000), { reason });
    const { id, lease } = this.job;
    const options = { priority: this.priority, reason };
    return this.settle(() => (lease ? this.client.buryLease(id, lease, options) : this.client.bury(id, options)));
  }

  /** What `backoff` says; an error if that is of no use. */
  private async wait(error: Error, backoff: Backoff): Promise<number> {
    const wait = Number((await backoff(this.failures + 1, error)) ?? -1);
    if (!(wait <= longestDelay)) throw new RangeError(`the backoffStrategy says ${wait}`);
    return wait;
  }

  private release(delay: number, tags: { reason?: string; failure?: boolean }): Promise<boolean> {
    const { id, lease } = this.job;
    const options = { priority: this.priority, delay, ...tags };
    return this.settle(async () => void (await (lease ? this.client.releaseLease(id, lease, options) : this.client.release(id, options))));
  }

  /** Settles the job by a call, again and again while the server fails and the lease lasts, but not what it refuses for good. */
  private async settle(call: () => Promise<void>): Promise<boolean> {
    if (this.lost) return false;
    for (let sent = false; ; ) {
      try {
        await call();
        this.end();
        return true;
      } catch (error) {
        // What was sent before may have been done.
        if (error instanceof NotFoundError) return sent;
        if (!isPassing(error) || !this.job.lease || Date.now() > this.deadline) throw error;
        sent ||= error instanceof UnknownOutcomeError;
        await new Promise(resolve => setTimeout(resolve, retryPause));
      }
    }
  }
}

/** Whether a job could not be finished because of its result: it is no JSON, too long, or not wanted. */
function isAboutResult(fault: unknown): boolean {
  return fault instanceof NotKeptError || (fault instanceof ServerError ? fault.code === 'JOB_TOO_BIG' : !(fault instanceof RedstalkError));
}

/** Whether another attempt can succeed; else it was refused for good. */
function isPassing(error: unknown): boolean {
  return isPassingReply(error) || error instanceof UnavailableError || error instanceof UnknownOutcomeError;
}
