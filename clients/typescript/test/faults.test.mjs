// Whatever user code throws is a failure of its job alone, and a worker that cannot work says so.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:net';
import { createInterface } from 'node:readline';
import { test } from 'node:test';
import { Client, DrainingError, Queue, Worker } from 'redstalk';
import { Lease } from '../dist/esm/lease.js';
import { freePort, serveKind } from './servers.mjs';

const proxy = new Proxy({}, new Proxy({}, { get: () => () => { throw new Error('trap'); } }));
const unreadable = Object.defineProperty(new Error('x'), 'message', { get() { return this.response.text; } });
const thrown = {
  list: [Object.assign(new Error('no'), { message: ['a', 'b'] }), 'a,b'],
  object: [Object.assign(new Error('no'), { message: { code: 7 } }), '{ code: 7 }'],
  bigint: [Object.assign(new Error('no'), { message: 7n }), '7'],
  'no message': [new TypeError(), 'TypeError'],
  bare: [Object.assign(Object.create(null), { code: 'E1' }), "[Object: null prototype] { code: 'E1' }"],
  unreadable: [unreadable, 'an error whose message cannot be read'],
  toString: [{ toString() { throw new Error('no text'); } }, /toString/],
  undefined: [undefined, 'undefined'],
  null: [null, 'null'],
  symbol: [Symbol('s'), 'Symbol(s)'],
  proxy: [proxy, /./],
  controls: [new Error('a\ud800\x80\x9f\r\n\0"\\'), 'a\ufffd   \n "\\'],
  quotes: [new Error('"'.repeat(999)), '"'.repeat(512)],
};

/** A queue of a server on memory, with a worker. Both are closed in the end. */
async function pair(t, processor, options) {
  const { port } = await serveKind(t, 'memory');
  const connection = { port };
  const queue = new Queue('mail', { connection });
  const worker = new Worker('mail', processor, { connection, ...options });
  t.after(async () => { await worker.close(); await queue.close(); });
  return { queue, worker };
}

/** Resolves when the worker has done a good job after those before. */
async function good(queue, worker) {
  const done = new Promise(resolve => worker.on('completed', job => job.name === 'good' && resolve()));
  await queue.add('good', 0);
  await done;
}

test('whatever a processor throws is the failure of its job', async t => {
  const { queue, worker } = await pair(t, job => {
    Object.freeze(job);
    if (job.name === 'then') return { get then() { throw new Error('no then'); } };
    if (job.name !== 'good') throw thrown[job.name][0];
  });
  const failed = new Map();
  worker.on('failed', (job, error) => failed.set(job.name, [error, job.attemptsMade]));
  worker.on('error', error => assert.fail(error));
  for (const name of [...Object.keys(thrown), 'then']) await queue.add(name, 0, { attempts: 1 });
  await good(queue, worker);
  const { entries } = await queue.client.listJobs('mail', 'buried');
  for (const { id } of entries) {
    const { type: name } = JSON.parse((await queue.client.peek(String(id))).payload);
    const { reason } = await queue.client.statsJob(String(id));
    const want = thrown[name]?.[1] ?? 'no then';
    assert.ok(want instanceof RegExp ? want.test(reason) : reason === want, `${name}: ${reason}`);
    assert.ok(failed.get(name)[0] instanceof Error && failed.get(name)[1] === 1);
  }
  assert.equal(entries.length, Object.keys(thrown).length + 1);
});

test('a backoffStrategy that fails is replaced by the default', async t => {
  const bad = [NaN, Infinity, 2 ** 53, Symbol('s'), 'soon', {}, () => { throw null; }, () => Promise.reject(undefined)];
  const right = [-1, undefined, 3_600_000, 3_600_000n, '3600000', Promise.resolve(3_600_000)];
  const values = [...bad, ...right];
  const { queue, worker } = await pair(t, job => { if (job.name !== 'good') throw new Error('no'); }, {
    settings: { backoffStrategy: () => { const value = values.length ? values.shift() : 3_600_000; return typeof value === 'function' ? value() : value; } },
  });
  const errors = [];
  worker.on('error', error => errors.push(error));
  for (const _ of [...values]) await queue.add('bad', 0);
  await good(queue, worker);
  const { waiting, delayed, active, failed } = await queue.getJobCounts();
  assert.deepEqual([waiting + delayed + active, failed], [bad.length + 4, 2]);
  assert.equal(errors.length, bad.length);
});

test('listeners that throw or reject change nothing', async t => {
  t.mock.method(console, 'error', () => {});
  const { queue, worker } = await pair(t, job => { if (job.name === 'bad') throw new Error('no'); });
  let errors = 0;
  let enough = () => {};
  const eight = new Promise(resolve => { enough = resolve; });
  worker.on('error', async () => Promise.reject(Symbol('s')));
  worker.on('error', error => { if (++errors === 8) enough(); throw error; });
  for (const event of ['active', 'completed', 'failed']) {
    worker.on(event, async () => { throw undefined; });
    worker.on(event, () => { throw proxy; });
  }
  await queue.add('bad', 0);
  await queue.add('fine', 0);
  await eight;
});

/** A server whose answers are a function of the first word; none if that is ''. */
async function fake(t, answer) {
  const server = createServer(socket => {
    socket.on('error', () => {});
    createInterface({ input: socket }).on('line', line => {
      const text = answer(line.split(' ')[0]);
      if (text) socket.write(`${text}\r\n`);
    });
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => server.close());
  return server.address().port;
}

const page = '---\n- lease\n- info\n- batch\n- reason\n';
const info = '{"tube":"mail","pri":1,"ttr":3600}';
/** The answers of a server that always has a job. */
const oneJob = {
  capabilities: `OK ${page.length}\r\n${page}`, watch: 'WATCHING 1', ignore: 'WATCHING 1',
  'reserve-batch': `RESERVED_BATCH 1\r\nLEASED 7 1 0 ${info.length}\r\n\r\n${info}`,
};

test('a job that takes long to settle is not taken for a processor whose time is over', async t => {
  const { grace } = Lease;
  Lease.grace = 50;
  t.after(() => { Lease.grace = grace; });
  let tries = 0;
  const port = await fake(t, word => oneJob[word] ?? (++tries < 5 ? 'INTERNAL_ERROR' : 'DELETED'));
  const worker = new Worker('mail', () => {}, { connection: { port }, timeout: 50 });
  worker.on('error', error => assert.fail(error));
  const [job] = await once(worker, 'completed');
  assert.equal(job.signal.aborted, false);
  await worker.close(true);
});

test('a checkpoint for which there is no memory is an error, and the one before is the last', async t => {
  const capabilities = `${page}- checkpoint\n`;
  const has = { ...oneJob, 'list-tube-used': 'USING a', capabilities: `OK ${capabilities.length}\r\n${capabilities}`, '1': '', '2': '' };
  const answers = ['SAVED', 'OUT_OF_MEMORY'];
  const port = await fake(t, word => has[word] ?? (word === 'checkpoint-lease' ? answers.shift() : 'DELETED'));
  const worker = new Worker('mail', async job => {
    await job.checkpoint(1);
    await assert.rejects(job.checkpoint(2), { name: 'ServerError', code: 'OUT_OF_MEMORY' });
    return [job.lastCheckpoint(), job.signal.aborted];
  }, { connection: { port } });
  worker.on('failed', (_, error) => assert.fail(error));
  assert.deepEqual((await once(worker, 'completed'))[1], [1, false]);
  await worker.close(true);
});

test('what the server refuses for good is an error, and no loop', async t => {
  const port = await fake(t, word => oneJob[word] ?? 'FORBIDDEN');
  let calls = 0;
  const worker = new Worker('mail', () => { if (++calls % 2) throw new Error('no'); }, { connection: { port } });
  const errors = [];
  const four = new Promise(resolve => worker.on('error', error => errors.push(error.code) === 4 && resolve()));
  await four;
  await worker.close(true);
  assert.deepEqual(new Set(errors), new Set(['FORBIDDEN']));
});

test('without a listener a wrong secret and an absent server are lines on stderr', async t => {
  const port = await fake(t, () => 'UNAUTHORIZED');
  const absent = await freePort();
  const lines = [];
  let two = () => {};
  const both = new Promise(resolve => { two = resolve; });
  t.mock.method(console, 'error', line => lines.push(line) === 2 && two());
  const wrong = new Worker('wrong', () => {}, { connection: { port, user: 'a', secret: 'b' } });
  const nobody = new Worker('absent', () => {}, { connection: { port: absent } });
  await both;
  await Promise.all([wrong.close(), nobody.close()]);
  lines.sort();
  assert.match(lines[0], /^redstalk: worker of absent: .*ECONNREFUSED/);
  assert.match(lines[1], /^redstalk: worker of wrong: UNAUTHORIZED/);
  assert.equal(lines.length, 2);
});

test('options that no worker can have are errors at the call', () => {
  for (const [name, processor, concurrency] of [['a b', () => {}, 1], ['a', undefined, 1], ['a', () => {}, 0], ['a', () => {}, NaN]]) {
    assert.throws(() => new Worker(name, processor, { concurrency }), TypeError);
  }
});

test('a put that a draining server refuses goes over another connection, which its address can lead elsewhere', async t => {
  const replies = ['INSERTED 1', 'DRAINING', 'INSERTED 2', 'DRAINING', 'DRAINING'];
  const client = new Client({ port: await fake(t, word => word === 'put' ? replies.shift() : word === 'capabilities' && oneJob.capabilities) });
  t.after(() => client.close());
  assert.deepEqual([(await client.put('a')).id, (await client.put('b')).id], ['1', '2']);
  await assert.rejects(client.put('c'), DrainingError);
});
