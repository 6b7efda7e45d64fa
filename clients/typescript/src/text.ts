/** A duration: a number of seconds, or text such as `250ms`, `90s`, `10m`, `36h`, `30d`. */
export type Duration = number | string;

/** A value of a page of the server. */
export type Value = string | number | Value[] | { [key: string]: Value };

/** Values by their names, as the server calls them. */
export type Stats = Record<string, string | number>;

/** A page of a list. `next` is the cursor of the next page, empty at the end. */
export interface Page {
  next: string;
  entries: Record<string, Value>[];
}

/** The names of all options of a type. */
export type Names<T> = Record<keyof T, true>;

/** Checks that no option has another name: plain JavaScript has no types that would say so. */
export function check<T extends object>(options: T, known: Names<T>, what: string): void {
  for (const name in options) if (!Object.hasOwn(known, name)) throw new TypeError(`${what} has no option ${name}`);
}

/** Checks a word of a command, so that nobody can smuggle in another command. */
export function word(text: string, what: string): string {
  if (!/^[\x21-\x7e]+$/.test(text)) throw new TypeError(`${what} must be printable ASCII without spaces: ${JSON.stringify(text)}`);
  return text;
}

/** Checks a whole number that is not negative. */
export function whole(n: number | string, what: string): string {
  if (!/^[0-9]+$/.test(String(n))) throw new TypeError(`${what} must be a whole number that is not negative: ${n}`);
  return String(n);
}

/** A duration as the server reads it. */
export function duration(d: Duration, what: string): string {
  if (typeof d === 'string') return word(d, what);
  if (!(d >= 0 && d < Infinity)) throw new TypeError(`${what} must be a number of seconds: ${d}`);
  return Number.isInteger(d) ? `${d}s` : `${Math.ceil(d * 1000)}ms`;
}

/** A text in double quotes. It loses control characters, which the server does not accept. */
export function quote(text: string): string {
  const escaped = text
    .replace(/["\\]/g, '\\$&')
    .replace(/\n/g, '\\n')
    .replace(/\t/g, '\\t')
    // eslint-disable-next-line no-control-regex
    .replace(/[\x00-\x1f\x7f-\x9f]/g, ' ');
  return `"${escaped}"`;
}

/** The beginning of a text that fits into so many bytes of UTF-8. */
export function cut(text: string, bytes: number): string {
  const all = Buffer.from(text);
  if (all.length <= bytes) return text;
  let end = bytes;
  while (end > 0 && ((all[end] ?? 0) & 0xc0) === 0x80) end--;
  return all.toString('utf8', 0, end);
}

/** Parses `key: value` lines. */
export function parseStats(page: Buffer | undefined): Stats {
  const stats: Stats = {};
  for (const line of (page ?? '').toString().split('\n')) {
    const colon = line.indexOf(': ');
    if (colon > 0 && !/^[ -]/.test(line)) stats[line.slice(0, colon)] = scalar(line.slice(colon + 2));
  }
  return stats;
}

/** Parses `- value` lines. */
export function parseList(page: Buffer | undefined): string[] {
  const lines = (page ?? '').toString().split('\n');
  return lines.filter(line => line.startsWith('- ')).map(line => String(scalar(line.slice(2))));
}

/** Parses a page with the cursor `next` and one entry on each line. */
export function parsePage(page: Buffer | undefined): Page {
  const lines = (page ?? '').toString().split('\n');
  const entries = lines.filter(line => line.startsWith('- {')).map(line => flow(line.slice(2)));
  return { next: String(parseStats(page)['next'] ?? ''), entries };
}

/** The end of a line that asks for a page. */
export function pageText(options: { count?: number; cursor?: string }): string {
  check(options, { count: true, cursor: true }, 'a list');
  const { count, cursor } = options;
  return `${count || cursor ? ` ${whole(count ?? 100, 'count')}` : ''}${cursor ? ` ${word(cursor, 'cursor')}` : ''}`;
}

function scalar(text: string): string | number {
  if (text.startsWith('"')) return JSON.parse(text.replace(/\\x/g, '\\u00')) as string;
  return /^-?[0-9]+(\.[0-9]+)?$/.test(text) && Number.isSafeInteger(Math.trunc(Number(text))) ? Number(text) : text;
}

/** Turns a mapping of YAML's flow style into JSON: its keys and words get quotes. */
function flow(text: string): Record<string, Value> {
  const json = text.replace(/("(?:[^"\\]|\\.)*"|[^\s"{}[\],:]+)(:?)/g, (_, token: string, colon: string) =>
    (token.startsWith('"') ? token.replace(/\\x/g, '\\u00') : JSON.stringify(colon ? token : scalar(token))) + colon,
  );
  return JSON.parse(json) as Record<string, Value>;
}
