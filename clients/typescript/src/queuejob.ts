import type { Client } from './client.js';
import type { End } from './ended.js';
import { JobFailedError, NotFoundError } from './errors.js';
import type { Receipt } from './put.js';

/** A job that a queue has added. */
export class QueueJob<T = unknown, R = any> {
  /** The id that the server gave. */
  readonly id: string;
  /** The state of the job that already has this jobId; then `id` is that job, and nothing was added. */
  readonly state?: string;
  /** What its processor has returned, and why it has failed: set by waitUntilFinished. */
  returnvalue?: R;
  failedReason?: string;
  readonly #client: Client;

  constructor(client: Client, receipt: Receipt, readonly name: string, readonly data: T) {
    this.#client = client;
    this.id = receipt.id;
    this.state = receipt.state;
  }

  /**
   * Resolves to what the processor has returned, or throws JobFailedError with the reason. It throws TimedOutError after `ttl`
   * milliseconds, NotKeptError if the job has neither `keep` nor `removeOnComplete`, and NotFoundError if its record is gone. The wait goes
   * over the connections of `queue`; by default of the queue that has added the job.
   */
  async waitUntilFinished(queue?: { client: Client } | null, ttl?: number): Promise<R> {
    const client = queue?.client ?? this.#client;
    const end = await client.wait(this.id, { timeout: ttl === undefined ? undefined : ttl / 1000 });
    if (end.how === 'done') return (this.returnvalue = valueOf(end));
    this.failedReason = await reasonOf(client, end);
    throw new JobFailedError(this.failedReason, end.how);
  }
}

/** The value of a result. What is no JSON is text, and what is empty undefined. */
function valueOf({ payload }: End): any {
  try {
    return payload === '' ? undefined : JSON.parse(payload);
  } catch {
    return payload;
  }
}

async function reasonOf(client: Client, { id, how, payload }: End): Promise<string> {
  if (how === 'parked') return payload;
  if (how === 'moved') return `the job was moved: ${payload}`;
  if (how !== 'dead') return how === 'expired' ? 'the job has expired' : 'the job was deleted';
  const record = await client.statsEnded(id).catch(error => {
    if (!(error instanceof NotFoundError)) throw error;
  });
  return record?.reason ?? `the job is dead: ${payload}`;
}
