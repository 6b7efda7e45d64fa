// QueueEvents: what other processes do with the jobs of a queue.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { test } from 'node:test';
import { NotFinishedError, Queue, QueueEvents, UnrecoverableError, Worker } from 'redstalk';
import { directory, engines, serve, serveKind } from './servers.mjs';

const reconnect = { first: 10, longest: 50 };

/** A queue of a server and its events; both are closed in the end. */
async function watched(t, port, options = {}) {
  const connection = { port, reconnect };
  const queue = new Queue('mail', { connection });
  const events = new QueueEvents('mail', { connection, interval: 20, ...options });
  t.after(async () => { await events.close(); await queue.close(); });
  await events.waitUntilReady();
  return { queue, events, connection };
}

/** What is emitted, and a wait until there is so much of it. */
function heard(events, ...names) {
  const seen = [];
  let check = () => {};
  for (const name of names) events.on(name, event => { seen.push([name, event]); check(); });
  const until = count => new Promise(resolve => { (check = () => seen.length >= count && resolve(seen))(); });
  return { seen, until };
}

const failOnce = new Set();

/** Does what the name of a job says. */
function processor(job) {
  if (job.name === 'never') throw new UnrecoverableError('no such address');
  if (job.name === 'bad') throw new Error('no such address');
  if (job.name === 'once' && !failOnce.has(job.id)) {
    failOnce.add(job.id);
    throw new Error('try again');
  }
  return job.data;
}

for (const kind of engines) {
  test(`each end of a job is told once, on ${kind}`, async t => {
    const { port } = await serveKind(t, kind);
    const connection = { port };
    const before = new Queue('mail', { connection });
    await before.client.delete((await before.add('before', 0, { keep: '1h' })).id);
    const { queue, events } = await watched(t, port);
    const { until, seen } = heard(events, 'completed', 'failed', 'removed', 'error');
    const worker = new Worker('mail', processor, { connection });
    t.after(async () => { await worker.close(); await before.close(); });
    const keep = '1h';
    const id = async added => (await added).id;
    const done = [await id(queue.add('fine', { n: 1 }, { keep })), await id(queue.add('once', [2], { keep, attempts: 2 })), await id(queue.add('nothing', undefined, { keep }))];
    const parked = [await id(queue.add('never', 0)), await id(queue.add('never', 0))];
    const dead = await id(queue.add('bad', 0, { keep, dead: 'morgue', attempts: 1 }));
    const gone = await id(queue.add('later', 0, { keep, delay: 60_000 }));
    await queue.client.delete(gone);
    await until(7);
    const told = name => seen.filter(([event]) => event === name).map(([, event]) => event);
    const results = new Map(told('completed').map(({ jobId, returnvalue }) => [jobId, returnvalue]));
    assert.deepEqual(done.map(jobId => results.get(jobId)), [{ n: 1 }, [2], undefined]);
    assert.equal(told('completed').length, 3);
    assert.deepEqual(told('failed').map(event => event.jobId).sort(), [...parked, dead].sort());
    assert.ok(told('failed').every(event => event.failedReason === 'no such address'));
    assert.deepEqual(told('removed'), [{ jobId: gone }]);

    // Again, with the newest buried one kicked, and with all of them kicked.
    for (const kick of [() => queue.client.kickJob(parked[1]), () => queue.retryJobs()]) {
      const count = seen.length;
      await kick();
      await until(count + 1);
    }
    await new Promise(resolve => setTimeout(resolve, 300));
    const failures = told('failed').map(event => event.jobId);
    assert.equal(failures.length, 3 + 1 + 2);
    assert.equal(seen.length, 7 + 1 + 2);
  });
}

test('jobs that are buried again and again, with or without a reason, are told each time', async t => {
  const { port } = await serveKind(t, 'embedded');
  const { queue, events } = await watched(t, port);
  const { seen, until } = heard(events, 'failed', 'error');
  const count = 1500; // more than are remembered
  await queue.addBulk(Array.from({ length: count }, (_, n) => ({ name: 'a', data: n, opts: { priority: n % 7 } })));
  await queue.client.watch('mail');
  for (const [round, reason] of ['no', undefined, undefined].entries()) {
    for (let left = count; left > 0; ) {
      const held = await queue.client.reserveBatch(500, { lease: true });
      await Promise.all(held.map(job => queue.client.buryLease(job.id, job.lease, { reason })));
      left -= held.length;
    }
    await until(count * (round + 1));
    await queue.retryJobs();
  }
  await new Promise(resolve => setTimeout(resolve, 100));
  assert.equal(seen.length, 3 * count);
});

test('active and progress are told as far as they are seen', async t => {
  const { port } = await serveKind(t, 'memory');
  const { queue, events, connection } = await watched(t, port);
  const { until } = heard(events, 'active', 'progress');
  await new Promise(resolve => setTimeout(resolve, 100));
  let go = () => {};
  const worker = new Worker('mail', async job => {
    await job.updateProgress(12.5);
    await new Promise(resolve => { go = resolve; });
    await job.updateProgress({ rows: [1, 2] });
    await new Promise(resolve => { go = resolve; });
    throw new NotFinishedError();
  }, { connection });
  t.after(() => worker.close(true));
  const { id: jobId } = await queue.add('rows', 0);
  await until(2);
  go();
  const seen = await until(3);
  assert.deepEqual(seen, [['active', { jobId }], ['progress', { jobId, data: 12.5 }], ['progress', { jobId, data: { rows: [1, 2] } }]]);
  go();
});

test('nothing is missed or told twice while many jobs end and the server is killed', async t => {
  const store = `embedded:${directory()}`;
  let { port, stop } = await serve(t, store);
  const { queue, events } = await watched(t, port);
  const told = new Map();
  let enough = () => {};
  const count = 6_000;
  const all = new Promise(resolve => { enough = resolve; });
  events.on('completed', ({ jobId }) => { told.set(jobId, (told.get(jobId) ?? 0) + 1); if (told.size === count) enough(); });
  for (let batch = 0; batch < 4; batch++) {
    if (batch === 2) {
      await stop();
      ({ stop } = await serve(t, store, [], port));
    }
    const jobs = Array.from({ length: count / 4 }, (_, n) => ({ name: 'a', data: n, opts: { keep: '1h' } }));
    await queue.addBulk(jobs);
    await queue.client.watch('mail');
    for (let left = count / 4; left > 0; left -= 500) {
      const held = await queue.client.reserveBatch(500, { lease: true });
      await Promise.all(held.map(job => queue.client.finishLease(job.id, job.lease, '1')));
    }
  }
  await all;
  await new Promise(resolve => setTimeout(resolve, 100));
  assert.ok(told.size === count && [...told.values()].every(times => times === 1));
});

test('a server that begins anew is told of as well', async t => {
  let { port, stop } = await serve(t, 'memory:');
  const { queue, events } = await watched(t, port);
  const { until } = heard(events, 'completed', 'failed');
  for (let round = 0; round < 2; round++) {
    const worker = new Worker('mail', processor, { connection: { port, reconnect } });
    for (let n = 0; n < 3; n++) await queue.add('never', 0);
    await queue.add('fine', 1, { keep: '1h' });
    const seen = await until(4 + 4 * round);
    assert.deepEqual(seen.slice(4 * round).map(([name, { jobId }]) => `${name} ${jobId}`).sort(), ['completed 4', 'failed 1', 'failed 2', 'failed 3']);
    await worker.close();
    await stop();
    ({ stop } = await serve(t, 'memory:', [], port));
  }
});

test('events that nobody can tell of are errors at the call, and a close ends the looking', async t => {
  const { port } = await serveKind(t, 'memory');
  const { events } = await watched(t, port);
  assert.throws(() => events.on('waiting', () => {}), /QueueEvents has no event waiting/);
  assert.throws(() => events.once('drained', () => {}), TypeError);
  for (const interval of [0, -1, NaN, Infinity, '5s']) assert.throws(() => new QueueEvents('mail', { interval }), TypeError);
  assert.throws(() => new QueueEvents('mail', { intervall: 1 }), TypeError);
  const closed = once(events, 'closed');
  await events.close();
  await closed;
  const absent = new QueueEvents('mail', { connection: { port: 1, wait: 50 }, interval: 10 });
  const [error] = await once(absent, 'error').catch(thrown => [thrown]);
  assert.equal(error.name, 'UnavailableError');
  const late = absent.waitUntilReady();
  await absent.close();
  await late;
});
