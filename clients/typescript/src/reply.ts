/** A job within a reply. `info` is its line of JSON, where it was asked for. */
export interface RawJob {
  id: string;
  lease?: string;
  body: Buffer;
  info?: string;
}

/** A reply: the words of its line, and what followed. */
export interface Reply {
  words: string[];
  body?: Buffer;
  jobs?: RawJob[];
}

/** For each first word, at which word the lengths of what follows the line begin. */
const lengthsAt: Record<string, number> = { OK: 1, FOUND: 2, RESERVED: 2, LEASED: 3, ENDED: 3 };

/** Cuts a stream into replies. */
export class ReplyParser {
  private chunks: Buffer[] = [];
  private size = 0;
  private needed = 0;
  /** The batch of which jobs are missing. */
  private batch?: { words: string[]; jobs: RawJob[] };

  /** Adds bytes, and returns the replies that are complete now. Throws if what came can be no reply. */
  push(chunk: Buffer): Reply[] {
    this.chunks.push(chunk);
    this.size += chunk.length;
    if (this.size < this.needed) return [];
    const data = this.chunks.length === 1 ? chunk : Buffer.concat(this.chunks);
    const replies: Reply[] = [];
    let at = 0;
    for (let part; (part = this.part(data, at)); at = part.end) {
      const reply = this.add(part.words, part.bodies);
      if (reply) replies.push(reply);
    }
    this.needed -= at;
    this.chunks = at < data.length ? [data.subarray(at)] : [];
    this.size = data.length - at;
    return replies;
  }

  /** The reply that a line and its bodies complete. */
  private add(words: string[], bodies: Buffer[]): Reply | undefined {
    const [body, info] = bodies;
    if (this.batch) this.batch.jobs.push(rawJob(words, body ?? Buffer.alloc(0), info));
    else if (words[0] === 'RESERVED_BATCH') this.batch = { words, jobs: [] };
    else {
      const reply: Reply = { words, body };
      if (body && (words[0] === 'RESERVED' || words[0] === 'LEASED')) reply.jobs = [rawJob(words, body, info)];
      return reply;
    }
    if (this.batch.jobs.length < lengthOf(this.batch.words[1])) return undefined;
    const reply = this.batch;
    this.batch = undefined;
    return reply;
  }

  /** The line at an offset, and the bodies whose lengths are on it. Undefined if they are incomplete; then needed is how many bytes of data there must be at least. */
  private part(data: Buffer, at: number): { words: string[]; bodies: Buffer[]; end: number } | undefined {
    const eol = data.indexOf('\r\n', at);
    if (eol < 0) {
      this.needed = data.length + 1;
      return undefined;
    }
    const words = data.toString('utf8', at, eol).split(' ');
    const bodies: Buffer[] = [];
    let end = eol + 2;
    const from = lengthsAt[words[0] ?? ''];
    for (const word of from ? words.slice(from) : []) {
      const length = lengthOf(word);
      if (data.length < end + length + 2) {
        this.needed = end + length + 2;
        return undefined;
      }
      if (data.toString('latin1', end + length, end + length + 2) !== '\r\n') throw new Error('a body in a reply does not end where it should');
      bodies.push(data.subarray(end, end + length));
      end += length + 2;
    }
    return { words, bodies, end };
  }
}

/** A number of bytes or of jobs. Any other text would move the place where the next reply begins. */
function lengthOf(word = ''): number {
  if (!/^\d{1,10}$/.test(word)) throw new Error('a reply has no valid length');
  return Number(word);
}

function rawJob(words: string[], body: Buffer, info?: Buffer): RawJob {
  const job: RawJob = { id: words[1] ?? '', body };
  if (words[0] === 'LEASED') job.lease = words[2];
  if (info) job.info = info.toString();
  return job;
}
