import type { Client } from './client.js';
import type { KickOptions } from './commands.js';
import type { End, EndedJob } from './ended.js';
import { open } from './envelope.js';
import { JobFailedError, NotFoundError, RedstalkError } from './errors.js';
import { Progress, progressOf } from './job.js';
import type { Receipt } from './put.js';
import type { Stats } from './text.js';

/** The state of a job, in the words of BullMQ. It is `unknown` if there is neither the job nor a record of it, and after it was deleted or moved. */
export type JobState = 'waiting' | 'waiting-children' | 'delayed' | 'active' | 'failed' | 'completed' | 'unknown';

/** A job that a queue has added or found. */
export class QueueJob<T = unknown, R = any> {
  /** The id that the server gave. */
  readonly id: string;
  /** The state of the job that already has this jobId; then `id` is that job, and nothing was added. */
  readonly state?: string;
  /** What its processor has returned, and why it has failed: set by waitUntilFinished and getJob. */
  returnvalue?: R;
  failedReason?: string;
  /** How often it has failed, and how far it is: set by getJob. */
  attemptsMade = 0;
  progress?: Progress;
  readonly #client: Client;

  constructor(client: Client, receipt: Receipt, readonly name: string, readonly data: T) {
    this.#client = client;
    this.id = receipt.id;
    this.state = receipt.state;
  }

  /**
   * Resolves to what the processor has returned, or throws JobFailedError with the reason. It throws TimedOutError after `ttl`
   * milliseconds, NotKeptError if the job has neither `keep` nor `removeOnComplete`, and NotFoundError if its record is gone. The wait goes
   * over the connections of a Queue or QueueEvents; by default of the queue that has added the job.
   */
  async waitUntilFinished(queue?: { client: Client } | null, ttl?: number): Promise<R> {
    const client = queue?.client ?? this.#client;
    const end = await client.wait(this.id, { timeout: ttl === undefined ? undefined : ttl / 1000 });
    if (end.how === 'done') return (this.returnvalue = valueOf(end.payload));
    this.failedReason = await reasonOf(client, end);
    throw new JobFailedError(this.failedReason, end.how);
  }

  /** Asks the server for the state. */
  async getState(): Promise<JobState> {
    const found = await lookUp(this.#client, this.id);
    return found.stats ? stateOf(found.stats) : found.record ? endOf(found.record) : 'unknown';
  }

  /** Deletes the job, also with its record kept. Throws NotFoundError if it is gone, or active. */
  remove(): Promise<void> {
    return this.#client.delete(this.id);
  }

  /** Gives the job another chance, which has failed for good. A job in a `dead` tube is another one: `queue.client.replayJob` gives it back. */
  async retry(options: KickOptions = {}): Promise<void> {
    await this.must('failed');
    await this.#client.kickJob(this.id, options);
  }

  /** Makes a delayed job ready. */
  async promote(): Promise<void> {
    await this.must('delayed');
    await this.#client.kickJob(this.id);
  }

  /** Makes a delayed job due after so many milliseconds. */
  async changeDelay(delay: number): Promise<void> {
    await this.must('delayed');
    await this.#client.reschedule(this.id, delay / 1000);
  }

  private async must(wanted: JobState): Promise<void> {
    const state = await this.getState();
    if (state !== wanted) throw new RedstalkError(`job ${this.id} is not ${wanted}: it is ${state}`);
  }
}

/** What the server knows about a job: it has one of both, or nothing. */
interface Found {
  stats?: Stats;
  record?: EndedJob;
}

async function lookUp(client: Client, id: string): Promise<Found> {
  const stats = await client.statsJob(id).catch(missing);
  if (stats) return { stats };
  const results = (await client.capabilities()).has('results');
  return { record: results ? await client.statsEnded(id).catch(missing) : undefined };
}

/** A job of a tube by its id, with all that is known about it; undefined if there is none. */
export async function findJob<T>(client: Client, tube: string, id: string): Promise<QueueJob<T> | undefined> {
  const { stats, record } = await lookUp(client, id);
  if ((stats ?? record)?.tube !== tube) return undefined;
  const payload = stats && (await client.peek(id).catch(missing))?.payload;
  const { name, data } = payload === undefined ? { name: '', data: undefined } : open(payload);
  const job = new QueueJob<T>(client, { id }, name, data as T);
  job.attemptsMade = Number(stats?.['failures'] ?? record?.failures ?? 0);
  if (stats?.['progress'] !== undefined) job.progress = progressOf(String(stats['progress']));
  const reason = stats?.['reason'] ?? (record?.how === 'done' ? undefined : record?.reason);
  if (reason !== undefined) job.failedReason = String(reason);
  if (record?.how === 'done') job.returnvalue = valueOf(record.result?.toString() ?? '');
  return job;
}

function stateOf({ state, held }: Stats): JobState {
  switch (state) {
    case 'ready': return 'waiting';
    case 'reserved': return 'active';
    case 'buried': return 'failed';
    default: return held === 'batch' ? 'waiting-children' : 'delayed';
  }
}

/** The state of a job that has ended. */
export function endOf({ how }: EndedJob): 'completed' | 'failed' | 'unknown' {
  return how === 'done' ? 'completed' : how === 'dead' || how === 'expired' ? 'failed' : 'unknown';
}

/** The value of a result. What is no JSON is text, and what is empty undefined. */
export function valueOf(result: string): any {
  try {
    return result === '' ? undefined : JSON.parse(result);
  } catch {
    return result;
  }
}

async function reasonOf(client: Client, { id, how, payload }: End): Promise<string> {
  if (how === 'parked') return payload;
  if (how === 'moved') return `the job was moved: ${payload}`;
  if (how !== 'dead') return how === 'expired' ? 'the job has expired' : 'the job was deleted';
  const record = await client.statsEnded(id).catch(missing);
  return record?.reason ?? `the job is dead: ${payload}`;
}

/** Stands for what is not there. */
function missing(error: Error): undefined {
  if (!(error instanceof NotFoundError)) throw error;
}
