import type { Commands } from './commands.js';
import type { Command } from './connection.js';
import type { Need, PutOptions, Receipt } from './put.js';
import type { Reply } from './reply.js';
import { Page, pageText, parsePage, parseStats, word } from './text.js';

/** A job that runs after a batch. */
export interface AfterJob {
  id: string;
  tube: string;
  state: string;
  /** It was put by afterAll. */
  all: boolean;
}

/** The state of a batch and the counts of its members. */
export interface BatchStats {
  name: string;
  state: 'open' | 'sealed' | 'failing' | 'done' | 'failed' | 'unsealed' | 'cyclic';
  sealed: boolean;
  total: number;
  pending: number;
  parked: number;
  done: number;
  gone: number;
  /** The first 100 jobs after it; none in a list of batches. */
  after: AfterJob[];
}

const need: Need = ['batches', 'batches'];

/** A set of jobs after which other jobs run, as `client.batch(name)` returns it. The first command creates it on the server. */
export class Batch {
  constructor(readonly name: string, private readonly client: Pick<Commands, 'put'>, private readonly send: (command: Command) => Promise<Reply>) {
    word(name, 'batch');
  }

  /** Puts a member. After seal it throws BatchSealedError. */
  add(payload: string | Uint8Array, options: PutOptions = {}): Promise<Receipt> {
    return this.client.put(payload, { ...options, batch: this.name });
  }

  /** Puts a job that runs when the batch is sealed and all members are deleted. Once that is impossible it is buried. */
  after(payload: string | Uint8Array, options: PutOptions = {}): Promise<Receipt> {
    return this.client.put(payload, { ...options, after: this.name });
  }

  /** Puts a job that runs when the batch is sealed and all members have ended, however they did. */
  afterAll(payload: string | Uint8Array, options: PutOptions = {}): Promise<Receipt> {
    return this.client.put(payload, { ...options, afterAll: this.name });
  }

  /** Says that no more members come. The jobs after the batch do not run before. */
  async seal(): Promise<void> {
    await this.send({ line: `seal-batch ${this.name}`, ok: ['SEALED'], needs: [need], safe: true });
  }

  async stats(): Promise<BatchStats> {
    const { body } = await this.send({ line: `stats-batch ${this.name}`, ok: ['OK'], needs: [need], safe: true });
    return batchStats(parseStats(body), parsePage(body).entries);
  }

  /** A page of the members that exist, in no order. It can be empty before the last one. */
  async members(options: { count?: number; cursor?: string } = {}): Promise<Page> {
    return parsePage((await this.send({ line: `list-members ${this.name}${pageText(options)}`, ok: ['OK'], needs: [need], safe: true })).body);
  }

  /** Seals the batch and deletes the members that are not reserved; resolves to their number. */
  async cancel(): Promise<number> {
    return Number((await this.send({ line: `cancel-batch ${this.name}`, ok: ['CANCELLED'], needs: [need] })).words[1]);
  }
}

/** The command for a page of batches. */
export function listBatches(options: { count?: number; cursor?: string }): Command {
  return { line: `list-batches${pageText(options)}`, ok: ['OK'], needs: [need], safe: true };
}

/** A batch by the values that the server sent. */
export function batchStats(values: Record<string, unknown>, after: Record<string, unknown>[] = []): BatchStats {
  const count = (name: string) => Number(values[name] ?? 0);
  return {
    name: String(values['name']), state: String(values['state']) as BatchStats['state'], sealed: values['sealed'] === 'true',
    total: count('total'), pending: count('pending'), parked: count('parked'), done: count('done'), gone: count('gone'),
    after: after.map(job => ({ id: String(job['id']), tube: String(job['tube']), state: String(job['state']), all: job['all'] === 'true' })),
  };
}
