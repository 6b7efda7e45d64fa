import { Connection } from './connection.js';
import { ClosedError, isPassingReply, TimedOutError } from './errors.js';
import type { ConnectionOptions } from './options.js';
import type { Need } from './put.js';
import type { Value } from './text.js';

/** How a job has ended. A job that is `parked` is buried: that is no end, but it does not go on by itself. */
export type How = 'done' | 'deleted' | 'expired' | 'dead' | 'moved' | 'parked';

/** What has become of a job: the body is the result if it is done, tube and id of the other job if it is dead or moved, and the reason if it is parked. */
export interface End {
  id: string;
  how: How;
  body: Buffer;
  /** The body as text. */
  payload: string;
}

/** The record of a job that has ended. */
export interface EndedJob {
  id: string;
  tube: string;
  how: How;
  put: Date;
  /** Of the first delivery, if that was the last one. */
  firstStart?: Date;
  ended: Date;
  /** Until when the record is kept at most. */
  until: Date;
  deliveries: number;
  failures: number;
  /** The name of the connection that held the job, else its user. */
  holder?: string;
  /** Why it last failed. */
  reason?: string;
  result?: Buffer;
  /** Everything that the server has sent, with its names. */
  all: Record<string, Value>;
}

export const need: Need = ['results', 'results'];

/** A record by the values that the server sent. */
export function toEndedJob(values: Record<string, Value>): EndedJob {
  const text = (name: string) => (values[name] === undefined ? undefined : String(values[name]));
  const time = (name: string) => new Date(Number(values[name]));
  return {
    id: String(values['id']), tube: String(values['tube']), how: String(values['how']) as How,
    put: time('put-ms'), firstStart: values['first-start-ms'] ? time('first-start-ms') : undefined, ended: time('ended-ms'), until: time('until-ms'),
    deliveries: Number(values['deliveries']), failures: Number(values['failures']),
    holder: text('holder'), reason: text('reason'), result: values['result'] === undefined ? undefined : Buffer.from(String(values['result']), 'base64'),
    all: values,
  };
}

/** How many connections wait for one job each, and for how many seconds before they take the next one. */
const waiters = 4;
const waitSeconds = 1;
/** The pauses in which it is asked about a job, in milliseconds: they double. */
const shortestPause = 10;
const longestPause = 1_000;
/** How many questions are sent at once. */
const together = 250;

interface Wait {
  id: string;
  resolve(end: End): void;
  reject(error: Error): void;
  timer?: NodeJS.Timeout;
  /** When it is asked about next, in milliseconds since 1970, and the pause before that. */
  askAt: number;
  pause: number;
  /** Whether a connection waits for it. */
  held: boolean;
}

/**
 * Waits for the ends of any number of jobs over few connections: some wait for one job each, the oldest waits first, and one asks about
 * the others. A lost connection is replaced, and the question repeated.
 */
export class Waits {
  private readonly waits = new Set<Wait>();
  private readonly connections: Connection[] = [];
  private readonly free: Connection[] = [];
  private asker?: Connection;
  private asking = false;
  private closed = false;

  constructor(private readonly options: ConnectionOptions) {}

  /** Resolves when the job has ended. After so many milliseconds it asks a last time, and throws TimedOutError. */
  wait(id: string, timeout: number): Promise<End> {
    if (this.closed) return Promise.reject(new ClosedError('the client is closed'));
    return new Promise((resolve, reject) => {
      const wait: Wait = { id, resolve, reject, askAt: Date.now() + shortestPause, pause: shortestPause, held: false };
      this.waits.add(wait);
      if (timeout < 2 ** 31) wait.timer = setTimeout(() => void this.ask(this.askerConnection(), wait, 0, true), timeout);
      if (timeout > 0) this.start();
    });
  }

  /** Waits that stand fail with ClosedError. */
  close(): void {
    this.closed = true;
    for (const wait of this.waits) this.settle(wait, () => wait.reject(new ClosedError('the client is closed')));
    for (const connection of this.connections) connection.close();
  }

  private start(): void {
    for (let wait; (wait = this.next()); ) {
      const connection = this.free.pop() ?? (this.connections.length - (this.asker ? 1 : 0) < waiters ? this.open() : undefined);
      if (!connection) break;
      void this.waitOver(connection, wait);
    }
    if (!this.asking && this.next()) void this.askAll();
  }

  private open(): Connection {
    const connection = new Connection(this.options);
    this.connections.push(connection);
    return connection;
  }

  private askerConnection(): Connection {
    return (this.asker ??= this.open());
  }

  /** The oldest wait that no connection waits for. */
  private next(): Wait | undefined {
    for (const wait of this.waits) if (!wait.held) return wait;
    return undefined;
  }

  /** Waits over a connection for one job after the other, until there is none left. */
  private async waitOver(connection: Connection, first: Wait): Promise<void> {
    for (let wait: Wait | undefined = first; wait; wait = this.next()) {
      wait.held = true;
      await this.ask(connection, wait, waitSeconds);
      wait.held = false;
      // It has had its turn.
      if (this.waits.delete(wait)) this.waits.add(wait);
    }
    this.free.push(connection);
  }

  /** Asks about the jobs that no connection waits for, about each in growing pauses, until there is none left. */
  private async askAll(): Promise<void> {
    this.asking = true;
    while (this.next()) {
      const begun = Date.now();
      // Measured by the pause, so that young waits are not behind all old ones, nor these for ever behind them.
      const lateness = (wait: Wait) => (begun - wait.askAt) / wait.pause;
      const due = [...this.waits].filter(wait => !wait.held && wait.askAt <= begun).sort((a, b) => lateness(b) - lateness(a)).slice(0, together);
      await Promise.all(due.map(wait => this.ask(this.askerConnection(), wait, 0)));
      const now = Date.now();
      for (const wait of due) {
        wait.pause = Math.min(longestPause, 2 * wait.pause);
        wait.askAt = now + wait.pause;
      }
      // So it asks at most half of the time.
      await sleep(Math.max(shortestPause, now - begun));
    }
    this.asking = false;
  }

  /** Asks what has become of a job, and waits for its end so many seconds. */
  private async ask(connection: Connection, wait: Wait, seconds: number, last = false): Promise<void> {
    try {
      const line = `wait-job ${wait.id} ${seconds}`;
      const { words, body } = await connection.send({ line, ok: ['ENDED'], needs: [need], waits: seconds * 1000, safe: true });
      this.settle(wait, () => wait.resolve(toEnd(wait.id, words[2] as How, body!)));
    } catch (error) {
      if (last || !(error instanceof TimedOutError || isPassingReply(error))) this.settle(wait, () => wait.reject(error as Error));
      else if (isPassingReply(error)) await sleep(longestPause);
    }
  }

  private settle(wait: Wait, how: () => void): void {
    this.waits.delete(wait);
    clearTimeout(wait.timer);
    how();
  }
}

function toEnd(id: string, how: How, body: Buffer): End {
  return Object.defineProperty({ id, how, body }, 'payload', { get: () => body.toString(), enumerable: false }) as End;
}

/** Does not keep the process alive. */
function sleep(ms: number): Promise<void> {
  return new Promise(resolve => void setTimeout(resolve, ms).unref());
}
