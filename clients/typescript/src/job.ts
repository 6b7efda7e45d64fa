import type { JobInfo } from './commands.js';
import { open } from './envelope.js';
import { childrenValues } from './flow.js';
import type { Lease } from './lease.js';
import { messageOf, toError } from './usercode.js';

/** How far a processor is: a number is per cent, and any other value but a text is shown as JSON. It has at most 256 bytes. */
export type Progress = string | number | boolean | object;

/** A job as a processor sees it. */
export interface Job<T = any> {
  /** The id that the server gave. */
  id: string;
  name: string;
  data: T;
  queueName: string;
  /** What the server knows about the job: its key, meta, trace, group, batch, reason of the last failure, and so on. Empty on beanstalkd. */
  info: JobInfo;
  /** How often the job has failed before; in the events `completed` and `failed`, with this attempt. */
  attemptsMade: number;
  /** What a service can compare to refuse a worker that comes too late: it grows with each delivery. Empty on beanstalkd. */
  token: string;
  /**
   * Aborted when the job is no longer held, so that the result is dropped, or when the time of the processor is over. Its `reason` is a JobLostError, a
   * JobDeletedError or a JobTimeoutError.
   */
  signal: AbortSignal;
  /** Aborted when the worker closes. The job is held on: a processor can save a checkpoint, and throw a NotFinishedError. */
  readonly stopping: AbortSignal;
  /** What the children of a job of a FlowProducer have returned, by their ids; without those that have failed. */
  getChildrenValues<V = any>(): Promise<Record<string, V>>;
  /** In the event `completed`, what the processor has returned. */
  returnvalue?: any;
  /**
   * Saves a value as JSON, at most 64 KiB, instead of the one before; undefined removes it. When it resolves, the server has it as safe as a job, and the next
   * attempt begins with it. It rejects with the reason of the signal if the job is no longer held, and with an UnsupportedError if the server has no
   * checkpoints. After a ServerError with the code `JOB_TOO_BIG` or `OUT_OF_MEMORY` the one before is still there.
   */
  checkpoint(value: unknown): Promise<void>;
  /** What was saved last, in this attempt or one before; undefined if there is nothing. */
  lastCheckpoint<V = any>(): V | undefined;
  /**
   * Shows how far the processor is, in the server's lists and its console. It is sent about once a second, and the last one always; so it does not wait. It
   * rejects as checkpoint does, and if the progress is too long.
   */
  updateProgress(progress: Progress): Promise<void>;
}

/** The job of a lease. `update` is called with its progress. */
export function toJob<T>(queueName: string, lease: Lease, update: (progress: Progress) => void): Job<T> {
  const { id, lease: token = '' } = lease.job;
  const { name, data } = open(lease.job.payload);
  return {
    id, name, data: data as T, queueName, info: lease.job.info ?? {}, attemptsMade: lease.failures, token, signal: lease.signal,
    get stopping() { return lease.stopping; },
    checkpoint: async value => lease.checkpoint(value === undefined ? '' : toJSON(value, 'checkpoint')),
    lastCheckpoint: () => valueOf(id, lease.saved),
    updateProgress: async progress => update(progress),
    getChildrenValues: () => childrenValues(lease.client, lease.job.info),
  };
}

/** The job after an attempt. Its processor may have frozen it. */
export function tried<T>(job: Job<T>, lease: Lease, returnvalue?: unknown): Job<T> {
  const changes = { attemptsMade: lease.failures + 1, returnvalue };
  return Object.isFrozen(job) ? { ...job, ...changes } : Object.assign(job, changes);
}

/** The longest progress, in bytes. */
const longestProgress = 256;

/** A progress as it is shown; an error if it cannot be. */
export function progressText(progress: Progress): string {
  if (typeof progress === 'number' && !Number.isFinite(progress)) throw new TypeError(`no progress: ${progress}`);
  const text = typeof progress === 'number' ? `${+progress.toFixed(2)} %` : typeof progress === 'string' ? progress : toJSON(progress, 'progress');
  const size = Buffer.byteLength(text);
  if (size > longestProgress) throw new RangeError(`a progress of ${size} bytes: it can have ${longestProgress}`);
  return text;
}

/** The progress that has such a text: the opposite of progressText. */
export function progressOf(text: string): Progress {
  if (/^\d+(\.\d+)? %$/.test(text)) return parseFloat(text);
  try {
    return /^[{[]/.test(text) ? (JSON.parse(text) as object) : text;
  } catch {
    return text;
  }
}

function toJSON(value: unknown, what: string): string {
  const text: string | undefined = JSON.stringify(value);
  if (text === undefined) throw new TypeError(`the ${what} is no JSON: ${String(value)}`);
  return text;
}

/** The value of a checkpoint. One that another client has saved need not be JSON. */
function valueOf(id: string, saved: string): any {
  if (saved === '') return undefined;
  try {
    return JSON.parse(saved);
  } catch (error) {
    throw new TypeError(`the checkpoint of job ${id} is no JSON: ${messageOf(toError(error))}`);
  }
}
