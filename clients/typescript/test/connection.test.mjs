import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import net from 'node:net';
import { join } from 'node:path';
import { test } from 'node:test';
import { Client, UnauthorizedError, UnavailableError, UnknownOutcomeError } from 'redstalk';
import { directory, freePort, redstalkd, serve } from './servers.mjs';

const reconnect = { first: 5, longest: 20 };

function connect(t, options) {
  const client = new Client({ reconnect, ...options });
  t.after(() => client.close());
  return client;
}

/** A proxy in front of a port. `cut(line)` chooses commands after which it ends the connection, before their reply. */
async function proxy(t, port, cut) {
  const sockets = new Set();
  const server = net.createServer(client => {
    const upstream = net.connect(port, '127.0.0.1');
    let dead = false;
    for (const socket of [client, upstream]) {
      sockets.add(socket);
      socket.on('error', () => {});
      socket.on('close', () => { client.destroy(); upstream.destroy(); });
    }
    client.on('data', data => {
      dead ||= cut(data.toString());
      upstream.write(data);
    });
    upstream.on('data', data => { if (dead) client.destroy(); else client.write(data); });
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => { server.close(); for (const socket of sockets) socket.destroy(); });
  return server.address().port;
}

test('a put whose reply is lost is repeated with key and key-ttl only', async t => {
  const { port } = await serve(t, 'memory:');
  let cuts = 0;
  let left = 0;
  const proxied = await proxy(t, port, text => /^put /m.test(text) && left-- > 0 && ++cuts > 0);
  const c = connect(t, { port: proxied });
  await c.stats();
  left = 1;
  await assert.rejects(c.put('a'), UnknownOutcomeError);
  left = 1;
  await assert.rejects(c.put('b', { key: 'b' }), UnknownOutcomeError);
  left = 1;
  await assert.rejects(c.put('c', { key: 'c', keyTtl: 60, onDuplicate: 'replace' }), UnknownOutcomeError);
  left = 2;
  const { id, state } = await c.put('d', { key: 'd', keyTtl: 60 });
  assert.equal(state, 'READY');
  assert.equal((await c.peek(id)).payload, 'd');
  assert.equal(cuts, 5);
  assert.equal((await c.stats())['total-jobs'], 4);
});

test('after a lost connection the watched tubes and the used one are as before', async t => {
  const store = `embedded:${directory()}`;
  const port = await freePort();
  const server = await serve(t, store, ['-f', '0'], port);
  const c = connect(t, { port });
  await c.use('c');
  await c.put('before');
  await c.watch('a', 3);
  await c.watch('b');
  await c.ignore('default');
  const waiting = c.reserve();
  await server.stop();
  const put = new Client({ port, reconnect });
  t.after(() => put.close());
  const added = put.put('x', { tube: 'b' });
  await serve(t, store, [], port);
  await added;
  assert.equal((await waiting).payload, 'x');
  assert.deepEqual((await c.listTubesWatched()).sort(), ['a', 'b']);
  const { id } = await c.put('y');
  assert.equal((await c.statsJob(id)).tube, 'c');
});

test('what is called after a put was refused as malformed is sent on a new connection', async t => {
  const { port } = await serve(t, 'memory:');
  const c = connect(t, { port });
  await assert.rejects(c.put('x', { dead: 'a/'.repeat(200) }), { code: 'BAD_FORMAT' });
  assert.equal((await c.put('y')).id, '1');
});

test('the next address is tried, and without any a command fails after its wait', async t => {
  const { port, stop } = await serve(t, 'memory:');
  const none = await freePort();
  const c = connect(t, { addresses: [`127.0.0.1:${none}`, `127.0.0.1:${port}`], wait: 5000 });
  await c.put('x');
  await stop();
  const d = connect(t, { addresses: [`127.0.0.1:${none}`, `127.0.0.1:${port}`], wait: 200 });
  await assert.rejects(d.put('x'), UnavailableError);
});

test('a server that does not answer counts as lost', async t => {
  const silent = net.createServer(socket => socket.on('error', () => {})).listen(0, '127.0.0.1');
  await once(silent, 'listening');
  t.after(() => silent.close());
  const c = connect(t, { port: silent.address().port, replyTimeout: 50, wait: 400 });
  await assert.rejects(c.stats(), error => error instanceof UnavailableError && /no reply after 50 ms/.test(error.message));
});

test('TLS, user and secret', async t => {
  const dir = directory();
  const [cert, key, access] = ['cert', 'key', 'access'].map(name => join(dir, name));
  execFileSync('openssl', ['req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-days', '1', '-subj', '/CN=localhost',
    '-addext', 'subjectAltName=DNS:localhost,IP:127.0.0.1', '-keyout', key, '-out', cert], { stdio: 'ignore' });
  const hash = execFileSync(redstalkd, ['secret'], { input: 'open sesame\n' }).toString().trim().split('\n').pop();
  writeFileSync(access, `users:\n  - name: app\n    secrets: ["${hash}"]\n    rights:\n      - tubes: ["mail*"]\n        may: [put, read]\n`);
  const port = await freePort();
  await serve(t, 'memory:', ['--tls', `127.0.0.1:${port}`, '--tls-cert', cert, '--tls-key', key, '--access', access]);
  const tls = { ca: readFileSync(cert) };
  const c = connect(t, { port, host: 'localhost', tls, user: 'app', secret: 'open sesame', name: 'tests' });
  const { id } = await c.put('x', { tube: 'mails' });
  assert.ok(Number(id) > 0);
  await assert.rejects(c.put('x', { tube: 'other' }), UnauthorizedError);
  await assert.rejects(connect(t, { port, tls, user: 'app', secret: 'guess' }).put('x', { tube: 'mails' }), UnauthorizedError);
  const untrusting = connect(t, { port, tls: true, wait: 300 });
  await assert.rejects(untrusting.stats(), error => error instanceof UnavailableError && /self.signed/.test(error.message));
});

test('the package can be required', async t => {
  const { Client: Required } = createRequire(import.meta.url)('redstalk');
  assert.notEqual(Required, Client);
  const { port } = await serve(t, 'memory:');
  const c = new Required({ port });
  t.after(() => c.close());
  assert.equal((await c.put('x')).id, '1');
});

test('replies without a valid length end the connection', { timeout: 10_000 }, async t => {
  const garbage = ['RESERVED x y', 'OK -10', 'OK 99999999999999999999', 'RESERVED_BATCH x', 'OK 1\r\nabcd'];
  const server = net.createServer(socket => {
    socket.on('error', () => {});
    socket.once('data', () => {
      socket.write('OK 4\r\n---\n\r\n'); // capabilities
      socket.once('data', () => socket.write(`${garbage[0]}\r\n`));
    });
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => server.close());
  while (garbage.length) {
    const c = connect(t, { port: server.address().port });
    await assert.rejects(c.delete('1'), UnknownOutcomeError, garbage[0]);
    c.close();
    garbage.shift();
  }
});
