import type { ConnectionOptions as TLSOptions } from 'node:tls';
import { check, Names } from './text.js';

/** How to reach a server. Times are in milliseconds. */
export interface ConnectionOptions {
  /** 127.0.0.1 by default. */
  host?: string;
  /** 11300 by default. */
  port?: number;
  /** Several instances that serve the same jobs, instead of host and port: `['a:11300', 'b:11300']`; or `unix:/path`. */
  addresses?: string[];
  /** TLS with the CAs of the system, or with these options of node:tls. */
  tls?: true | TLSOptions;
  user?: string;
  secret?: string;
  /** The name of the connection in the server's list. */
  name?: string;
  /** How long a command waits for a connection; 10,000 by default. */
  wait?: number;
  /** How long a reply may take before the connection counts as lost; 10,000 by default. */
  replyTimeout?: number;
  /** Pauses between attempts to connect: from `first`, 50, doubling up to `longest`, 5,000. */
  reconnect?: { first?: number; longest?: number };
}

const names: Names<ConnectionOptions> = {
  host: true, port: true, addresses: true, tls: true, user: true, secret: true, name: true, wait: true, replyTimeout: true, reconnect: true,
};

/** Where a server listens. */
export interface Address {
  host?: string;
  port?: number;
  path?: string;
}

/** The addresses of the options, whose names are checked. */
export function parseAddresses(options: ConnectionOptions): Address[] {
  check(options, names, 'a connection');
  check(options.reconnect ?? {}, { first: true, longest: true }, 'reconnect');
  if (!options.addresses?.length) return [{ host: options.host ?? '127.0.0.1', port: options.port ?? 11300 }];
  return options.addresses.map(text => {
    if (text.startsWith('unix:')) return { path: text.slice('unix:'.length) };
    const match = /^(?:\[(.+)\]|([^:]+))(?::(\d+))?$/.exec(text);
    if (!match) throw new TypeError(`not an address: ${text}`);
    return { host: match[1] ?? match[2], port: Number(match[3] ?? 11300) };
  });
}
