import type { Command } from './connection.js';
import { defaultPriority, defaultTtr, Need, PutOptions, tagsOf } from './put.js';
import { check, duration, Duration, Names, quote, Value, whole, word } from './text.js';

/** The times of a schedule, and the options of its jobs. It has either `cron` or `every`. */
export interface ScheduleOptions extends Omit<PutOptions, 'tube' | 'at' | 'onDuplicate'> {
  /** Such as `30 2 * * 1-5`, or `@daily`. */
  cron?: string;
  /** From one job to the next, at least a second. */
  every?: Duration;
  /** The time zone of `cron`, such as `Europe/Berlin`; UTC by default. */
  tz?: string;
  /** The first and the last possible time: a Date, or milliseconds since 1970. */
  from?: Date | number;
  until?: Date | number;
  /** Each job is put later by a part of this, so that not all schedules put at once. The server calls it jitter. */
  spread?: Duration;
  /** What happens if the job before is still there; 'skip' by default. */
  overlap?: 'skip' | 'replace' | 'allow' | 'buffer-one';
  /** How late a missed job can be put. */
  catchUp?: Duration;
  /** How many missed jobs are put; by default the latest. */
  catchUpAll?: number;
}

/** A schedule on the server. Times that it has not got are undefined. */
export interface Schedule {
  name: string;
  tube: string;
  cron?: string;
  every?: string;
  tz?: string;
  paused: boolean;
  /** The next time. */
  next?: Date;
  /** When its job was put last, and that job. */
  lastPut?: Date;
  lastId?: string;
  /** How many jobs were put; and how many were not, by reason. */
  put: number;
  overlapped: number;
  refused: number;
  missed: number;
  stopped: number;
}

export const need: Need = ['schedules', 'schedules'];

const names: Names<ScheduleOptions> = {
  cron: true, every: true, tz: true, from: true, until: true, spread: true, overlap: true, catchUp: true, catchUpAll: true,
  priority: true, delay: true, ttr: true, key: true, keyTtl: true, retry: true, jitter: true, max: true, dead: true,
  expire: true, onExpire: true, keep: true, meta: true, trace: true, group: true, batch: true, after: true, afterAll: true, batchTtl: true,
};

/** The command that sets a schedule. To repeat it does no harm. */
export function setSchedule(name: string, tube: string, body: Uint8Array, o: ScheduleOptions): Command {
  check(o, names, 'a schedule');
  const tags: [name: string, value: string][] = [];
  const add = <T>(tag: string, value: T | undefined, text: (value: T) => string) => {
    if (value !== undefined) tags.push([tag, text(value)]);
  };
  add('cron', o.cron, quote);
  add('every', o.every, d => duration(d, 'every'));
  add('tz', o.tz, zone => word(zone, 'tz'));
  add('from', o.from, time => whole(Number(time), 'from'));
  add('until', o.until, time => whole(Number(time), 'until'));
  add('jitter', o.spread, d => duration(d, 'spread'));
  add('overlap', o.overlap, s => word(s, 'overlap'));
  add('catch-up', o.catchUp, d => duration(d, 'catchUp'));
  add('catch-up-all', o.catchUpAll, n => whole(n, 'catchUpAll'));
  add('delay', o.delay || undefined, d => duration(d, 'delay'));
  const jobTags = tagsOf({ ...o, delay: undefined });
  const needs = jobTags.map(([tag, , capability]): Need => [capability, `the option ${tag} of a schedule`]);
  const all = [...tags, ...jobTags].map(([tag, value]) => ` ${tag}:${value}`).join('');
  const numbers = `${whole(o.priority ?? defaultPriority, 'priority')} ${whole(o.ttr ?? defaultTtr, 'ttr')} ${body.length}`;
  const line = `set-schedule ${word(name, 'schedule')} ${word(tube, 'tube')} ${numbers}${all}`;
  return { line, body, ok: ['SET'], needs: [need, ...needs], safe: true };
}

/** A schedule by the values that the server sent. */
export function toSchedule(values: Record<string, Value>): Schedule {
  const text = (name: string) => (values[name] === undefined ? undefined : String(values[name]));
  const count = (name: string) => Number(values[name] ?? 0);
  const time = (name: string) => (count(name) ? new Date(count(name)) : undefined);
  return {
    name: String(values['name']), tube: String(values['tube']), cron: text('cron'), every: text('every'), tz: text('tz'),
    paused: values['paused'] === 'true', next: time('next-ms'), lastPut: time('last-put-ms'), lastId: count('last-id') ? text('last-id') : undefined,
    put: count('put'), overlapped: count('overlapped'), refused: count('refused'), missed: count('missed'), stopped: count('stopped'),
  };
}
