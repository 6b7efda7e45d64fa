import type { Client } from './client.js';
import type { PutOptions } from './put.js';

/** The body of a job with a type. */
export function envelope(type: string, data: unknown): string {
  if (typeof type !== 'string' || !type) throw new TypeError('the name of a job must be a text that is not empty');
  return JSON.stringify({ type, data });
}

/** The options of the put of such a body, with its content type if the server has meta. */
export async function typed(client: Client, options: PutOptions): Promise<PutOptions> {
  if (!(await client.capabilities()).has('meta')) return options;
  return { ...options, meta: { 'content-type': 'application/json', ...options.meta } };
}

/** The type and data of a body. Queues of redstalk 0.2 wrote `name` for `type`; a body with neither is data without a type. */
export function open(payload: string): { name: string; data: unknown } {
  try {
    const value = JSON.parse(payload) as { type?: unknown; name?: unknown; data?: unknown } | null;
    const name = typeof value?.type === 'string' ? value.type : value?.name;
    if (typeof name === 'string' && !Array.isArray(value)) return { name, data: value?.data };
  } catch {
    // No JSON.
  }
  return { name: '', data: payload };
}
