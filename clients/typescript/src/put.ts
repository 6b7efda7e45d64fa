import { check, duration, Duration, Names, quote, whole, word } from './text.js';

/** Options of a put. All but the first four need a redstalk. */
export interface PutOptions {
  /** The tube; by default that of `use`. */
  tube?: string;
  /** 0 is the most urgent; 1024 by default. */
  priority?: number;
  /** Wait before the job is ready; 0 by default. */
  delay?: Duration;
  /** Time to run, in whole seconds; 60 by default. */
  ttr?: number;
  /** When the job is due, instead of `delay`: a Date, or milliseconds since 1970. */
  at?: Date | number;
  /** At most one job of the tube has this key. */
  key?: string;
  /** How long the key stays taken after the job is gone. With it, a put is repeated if the connection is lost. */
  keyTtl?: Duration;
  /** What to do if the key is taken; 'keep' by default. 'fail' throws DuplicateError. */
  onDuplicate?: 'keep' | 'replace' | 'fail';
  /** Waits after failures: a list, or delays that double from `first` to `longest`. */
  retry?: Duration[] | { first: Duration; longest: Duration; count: number };
  /** By how many per cent each wait is spread. */
  jitter?: number;
  /** The maximum number of deliveries. */
  max?: number;
  /** The tube for jobs that failed for good. */
  dead?: string;
  /** How long after it was due the job is worth doing. */
  expire?: Duration;
  onExpire?: 'delete' | 'park';
  /** How long the record of the job is kept after its end, with the result. */
  keep?: Duration;
  /** For the worker. */
  meta?: Record<string, string>;
  /** A W3C traceparent. */
  trace?: string;
  group?: string;
  /** The batch of which the job is a member; or which must be done, or have ended, before the job runs. */
  batch?: string;
  after?: string;
  afterAll?: string;
  /** How long the batch can stay unsealed; 24 hours by default. */
  batchTtl?: Duration;
}

/** Defaults of a put, the same in all clients. The TTR is in seconds. */
export const defaultPriority = 1024;
export const defaultTtr = 60;

const names: Names<PutOptions> = {
  tube: true, priority: true, delay: true, ttr: true, at: true, key: true, keyTtl: true, onDuplicate: true, retry: true, jitter: true, max: true, dead: true,
  expire: true, onExpire: true, keep: true, meta: true, trace: true, group: true, batch: true, after: true, afterAll: true, batchTtl: true,
};

/** What a put did: `state` is set if another job has the key; then `id` is that job. */
export interface Receipt {
  id: string;
  state?: string;
}

/** A capability, and the feature that needs it. */
export type Need = [capability: string, feature: string];

/** The line of a put, what it needs of the server, and whether it may be repeated. */
export interface PutLine {
  line: string;
  needs: Need[];
  safe: boolean;
}

/** The line of a put of so many bytes. */
export function putLine(bytes: number, o: PutOptions): PutLine {
  check(o, names, 'a put');
  const tags = tagsOf(o);
  const seconds = typeof o.delay === 'number' && Number.isInteger(o.delay) ? o.delay : 0;
  if (o.delay !== undefined && seconds !== o.delay) tags.unshift(['delay', duration(o.delay, 'delay'), 'put-tags']);
  const needs = tags.map(([name, , capability]): Need => [capability, `the put option ${name}`]);
  const numbers = [whole(o.priority ?? defaultPriority, 'priority'), whole(seconds, 'delay'), whole(o.ttr ?? defaultTtr, 'ttr'), bytes];
  const line = ['put', ...numbers, ...tags.map(([name, value]) => `${name}:${value}`)].join(' ');
  const safe = o.key !== undefined && o.keyTtl !== undefined && (o.onDuplicate ?? 'keep') === 'keep';
  return { line, needs, safe };
}

type Tag = [name: string, value: string, capability: string];

/** The tags of a put but its delay, each with the capability that it needs. */
export function tagsOf(o: PutOptions): Tag[] {
  const tags: Tag[] = [];
  const add = (name: string, value: string | undefined, capability = 'put-tags') => {
    if (value !== undefined) tags.push([name, value, capability]);
  };
  const some = <T>(value: T | undefined, text: (value: T) => string) => (value === undefined ? undefined : text(value));
  add('at', some(o.at, at => whole(Number(at), 'at')));
  add('key', some(o.key, key => word(key, 'key')));
  add('key-ttl', some(o.keyTtl, d => duration(d, 'keyTtl')));
  add('on-duplicate', some(o.onDuplicate, s => word(s, 'onDuplicate')));
  add('retry', some(o.retry, retryText), Array.isArray(o.retry) ? 'put-tags' : 'backoff');
  add('jitter', some(o.jitter, n => whole(n, 'jitter')), 'backoff');
  add('max', some(o.max, n => whole(n, 'max')));
  add('dead', some(o.dead, tube => word(tube, 'dead')));
  add('expire', some(o.expire, d => duration(d, 'expire')), 'expire');
  add('on-expire', some(o.onExpire, s => word(s, 'onExpire')), 'expire');
  add('keep', some(o.keep, d => duration(d, 'keep')), 'results');
  for (const [name, value] of Object.entries(o.meta ?? {})) add('meta', `${word(name, 'meta')}=${quote(value)}`, 'meta');
  add('trace', some(o.trace, s => word(s, 'trace')), 'meta');
  add('group', some(o.group, quote), 'groups');
  add('batch', some(o.batch, name => word(name, 'batch')), 'batches');
  add('after', some(o.after, name => word(name, 'after')), 'batches');
  add('after-all', some(o.afterAll, name => word(name, 'afterAll')), 'batches');
  add('batch-ttl', some(o.batchTtl, d => duration(d, 'batchTtl')), 'batches');
  return tags;
}

function retryText(retry: NonNullable<PutOptions['retry']>): string {
  if (Array.isArray(retry)) return retry.map(d => duration(d, 'retry')).join(',');
  check(retry, { first: true, longest: true, count: true }, 'retry');
  return `exp(${duration(retry.first, 'retry')},${duration(retry.longest, 'retry')},${whole(retry.count, 'retry')})`;
}
