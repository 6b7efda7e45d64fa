import { EventEmitter } from 'node:events';
import { messageOf, toError } from './usercode.js';

/** How often the same line is repeated on stderr, in milliseconds. */
const repeatLine = 60_000;

/** The arguments of events by their names. */
type Events<E> = Record<keyof E, unknown[]> & { error: [error: Error] };

/**
 * An emitter whose events have types. Whatever a listener throws is an `error`, and changes nothing else. Errors are lines on stderr if nobody
 * listens to `error`.
 */
export abstract class Emitter<E extends Events<E>> extends EventEmitter {
  private lastLine = '';
  private lastLineAt = 0;

  /** `title` begins each line on stderr. */
  constructor(private readonly title: string) {
    super({ captureRejections: true });
  }

  override on<K extends keyof E & string>(event: K, listener: (...args: E[K]) => void): this {
    return super.on(event, listener as (...args: any[]) => void);
  }

  override once<K extends keyof E & string>(event: K, listener: (...args: E[K]) => void): this {
    return super.once(event, listener as (...args: any[]) => void);
  }

  override off<K extends keyof E & string>(event: K, listener: (...args: E[K]) => void): this {
    return super.off(event, listener as (...args: any[]) => void);
  }

  /** Called with what the promise of an asynchronous listener rejects with. */
  override [EventEmitter.captureRejectionSymbol](thrown: unknown, event: string): void {
    this.listenerFailed(event, thrown);
  }

  protected report<K extends keyof E & string>(event: K, ...args: E[K]): void {
    // An error event that nobody listens to would end the process.
    if (event === 'error' && !this.listenerCount('error')) return this.print(args[0] as Error);
    try {
      this.emit(event, ...args);
    } catch (thrown) {
      this.listenerFailed(event, thrown);
    }
  }

  /** Reports whatever was thrown. */
  protected reportError(thrown: unknown): void {
    this.report('error', ...([toError(thrown)] as E['error']));
  }

  private listenerFailed(event: string, thrown: unknown): void {
    if (event === 'error') this.print(toError(thrown));
    else this.reportError(thrown);
  }

  /** Prints an error as one line, but the same again only after a while. */
  protected print(error: Error): void {
    const line = `redstalk: ${this.title}: ${messageOf(error).replace(/\s+/g, ' ')}`;
    if (line === this.lastLine && Date.now() - this.lastLineAt < repeatLine) return;
    this.lastLine = line;
    this.lastLineAt = Date.now();
    console.error(line);
  }
}
