import { Connection, Command } from './connection.js';
import { DrainingError, UnavailableError } from './errors.js';
import type { ConnectionOptions } from './options.js';
import { defaultPriority, Need, putLine, PutOptions, Receipt } from './put.js';
import type { RawJob, Reply } from './reply.js';
import { check, cut, Names, parseList, parseStats, quote, Stats, whole, word } from './text.js';

/** A job as the server sent it. */
export interface Job {
  id: string;
  body: Buffer;
  /** The body as text. */
  payload: string;
  /** The lease, if it was reserved with one. It grows with each delivery, so it is a fencing token too. */
  lease?: string;
  /** What the server knows about the job, where it was asked for. */
  info?: JobInfo;
}

/** What comes with a job that was reserved with `info`. Empty if the reservation has ended. */
export interface JobInfo {
  tube?: string;
  pri?: number;
  /** Seconds. */
  ttr?: number;
  age?: number;
  deliveries?: number;
  failures?: number;
  key?: string;
  retry?: string;
  /** How long its record is kept after its end. */
  keep?: string;
  meta?: Record<string, string>;
  trace?: string;
  group?: string;
  batch?: string;
  /** Why it last failed. */
  reason?: string;
  /** The length of the last checkpoint, and itself in base64. If only the length is there, ask with getCheckpoint. */
  'checkpoint-bytes'?: number;
  checkpoint?: string;
}

/** Options of a touch. */
export interface TouchOptions {
  /** How far the job is: at most 256 bytes, which the server shows until the job is reserved again. */
  progress?: string;
}

/** Options of what makes a job begin anew. */
export interface KickOptions {
  /** The job begins with its last checkpoint. Without, that is dropped. */
  keepCheckpoint?: boolean;
}

/** Options of a release. Delay in whole seconds; the other ones need a redstalk. */
export interface ReleaseOptions {
  priority?: number;
  delay?: number;
  /** Why the job failed; at most 512 bytes are kept. */
  reason?: string;
  /** False: the job has not failed, and the delivery does not count. */
  failure?: boolean;
}

/** Options of a bury. */
export type BuryOptions = Pick<ReleaseOptions, 'priority' | 'reason'>;

const releaseNames: Names<ReleaseOptions> = { priority: true, delay: true, reason: true, failure: true };
const buryNames: Names<BuryOptions> = { priority: true, reason: true };

/** The commands of beanstalkd. Ids are text, for they can exceed a number. */
export class Commands {
  protected readonly connection: Connection;
  private used = 'default';
  private elsewhere?: Connection[];

  constructor(options: ConnectionOptions = {}) {
    this.connection = new Connection(options);
  }

  /** Whether there is a connection at the moment. */
  get connected(): boolean {
    return this.connection.connected;
  }

  /** How many connections there have been: another number says that the server can be another one. */
  get connections(): number {
    return this.connection.connections;
  }

  /** Why there was no connection the last time, if that is known. */
  get trouble(): Error | undefined {
    return this.connection.trouble;
  }

  /** Puts a job. Throws UnknownOutcomeError if the connection is lost and the put has no `key` and `keyTtl`. */
  async put(payload: string | Uint8Array, options: PutOptions = {}): Promise<Receipt> {
    const body = typeof payload === 'string' ? Buffer.from(payload) : payload;
    if (!ArrayBuffer.isView(body)) throw new TypeError(`a body is text or bytes, not ${typeof payload}`);
    const tube = word(options.tube ?? this.used, 'tube');
    return receipt(await this.sendPut({ ...putLine(body.length, options), body, tube, ok: ['INSERTED'] }));
  }

  /** Sends a put, and if the server drains, over other connections. These are not the first one, as leases and reserved jobs are with the first. */
  private async sendPut(command: Command): Promise<Reply> {
    try {
      return await this.connection.send(command);
    } catch (error) {
      if (!(error instanceof DrainingError)) throw error;
      for (const other of this.elsewhere ??= this.connection.others()) {
        try {
          return await other.send(command);
        } catch (refusal) {
          if (!(refusal instanceof DrainingError || refusal instanceof UnavailableError)) throw refusal;
        }
      }
      throw error;
    }
  }

  /** Chooses the tube of puts, peeks and kicks. It is sent with the next of them. */
  async use(tube: string): Promise<string> {
    return (this.used = word(tube, 'tube'));
  }

  /** Waits for a job, for as long as it takes. Everything that this client sends afterwards waits as well. */
  async reserve(): Promise<Job> {
    return toJob(await this.connection.send({ line: 'reserve', ok: ['RESERVED'], safe: true, waits: Infinity }));
  }

  /** Waits so many seconds for a job, else throws TimedOutError. */
  async reserveWithTimeout(seconds: number): Promise<Job> {
    const line = `reserve-with-timeout ${whole(seconds, 'seconds')}`;
    return toJob(await this.connection.send({ line, ok: ['RESERVED'], safe: true, waits: seconds * 1000 }));
  }

  async reserveJob(id: string): Promise<Job> {
    return toJob(await this.run(`reserve-job ${whole(id, 'id')}`, 'RESERVED'));
  }

  async delete(id: string): Promise<void> {
    await this.run(`delete ${whole(id, 'id')}`, 'DELETED');
  }

  /** Gives a reserved job back. Resolves to `BURIED` if the server had no memory for it. */
  async release(id: string, options: ReleaseOptions = {}): Promise<'RELEASED' | 'BURIED'> {
    const [text, needs] = releaseText(options);
    const line = `release ${whole(id, 'id')} ${text}`;
    const { words } = await this.connection.send({ line, ok: ['RELEASED', 'BURIED'], needs });
    return words[0] as 'RELEASED' | 'BURIED';
  }

  async bury(id: string, options: BuryOptions = {}): Promise<void> {
    const [text, needs] = buryText(options);
    await this.connection.send({ line: `bury ${whole(id, 'id')} ${text}`, ok: ['BURIED'], needs });
  }

  /** Restarts the TTR of a reserved job. */
  async touch(id: string, options: TouchOptions = {}): Promise<void> {
    const [tags, needs] = touchTags(options);
    await this.connection.send({ line: `touch ${whole(id, 'id')}${tags}`, ok: ['TOUCHED'], needs, safe: true });
  }

  /** Watches a tube, and resolves to the number of watched tubes. A weight from 1 to 1,000 needs a redstalk. */
  async watch(tube: string, weight = 0): Promise<number> {
    const line = `watch ${word(tube, 'tube')}${weight ? ` ${whole(weight, 'weight')}` : ''}`;
    const needs: Need[] = weight ? [['weights', 'weights of tubes']] : [];
    const { words } = await this.connection.send({ line, ok: ['WATCHING'], safe: true, needs });
    this.connection.watched.set(tube, weight || (this.connection.watched.get(tube) ?? 0));
    return Number(words[1]);
  }

  /** Ends watching a tube, and resolves to the number of watched tubes. */
  async ignore(tube: string): Promise<number> {
    const { words } = await this.read(`ignore ${word(tube, 'tube')}`, 'WATCHING');
    this.connection.watched.delete(tube);
    return Number(words[1]);
  }

  /** Makes up to so many buried jobs of the used tube ready, or else delayed ones; resolves to their number. */
  async kick(bound: number, options: KickOptions = {}): Promise<number> {
    const [end, needs] = kickWord(options);
    const { words } = await this.connection.send({ line: `kick ${whole(bound, 'bound')}${end}`, ok: ['KICKED'], tube: this.used, needs });
    return Number(words[1]);
  }

  async kickJob(id: string, options: KickOptions = {}): Promise<void> {
    const [end, needs] = kickWord(options);
    await this.connection.send({ line: `kick-job ${whole(id, 'id')}${end}`, ok: ['KICKED'], needs });
  }

  async peek(id: string): Promise<Job> {
    return toJob(await this.read(`peek ${whole(id, 'id')}`, 'FOUND'));
  }

  async peekReady(): Promise<Job> {
    return this.peekState('ready');
  }

  async peekDelayed(): Promise<Job> {
    return this.peekState('delayed');
  }

  async peekBuried(): Promise<Job> {
    return this.peekState('buried');
  }

  private async peekState(state: string): Promise<Job> {
    return toJob(await this.connection.send({ line: `peek-${state}`, ok: ['FOUND'], tube: this.used, safe: true }));
  }

  async stats(): Promise<Stats> {
    return parseStats((await this.read('stats')).body);
  }

  async statsJob(id: string): Promise<Stats> {
    return parseStats((await this.read(`stats-job ${whole(id, 'id')}`)).body);
  }

  async statsTube(tube: string): Promise<Stats> {
    return parseStats((await this.read(`stats-tube ${word(tube, 'tube')}`)).body);
  }

  async listTubes(): Promise<string[]> {
    return parseList((await this.read('list-tubes')).body);
  }

  async listTubeUsed(): Promise<string> {
    return this.used;
  }

  async listTubesWatched(): Promise<string[]> {
    return parseList((await this.read('list-tubes-watched')).body);
  }

  /** No job of the tube is reserved for so many seconds; 0 ends that. */
  async pauseTube(tube: string, { delay }: { delay: number }): Promise<void> {
    await this.read(`pause-tube ${word(tube, 'tube')} ${whole(delay, 'delay')}`, 'PAUSED');
  }

  /** Closes the connection at once. Commands without a reply fail with ClosedError; reserved jobs without a lease are ready again. */
  async quit(): Promise<void> {
    for (const connection of [this.connection, ...(this.elsewhere ?? [])]) connection.close();
  }

  /** The same as quit. */
  close(): Promise<void> {
    return this.quit();
  }

  /** The same as quit. Where Node has no such symbol, before 18.18, it is never called. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.quit();
  }

  /** Sends a command that changes something, so that it is not repeated. */
  protected run(line: string, ok: string, feature?: Need, more: Partial<Command> = {}): Promise<Reply> {
    return this.connection.send({ line, ok: [ok], needs: feature && [feature], ...more });
  }

  /** Sends a command that can be repeated. */
  protected read(line: string, ok = 'OK', feature?: Need): Promise<Reply> {
    return this.run(line, ok, feature, { safe: true });
  }
}

/** What a put did, by its reply. */
export function receipt({ words }: Reply): Receipt {
  return words[2] ? { id: words[1]!, state: words[2] } : { id: words[1]! };
}

/** The end of the line of a release, and what it needs. */
export function releaseText(options: ReleaseOptions): [string, Need[]] {
  check(options, releaseNames, 'a release');
  const [tags, needs] = outcomeTags(options);
  return [`${whole(options.priority ?? defaultPriority, 'priority')} ${whole(options.delay ?? 0, 'delay')}${tags}`, needs];
}

/** The end of the line of a bury, and what it needs. */
export function buryText(options: BuryOptions): [string, Need[]] {
  check(options, buryNames, 'a bury');
  const [tags, needs] = outcomeTags(options);
  return [whole(options.priority ?? defaultPriority, 'priority') + tags, needs];
}

function outcomeTags(options: { reason?: string; failure?: boolean }): [string, Need[]] {
  let tags = options.reason === undefined ? '' : ` reason:${quote(cut(options.reason, 512))}`;
  if (options.failure === false) tags += ' failure:no';
  return [tags, tags ? [['reason', options.failure === false ? 'a release that is no failure' : 'reasons']] : []];
}

/** The tags of a touch, and what they need. */
export function touchTags(options: TouchOptions): [string, Need[]] {
  check(options, { progress: true }, 'a touch');
  const { progress } = options;
  return progress === undefined ? ['', []] : [` progress:${quote(progress)}`, [['progress', 'the progress of jobs']]];
}

export const checkpoints: Need = ['checkpoint', 'checkpoints'];

/** The last word of a kick or replay, and what it needs. */
export function kickWord(options: KickOptions): [string, Need[]] {
  check(options, { keepCheckpoint: true }, 'a kick');
  return options.keepCheckpoint ? [' keep-checkpoint', [checkpoints]] : ['', []];
}

function toJob(reply: Reply): Job {
  return job(reply.jobs?.[0] ?? { id: reply.words[1] ?? '', body: reply.body ?? Buffer.alloc(0) });
}

/** The job of a reply. */
export function job(raw: RawJob): Job {
  const { info, ...rest } = raw;
  const result = { ...rest, ...(info === undefined ? {} : { info: JSON.parse(info) as JobInfo }) };
  return Object.defineProperty(result, 'payload', { get: () => raw.body.toString(), enumerable: false }) as Job;
}

