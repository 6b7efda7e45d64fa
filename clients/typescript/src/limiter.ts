import type { Client, Tags } from './client.js';
import { NotFoundError } from './errors.js';
import { check } from './text.js';

/** At most `max` jobs in any `duration`, in milliseconds: a second, a minute or an hour. */
export interface Limiter {
  max: number;
  duration: number;
}

const units: Record<number, string> = { 1_000: 's', 60_000: 'm', 3_600_000: 'h' };

/** A limiter as the `rate` of a policy; an error if there is no such rate. */
export function rateOf(limiter: Limiter): string {
  check(limiter, { max: true, duration: true }, 'a limiter');
  const { max, duration } = limiter;
  if (!Number.isInteger(max) || max < 1 || max > 1_000_000) throw new TypeError('the max of a limiter must be a whole number from 1 to 1000000');
  if (typeof duration !== 'number' || !Object.hasOwn(units, duration)) throw new TypeError('the duration of a limiter must be 1000, 60000 or 3600000 milliseconds');
  return `${max}/${units[duration]}`;
}

/** Sets the rate of a tube, and leaves all else in its policy as it is. */
export async function limit(client: Client, tube: string, rate: string): Promise<void> {
  const policy: Tags = await client.getPolicy(tube).catch(error => {
    if (error instanceof NotFoundError) return {};
    throw error;
  });
  if (policy['rate'] !== rate) await client.setPolicy(tube, { ...policy, rate });
}
