import { Batch, batchStats, BatchStats, listBatches } from './batch.js';
import { BuryOptions, buryText, checkpoints, Commands, Job, job, KickOptions, kickWord, receipt, ReleaseOptions, releaseText, TouchOptions, touchTags } from './commands.js';
import { End, EndedJob, need as results, toEndedJob, Waits } from './ended.js';
import type { ConnectionOptions } from './options.js';
import type { Need, Receipt } from './put.js';
import { need as schedules, Schedule, ScheduleOptions, setSchedule, toSchedule } from './schedule.js';
import { check, duration, Duration, Page, pageText, parseList, parsePage, parseStats, quote, Stats, whole, word } from './text.js';

/** A state of jobs. */
export type State = 'ready' | 'delayed' | 'reserved' | 'buried';

/** Tags of a policy or of a group, as the server calls them: `{ retry: '10s,1m', dead: 'mails-failed' }`. */
export type Tags = Record<string, string | number>;

const lease: Need = ['lease', 'leases'];
const policy: Need = ['policy', 'policies'];
const groups: Need = ['groups', 'groups'];
const keys: Need = ['put-tags', 'keys'];

/** A client of beanstalkd and redstalk: one connection, which pipelines commands and reconnects. */
export class Client extends Commands {
  private readonly waits: Waits;

  constructor(options: ConnectionOptions = {}) {
    super(options);
    this.waits = new Waits(options);
  }

  override quit(): Promise<void> {
    this.waits.close();
    return super.quit();
  }

  /** What the server can do beyond beanstalkd; asked once for each connection. */
  capabilities(): Promise<ReadonlySet<string>> {
    return this.connection.features();
  }

  /** Reserves a job with a lease, or throws TimedOutError after so many seconds. The lease outlives the connection. */
  async reserveLease(seconds: number): Promise<Job> {
    const line = `reserve-lease ${whole(seconds, 'seconds')} info`;
    const needs: Need[] = [lease, ['info', 'the info of a reserve']];
    const reply = await this.connection.send({ line, ok: ['LEASED'], needs, waits: seconds * 1000, safe: true });
    return job(reply.jobs![0]!);
  }

  /** Reserves up to `count` jobs with their info, and waits so many seconds for the first one. */
  async reserveBatch(count: number, options: { seconds?: number; lease?: boolean } = {}): Promise<Job[]> {
    check(options, { seconds: true, lease: true }, 'a reserve');
    const { seconds = 0 } = options;
    const line = `reserve-batch ${whole(count, 'count')} ${whole(seconds, 'seconds')}${options.lease ? ' lease' : ''} info`;
    const needs: Need[] = [['batch', 'reserve-batch'], ['info', 'the info of a reserve']];
    if (options.lease) needs.push(lease);
    const reply = await this.connection.send({ line, ok: ['RESERVED_BATCH'], needs, waits: seconds * 1000, safe: true });
    return (reply.jobs ?? []).map(job);
  }

  /** Deletes up to 1,000 jobs; resolves to how many were deleted, and how many were missing. */
  async deleteBatch(ids: string[]): Promise<{ deleted: number; missing: number }> {
    const line = `delete-batch ${ids.map(id => whole(id, 'id')).join(' ')}`;
    const { words } = await this.run(line, 'DELETED_BATCH', ['batch', 'delete-batch']);
    return { deleted: Number(words[1]), missing: Number(words[2]) };
  }

  async deleteLease(id: string, token: string): Promise<void> {
    await this.run(`delete-lease ${whole(id, 'id')} ${whole(token, 'lease')}`, 'DELETED', lease);
  }

  /** Deletes a job that this connection holds, and leaves a result of up to 64 KiB. Throws NotKeptError, and does nothing, if the job has no `keep`. */
  async finish(id: string, result: string | Uint8Array): Promise<void> {
    const body = Buffer.from(result);
    await this.run(`finish ${whole(id, 'id')} ${body.length}`, 'FINISHED', results, { body });
  }

  /** The same for a job that was reserved with a lease. */
  async finishLease(id: string, token: string, result: string | Uint8Array): Promise<void> {
    const body = Buffer.from(result);
    await this.run(`finish-lease ${whole(id, 'id')} ${whole(token, 'lease')} ${body.length}`, 'FINISHED', results, { body });
  }

  /**
   * Waits until a job with `keep` has ended, for as long as it takes, or throws TimedOutError after so many seconds; 0 only asks. Any number of
   * calls can wait: they have some connections of their own.
   */
  async wait(id: string, options: { timeout?: number } = {}): Promise<End> {
    check(options, { timeout: true }, 'a wait');
    return this.waits.wait(whole(id, 'id'), (options.timeout ?? Infinity) * 1000);
  }

  /** A page of the records of ended jobs of a tube or of `batch:NAME`, the newest first. */
  async ended(of: string, options: { count?: number; cursor?: string } = {}): Promise<{ next: string; jobs: EndedJob[] }> {
    const { next, entries } = parsePage((await this.read(`list-ended ${word(of, 'tube')}${pageText(options)}`, 'OK', results)).body);
    return { next, jobs: entries.map(toEndedJob) };
  }

  /** The record of a job that has ended. */
  async statsEnded(id: string): Promise<EndedJob> {
    return toEndedJob(parseStats((await this.read(`stats-ended ${whole(id, 'id')}`, 'OK', results)).body));
  }

  async touchLease(id: string, token: string, options: TouchOptions = {}): Promise<void> {
    const [tags, needs] = touchTags(options);
    const line = `touch-lease ${whole(id, 'id')} ${whole(token, 'lease')}${tags}`;
    await this.connection.send({ line, ok: ['TOUCHED'], needs: [lease, ...needs], safe: true });
  }

  /** Saves up to 64 KiB for the next delivery of a job that this connection holds, instead of what was saved before, and restarts its TTR. Empty removes it. */
  async checkpoint(id: string, value: string | Uint8Array): Promise<void> {
    const body = Buffer.from(value);
    await this.run(`checkpoint ${whole(id, 'id')} ${body.length}`, 'SAVED', checkpoints, { body, safe: true });
  }

  /** The same for a job that was reserved with a lease. */
  async checkpointLease(id: string, token: string, value: string | Uint8Array): Promise<void> {
    const body = Buffer.from(value);
    await this.run(`checkpoint-lease ${whole(id, 'id')} ${whole(token, 'lease')} ${body.length}`, 'SAVED', checkpoints, { body, safe: true });
  }

  /** The last checkpoint of a job, or throws NotFoundError. */
  async getCheckpoint(id: string): Promise<Buffer> {
    return (await this.read(`get-checkpoint ${whole(id, 'id')}`, 'OK', checkpoints)).body!;
  }

  async releaseLease(id: string, token: string, options: ReleaseOptions = {}): Promise<void> {
    const [text, needs] = releaseText(options);
    const line = `release-lease ${whole(id, 'id')} ${whole(token, 'lease')} ${text}`;
    await this.connection.send({ line, ok: ['RELEASED', 'BURIED'], needs: [lease, ...needs] });
  }

  async buryLease(id: string, token: string, options: BuryOptions = {}): Promise<void> {
    const [text, needs] = buryText(options);
    const line = `bury-lease ${whole(id, 'id')} ${whole(token, 'lease')} ${text}`;
    await this.connection.send({ line, ok: ['BURIED'], needs: [lease, ...needs] });
  }

  /** The job that has a key in a tube. */
  async find(tube: string, key: string): Promise<Job> {
    const { words, body } = await this.read(`find ${word(tube, 'tube')} ${word(key, 'key')}`, 'FOUND', keys);
    return job({ id: words[1]!, body: body! });
  }

  /** Deletes the job that has a key, even if it is reserved. */
  async deleteKey(tube: string, key: string): Promise<void> {
    await this.run(`delete-key ${word(tube, 'tube')} ${word(key, 'key')}`, 'DELETED', keys);
  }

  /** Sets the policy of a tube or `prefix*`; without tags deletes it. */
  async setPolicy(tube: string, tags: Tags = {}): Promise<void> {
    await this.read(`set-policy ${word(tube, 'tube')}${tagText(tags)}`, 'SET', policy);
  }

  async getPolicy(tube: string): Promise<Stats> {
    return parseStats((await this.read(`get-policy ${word(tube, 'tube')}`, 'OK', policy)).body);
  }

  async listPolicies(): Promise<string[]> {
    return parseList((await this.read('list-policies', 'OK', policy)).body);
  }

  /** Sets limits and the weight of a group; without tags deletes them. */
  async setGroup(tube: string, group: string, tags: Tags = {}): Promise<void> {
    await this.read(`set-group ${word(tube, 'tube')} ${quote(group)}${tagText(tags)}`, 'SET', groups);
  }

  async getGroup(tube: string, group: string): Promise<Stats> {
    return parseStats((await this.read(`get-group ${word(tube, 'tube')} ${quote(group)}`, 'OK', groups)).body);
  }

  async statsGroup(tube: string, group: string): Promise<Stats> {
    return parseStats((await this.read(`stats-group ${word(tube, 'tube')} ${quote(group)}`, 'OK', groups)).body);
  }

  async listGroups(tube: string, options: { count?: number; cursor?: string } = {}): Promise<Page> {
    return parsePage((await this.read(`list-groups ${word(tube, 'tube')}${pageText(options)}`, 'OK', groups)).body);
  }

  /** No job of the group is reserved for so many seconds; 0 ends that. */
  async pauseGroup(tube: string, group: string, seconds: number): Promise<void> {
    await this.read(`pause-group ${word(tube, 'tube')} ${quote(group)} ${whole(seconds, 'seconds')}`, 'PAUSED', groups);
  }

  /** Deletes the ready, delayed and buried jobs of a group; resolves to their number. */
  async flushGroup(tube: string, group: string): Promise<number> {
    const { words } = await this.run(`flush-group ${word(tube, 'tube')} ${quote(group)}`, 'FLUSHED', groups);
    return Number(words[1]);
  }

  /** A page of the jobs of a tube, in delivery order. */
  async listJobs(tube: string, state: State, options: { count?: number; cursor?: string } = {}): Promise<Page> {
    const line = `list-jobs ${word(tube, 'tube')} ${state}${pageText(options)}`;
    return parsePage((await this.read(line, 'OK', ['list-jobs', 'list-jobs'])).body);
  }

  /** Deletes the ready, delayed and buried jobs of a tube, or those in a state; resolves to their number. */
  async flushTube(tube: string, state?: State): Promise<number> {
    const line = `flush-tube ${word(tube, 'tube')}${state ? ` ${state}` : ''}`;
    return Number((await this.run(line, 'FLUSHED', ['flush', 'flush-tube'])).words[1]);
  }

  /** Moves the first jobs in a state to another tube; resolves to their number. */
  async moveJobs(from: string, state: State, to: string, count: number): Promise<number> {
    const line = `move-jobs ${word(from, 'tube')} ${state} ${word(to, 'tube')} ${whole(count, 'count')}`;
    return Number((await this.run(line, 'MOVED', ['move', 'move-jobs'])).words[1]);
  }

  /** Gives a job another chance that has failed for good. */
  async replayJob(id: string, options: KickOptions = {}): Promise<void> {
    const [end, needs] = kickWord(options);
    await this.connection.send({ line: `replay-job ${whole(id, 'id')}${end}`, ok: ['REPLAYED'], needs: [['replay', 'replay-job'], ...needs] });
  }

  /** A batch: a set of jobs after which other jobs run. Nothing is sent. */
  batch(name: string): Batch {
    return new Batch(name, this, command => this.connection.send(command));
  }

  /** A page of the batches, by name. */
  async listBatches(options: { count?: number; cursor?: string } = {}): Promise<{ next: string; batches: BatchStats[] }> {
    const { next, entries } = parsePage((await this.connection.send(listBatches(options))).body);
    return { next, batches: entries.map(entry => batchStats(entry)) };
  }

  /** Creates a schedule, or replaces the one with that name. While its times stay the same it goes on as before. */
  async setSchedule(name: string, tube: string, payload: string | Uint8Array, options: ScheduleOptions): Promise<void> {
    await this.connection.send(setSchedule(name, tube, Buffer.from(payload), options));
  }

  async getSchedule(name: string): Promise<Schedule> {
    return toSchedule(parseStats((await this.read(`get-schedule ${word(name, 'schedule')}`, 'OK', schedules)).body));
  }

  /** A page of the schedules, by name. */
  async listSchedules(options: { count?: number; cursor?: string } = {}): Promise<{ next: string; schedules: Schedule[] }> {
    const { next, entries } = parsePage((await this.read(`list-schedules${pageText(options)}`, 'OK', schedules)).body);
    return { next, schedules: entries.map(toSchedule) };
  }

  /** Deletes a schedule. Its jobs stay. */
  async deleteSchedule(name: string): Promise<void> {
    await this.run(`delete-schedule ${word(name, 'schedule')}`, 'DELETED', schedules);
  }

  async pauseSchedule(name: string): Promise<void> {
    await this.read(`pause-schedule ${word(name, 'schedule')}`, 'PAUSED', schedules);
  }

  /** Starts a paused schedule again. Times that have passed meanwhile are skipped. */
  async resumeSchedule(name: string): Promise<void> {
    await this.read(`resume-schedule ${word(name, 'schedule')}`, 'RESUMED', schedules);
  }

  /** Puts a job of a schedule now. */
  async runSchedule(name: string): Promise<Receipt> {
    return receipt(await this.run(`run-schedule ${word(name, 'schedule')}`, 'INSERTED', schedules));
  }

  /** The next times of a schedule. */
  previewSchedule(name: string, count = 10): Promise<Date[]> {
    return this.times(`${word(name, 'schedule')} ${whole(count, 'count')}`);
  }

  /** The next times of a cron expression. */
  previewCron(cron: string, count = 10, tz = 'UTC'): Promise<Date[]> {
    return this.times(`${quote(cron)} ${whole(count, 'count')} tz:${word(tz, 'tz')}`);
  }

  private async times(what: string): Promise<Date[]> {
    return parseList((await this.read(`preview-schedule ${what}`, 'OK', schedules)).body).map(time => new Date(time));
  }

  /** Makes a ready or delayed job due after a duration. */
  async reschedule(id: string, after: Duration): Promise<void> {
    await this.run(`reschedule ${whole(id, 'id')} ${duration(after, 'after')}`, 'RESCHEDULED', ['list-jobs', 'reschedule']);
  }
}

function tagText(tags: Tags): string {
  return Object.entries(tags).map(([name, value]) => ` ${word(name, 'tag')}:${word(String(value), name)}`).join('');
}
