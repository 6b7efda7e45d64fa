import * as net from 'node:net';
import * as tls from 'node:tls';
import { ClosedError, errorOf, RedstalkError, UnauthorizedError, UnavailableError, UnknownOutcomeError, UnsupportedError } from './errors.js';
import { ConnectionOptions, parseAddresses } from './options.js';
import type { Need } from './put.js';
import { Reply, ReplyParser } from './reply.js';
import { parseList, quote } from './text.js';
import { messageOf } from './usercode.js';

/** A command on its way. */
export interface Command {
  line: string;
  body?: Uint8Array;
  /** The tube that must be in use. */
  tube?: string;
  /** The first words of replies that are no errors. */
  ok: string[];
  needs?: Need[];
  /** Whether it may be sent again if the connection is lost. */
  safe?: boolean;
  /** How long the server may wait with its reply, in milliseconds, beyond replyTimeout. */
  waits?: number;
}

interface Pending extends Command {
  resolve(reply: Reply): void;
  reject(error: Error): void;
  /** Ends the wait for a connection. */
  timer?: NodeJS.Timeout;
}

/** A connection that pipelines commands, and reconnects for as long as it is not closed. */
export class Connection {
  /** What is watched, by weight; 0 is none. Restored on each new connection. */
  readonly watched = new Map<string, number>([['default', 0]]);
  private readonly addresses;
  private address = 0;
  private socket?: net.Socket;
  private ready = false;
  private opened = 0;
  private closed = false;
  private failures = 0;
  private wireTube = 'default';
  private capabilities = new Set<string>();
  private asking?: Promise<Reply>;
  private waiting: Pending[] = [];
  private sent: Pending[] = [];
  private lastError?: Error;
  private replyTimer?: NodeJS.Timeout;
  private retryTimer?: NodeJS.Timeout;

  constructor(private readonly options: ConnectionOptions) {
    this.addresses = parseAddresses(options);
  }

  /** Sends a command as soon as there is a connection, and returns the reply. */
  send(command: Command): Promise<Reply> {
    if (this.closed) return Promise.reject(new ClosedError('the client is closed'));
    return new Promise((resolve, reject) => {
      const pending: Pending = { ...command, resolve, reject };
      // A socket that this side has destroyed reports its end later.
      if (this.ready && !this.socket?.destroyed) this.write(pending);
      else this.hold(pending);
    });
  }

  get connected(): boolean {
    return this.ready;
  }

  /** How many connections there have been. */
  get connections(): number {
    return this.opened;
  }

  /** Why there was no connection the last time, if that is known. */
  get trouble(): Error | undefined {
    return this.lastError;
  }

  /** What the server can do beyond beanstalkd. Waits for a connection. */
  async features(): Promise<ReadonlySet<string>> {
    // All who ask before the answer wait for it, so that what they send next keeps their order.
    if (!this.ready) this.asking ??= this.send({ line: 'list-tube-used', ok: ['USING'], safe: true }).finally(() => { this.asking = undefined; });
    await this.asking;
    return this.capabilities;
  }

  /**
   * New connections, one for each address, for what this one's server refuses: also to its own address, which can lead to several
   * servers. They do not wait long for one that is down.
   */
  others(): Connection[] {
    const { addresses = [], wait = 10_000 } = this.options;
    const places = addresses.length ? addresses.map(address => ({ addresses: [address] })) : [{}];
    return places.map(place => new Connection({ ...this.options, ...place, wait: Math.min(wait, 1_000) }));
  }

  /** Closes the connection. Commands without a reply fail. */
  close(): void {
    this.closed = true;
    clearTimeout(this.retryTimer);
    this.socket?.destroy();
    this.lost(new ClosedError('the client is closed'));
  }

  private hold(pending: Pending): void {
    const wait = this.options.wait ?? 10_000;
    pending.timer = setTimeout(() => {
      this.waiting = this.waiting.filter(other => other !== pending);
      pending.reject(new UnavailableError(`no server after ${wait} ms: ${this.lastError ? messageOf(this.lastError) : 'no connection'}`));
    }, wait);
    this.waiting.push(pending);
    if (!this.socket && !this.retryTimer) this.connect();
  }

  private connect(): void {
    this.retryTimer = undefined;
    const { host, port, path } = this.addresses[this.address % this.addresses.length]!;
    const { tls: secure } = this.options;
    const name = host && !net.isIP(host) ? { servername: host } : {};
    const socket = secure
      ? tls.connect({ host, port, ...name, ...(secure === true ? {} : secure) })
      : path ? net.connect(path) : net.connect({ host, port: port! });
    this.socket = socket;
    const parser = new ReplyParser();
    const connecting = setTimeout(() => socket.destroy(new Error('no connection in time')), this.replyTimeout());
    socket.setNoDelay(true);
    socket.setKeepAlive(true, 30_000);
    socket.on('data', chunk => {
      if (socket.destroyed) return;
      try {
        for (const reply of parser.push(chunk)) this.receive(reply);
      } catch (error) {
        socket.destroy(error as Error);
      }
    });
    socket.on('error', error => { this.lastError = error; });
    socket.on('end', () => socket.destroy());
    socket.on('close', () => { clearTimeout(connecting); if (this.socket === socket) this.lost(); });
    socket.once(secure ? 'secureConnect' : 'connect', () => { clearTimeout(connecting); this.handshake(); });
  }

  /** Authenticates, asks for capabilities, restores what is watched, and sends what waits. */
  private handshake(): void {
    this.wireTube = 'default';
    const { user, secret, name } = this.options;
    const fail = (error: Error) => {
      // Then the socket's error says more.
      if (!(error instanceof UnknownOutcomeError)) this.lastError = error;
      if (error instanceof UnauthorizedError) this.rejectWaiting(error);
      this.socket?.destroy();
    };
    if (user !== undefined) this.internal(`auth ${user} ${secret ?? ''}`, ['AUTHENTICATED'], () => {}, fail);
    const done = (reply: Reply) => {
      this.capabilities = new Set(reply.words[0] === 'OK' ? parseList(reply.body) : []);
      this.restore(name);
    };
    this.internal('capabilities', ['OK', 'UNKNOWN_COMMAND'], done, fail);
  }

  private restore(name: string | undefined): void {
    const nothing = () => {};
    if (name && this.capabilities.has('clients')) this.internal(`client ${quote(name)}`, ['NAMED'], nothing, nothing);
    for (const [tube, weight] of this.watched) {
      if (tube !== 'default' || weight) this.internal(`watch ${tube}${weight ? ` ${weight}` : ''}`, ['WATCHING'], nothing, nothing);
    }
    if (!this.watched.has('default')) this.internal('ignore default', ['WATCHING'], nothing, nothing);
    this.ready = true;
    this.opened++;
    const waiting = this.waiting;
    this.waiting = [];
    for (const pending of waiting) this.write(pending);
  }

  private internal(line: string, ok: string[], resolve: (reply: Reply) => void, reject: (error: Error) => void): void {
    // Safe ones would be repeated; the handshake of the next connection does that.
    this.transmit({ line, ok, resolve, reject });
  }

  private write(pending: Pending): void {
    clearTimeout(pending.timer);
    const missing = pending.needs?.find(([capability]) => !this.capabilities.has(capability));
    if (missing) return pending.reject(new UnsupportedError(missing[1], missing[0]));
    if (pending.tube !== undefined && pending.tube !== this.wireTube) {
      this.wireTube = pending.tube;
      // If it is refused, the command after it would go to another tube.
      this.internal(`use ${pending.tube}`, ['USING'], () => {}, error => this.socket?.destroy(error));
    }
    this.transmit(pending);
  }

  private transmit(pending: Pending): void {
    this.sent.push(pending);
    if (this.sent.length === 1) this.watchReply();
    const socket = this.socket!;
    socket.cork();
    socket.write(`${pending.line}\r\n`);
    if (pending.body) {
      socket.write(pending.body);
      socket.write('\r\n');
    }
    process.nextTick(() => socket.uncork());
  }

  private receive(reply: Reply): void {
    const pending = this.sent.shift();
    if (!pending) return void this.socket?.destroy(new Error('a reply without a command'));
    this.failures = 0;
    this.watchReply();
    if (pending.ok.includes(reply.words[0] ?? '')) pending.resolve(reply);
    else pending.reject(errorOf(reply.words, pending.line.split(' ', 1)[0] ?? ''));
    // The server may read the body as a command, and then the next reply would be that of another one.
    if (pending.body && reply.words[0] === 'BAD_FORMAT') this.socket?.destroy();
  }

  /** Limits how long the next reply may take. */
  private watchReply(): void {
    clearTimeout(this.replyTimer);
    const next = this.sent[0];
    if (!next || next.waits === Infinity) return;
    const limit = this.replyTimeout() + (next.waits ?? 0);
    this.replyTimer = setTimeout(() => this.socket?.destroy(new Error(`no reply after ${limit} ms`)), limit);
  }

  private replyTimeout(): number {
    return this.options.replyTimeout ?? 10_000;
  }

  /** Settles what was sent, and connects again if somebody waits for that. */
  private lost(error?: ClosedError): void {
    clearTimeout(this.replyTimer);
    this.socket = undefined;
    this.ready = false;
    const sent = this.sent;
    this.sent = [];
    const again: Pending[] = [];
    for (const pending of sent) {
      if (pending.safe && !error) again.push(pending);
      else pending.reject(error ?? new UnknownOutcomeError(`connection lost: ${pending.line.split(' ', 1)[0]}`));
    }
    if (error) return this.rejectWaiting(error);
    this.address++;
    this.failures++;
    const first = this.options.reconnect?.first ?? 50;
    const longest = this.options.reconnect?.longest ?? 5_000;
    const pause = this.failures < this.addresses.length ? 0 : Math.min(longest, first * 2 ** Math.min(20, this.failures - this.addresses.length));
    if (again.length || this.waiting.length) this.retryTimer = setTimeout(() => this.connect(), pause * (0.75 + Math.random() / 4));
    const later = this.waiting;
    this.waiting = [];
    for (const pending of again) this.hold(pending);
    this.waiting.push(...later);
  }

  private rejectWaiting(error: RedstalkError): void {
    const waiting = this.waiting;
    this.waiting = [];
    for (const pending of waiting) {
      clearTimeout(pending.timer);
      pending.reject(error);
    }
  }
}
