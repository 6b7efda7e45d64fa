// Servers for the tests: each on a free port of 127.0.0.1, ended by its process when the test ends.
import { spawn } from 'node:child_process';
import { randomInt } from 'node:crypto';
import dgram from 'node:dgram';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import net from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

export const redstalkd = process.env.REDSTALKD ?? fileURLToPath(new URL('../../../bin/redstalkd', import.meta.url));

/**
 * A port that belongs to this process until it ends, also while its server is down. The system gives higher ports to outgoing
 * connections. The UDP port with the same number, which no server here uses, is the lock that all tests of this project respect.
 */
export async function freePort() {
  for (;;) {
    const port = randomInt(12_000, 22_000);
    const lock = dgram.createSocket('udp4').unref();
    const listener = net.createServer();
    try {
      lock.bind({ port, address: '127.0.0.1', exclusive: true });
      await once(lock, 'listening');
      listener.listen(port, '127.0.0.1');
      await once(listener, 'listening');
    } catch {
      lock.close();
      continue;
    }
    listener.close();
    await once(listener, 'close');
    return port;
  }
}

/** Resolves when the port accepts a connection; fails if the process ends first. */
async function accepts(port, child) {
  for (;;) {
    if (child.exitCode !== null) throw new Error(`${child.spawnfile} ended with ${child.exitCode}`);
    const socket = net.connect(port, '127.0.0.1');
    const connected = await new Promise(resolve => socket.once('connect', () => resolve(true)).once('error', () => resolve(false)));
    socket.destroy();
    if (connected) return;
    await new Promise(resolve => setTimeout(resolve, 20));
  }
}

export async function start(t, program, args, port) {
  const child = spawn(program, args, { stdio: ['ignore', 'ignore', 'inherit'] });
  const stop = async () => {
    if (child.exitCode !== null || child.signalCode !== null) return;
    child.kill('SIGKILL');
    await once(child, 'exit');
  };
  t.after(stop);
  await accepts(port, child);
  return { port, stop, child };
}

/** A directory that is removed when all servers have ended. */
export function directory() {
  const dir = mkdtempSync(join(tmpdir(), 'redstalk-ts-'));
  process.on('exit', () => rmSync(dir, { recursive: true, force: true }));
  return dir;
}

/** Starts a redstalkd on a store. */
export async function serve(t, store, args = [], port) {
  port ??= await freePort();
  return start(t, redstalkd, ['-l', '127.0.0.1', '-p', String(port), '--store', store, ...args], port);
}

/** Starts a Redis that writes nothing to the disk. */
export async function startRedis(t) {
  const port = await freePort();
  return start(t, 'redis-server', ['--port', String(port), '--bind', '127.0.0.1', '--save', '', '--appendonly', 'no', '--dir', directory()], port);
}

/** Starts a server of a kind: memory, embedded, redis or beanstalkd. */
export async function serveKind(t, kind) {
  if (kind === 'beanstalkd') {
    const port = await freePort();
    return start(t, 'beanstalkd', ['-l', '127.0.0.1', '-p', String(port)], port);
  }
  if (kind === 'memory') return serve(t, 'memory:');
  if (kind === 'embedded') return serve(t, `embedded:${directory()}`);
  return serve(t, `redis://127.0.0.1:${(await startRedis(t)).port}/0`);
}

export const engines = ['memory', 'embedded', 'redis'];
export const kinds = [...engines, 'beanstalkd'];
