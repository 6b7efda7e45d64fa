import assert from 'node:assert/strict';
import { once } from 'node:events';
import { test } from 'node:test';
import { Client, NotFoundError, Queue, UnavailableError, UnrecoverableError, UnsupportedError, Worker } from 'redstalk';
import { defaultBackoff, Lease } from '../dist/esm/lease.js';
import { setSchedule } from '../dist/esm/schedule.js';
import { directory, engines, freePort, kinds, serve, serveKind } from './servers.mjs';

/** A queue and a worker of a server; both are closed in the end. */
function pair(t, port, processor, options = {}) {
  const connection = { port, reconnect: { first: 10, longest: 50 } };
  const queue = new Queue('mail', { connection });
  const worker = new Worker('mail', processor, { connection, ...options });
  worker.on('error', () => {});
  t.after(async () => { await worker.close(true); await queue.close(); });
  return { queue, worker };
}

for (const kind of kinds) {
  test(`jobs are handled and deleted, and a close waits for handlers, on ${kind}`, async t => {
    const { port } = await serveKind(t, kind);
    let most = 0;
    let now = 0;
    let release;
    const gate = new Promise(resolve => { release = resolve; });
    const { queue, worker } = pair(t, port, async job => {
      most = Math.max(most, ++now);
      if (now === 3) release();
      await gate;
      now--;
      return job.data.n * 2;
    }, { concurrency: 3 });
    const results = [];
    worker.on('completed', (job, result) => results.push([job.name, job.queueName, result]));
    const all = new Promise(resolve => worker.on('completed', () => results.length === 9 && resolve()));
    await queue.addBulk(Array.from({ length: 9 }, (_, n) => ({ name: 'welcome', data: { n } })));
    await all;
    assert.equal(most, 3);
    assert.deepEqual(results.map(r => r[2]).sort((a, b) => a - b), [0, 2, 4, 6, 8, 10, 12, 14, 16]);
    assert.deepEqual(results[0].slice(0, 2), ['welcome', 'mail']);
    assert.deepEqual(await queue.getJobCounts(), { waiting: 0, delayed: 0, active: 0, failed: 0 });
  });

  test(`a close waits for the handler, and takes no other job, on ${kind}`, async t => {
    const { port } = await serveKind(t, kind);
    let finish;
    const { queue, worker } = pair(t, port, () => new Promise(resolve => { finish = resolve; }));
    const active = once(worker, 'active');
    await queue.add('a', 1);
    await queue.add('b', 2);
    await active;
    const closed = worker.close();
    let completed = 0;
    worker.on('completed', () => completed++);
    setImmediate(() => finish());
    await closed;
    assert.equal(completed, 1);
    assert.deepEqual(await queue.getJobCounts(), { waiting: 1, delayed: 0, active: 0, failed: 0 });
  });

  test(`a long handler keeps its job, and a failure without attempts comes again, on ${kind}`, async t => {
    const { port } = await serveKind(t, kind);
    let calls = 0;
    const { queue, worker } = pair(t, port, async job => {
      calls++;
      const late = new Client({ port });
      await late.watch('mail');
      // Longer than the TTR: nobody else gets the job, for it is touched.
      await assert.rejects(late.reserveWithTimeout(job.data), { name: 'TimedOutError' });
      await late.close();
      throw new Error('no such address');
    }, { concurrency: 2 });
    const failed = once(worker, 'failed');
    await queue.add('slow', 3, { ttr: 2 });
    const [job, error] = await failed;
    assert.equal(job.attemptsMade, 1);
    assert.equal(error.message, 'no such address');
    assert.equal(job.signal.aborted, false);
    assert.equal(calls, 1);
    const stats = await queue.client.statsJob(job.id);
    assert.ok([1, 2].includes(stats.delay) && stats.releases === 1 && stats.buries === 0, JSON.stringify(stats));
    assert.equal(stats.reason, kind === 'beanstalkd' ? undefined : 'no such address');
  });
}

for (const kind of engines) {
  test(`attempts, backoff, jobId, delay and priority on ${kind}`, async t => {
    const { port } = await serveKind(t, kind);
    const tries = [];
    const { queue, worker } = pair(t, port, job => {
      tries.push([job.name, job.attemptsMade]);
      if (job.name === 'never') throw new UnrecoverableError('never');
      if (job.name === 'bad' || job.attemptsMade < job.data) throw new Error(`try ${job.attemptsMade}`);
    }, { autorun: false });
    const first = await queue.add('later', 1, { delay: 60_000, jobId: 'order-7' });
    const again = await queue.add('later', 1, { delay: 60_000, jobId: 'order-7' });
    assert.deepEqual([again.id, again.state], [first.id, 'DELAYED']);
    assert.equal((await queue.getJobCounts()).delayed, 1);
    await queue.remove('order-7');
    const bad = await queue.add('bad', 0, { priority: 3, attempts: 3, backoff: 100 });
    const never = await queue.add('never', 0, { priority: 2, attempts: 3 });
    const good = await queue.add('good', 2, { priority: 1, attempts: 5, backoff: { type: 'exponential', delay: 50 } });
    assert.equal((await queue.client.statsJob(good.id)).retry, '50ms,100ms,200ms,400ms');
    await queue.add('once', 9, { priority: 4, dead: 'morgue' });
    const many = await queue.add('many', 0, { delay: 60_000, attempts: 100, backoff: 1000 });
    assert.equal((await queue.client.statsJob(many.id)).retry, 'exp(1s,1s,99)');
    const begin = Date.now();
    const ended = new Promise(resolve => worker.on('failed', () => tries.filter(([name]) => name === 'bad').length === 3 && resolve()));
    const completed = once(worker, 'completed');
    void worker.run();
    await Promise.all([ended, completed]);
    assert.ok(Date.now() - begin >= 200);
    assert.deepEqual(tries.slice(0, 3).map(([name]) => name), ['good', 'never', 'bad']);
    assert.deepEqual(tries.filter(([name]) => name === 'good'), [['good', 0], ['good', 1], ['good', 2]]);
    assert.deepEqual(tries.filter(([name]) => name === 'never'), [['never', 0]]);
    const stats = await queue.client.statsJob(bad.id);
    assert.deepEqual([stats.state, stats.parked, stats.reason], ['buried', 'retries', 'try 2']);
    assert.equal((await queue.client.statsJob(never.id)).state, 'buried');
    while (((await queue.client.statsTube('morgue').catch(() => ({})))['current-jobs-ready'] ?? 0) < 1);
    assert.deepEqual(await queue.getJobCounts(), { waiting: 0, delayed: 1, active: 0, failed: 2 });
  });
}

test('the defaults are those of all clients', async t => {
  const { port } = await serveKind(t, 'memory');
  const { queue } = pair(t, port, () => {}, { autorun: false });
  const puts = [await queue.client.put('a'), await queue.add('a', 1), await queue.client.batch('b').add('a')];
  for (const { id } of puts) {
    const { pri, ttr, delay, retry = '', max = 0, keep = '' } = await queue.client.statsJob(id);
    assert.deepEqual([pri, ttr, delay, retry, max, keep], [1024, 60, 0, '', 0, '']);
  }
  assert.match(setSchedule('s', 't', '', { every: 1 }).line, /^set-schedule s t 1024 60 0 /);
  for (let failures = 1; failures < 2000; failures++) {
    const part = defaultBackoff(failures) / Math.min(1000 * 2 ** (failures - 1), 3_600_000);
    assert.ok(part >= 0.9 && part <= 1.1, `${failures} failures: ${part}`);
  }
  assert.notEqual(defaultBackoff(9), defaultBackoff(9));
});

test('a misspelled option is an error at the call', async t => {
  const { port } = await serveKind(t, 'memory');
  const { queue, worker } = pair(t, port, () => {}, { autorun: false });
  const wrong = { name: 'TypeError', message: /has no (option|type) / };
  for (const make of [
    () => new Client({ prt: 1 }), () => new Client({ reconnect: { fist: 1 } }), () => new Queue('a', { connexion: {} }), () => new Queue('a', { connection: { password: 'x' } }),
    () => new Queue('a', { defaultJobOptions: { atempts: 3 } }), () => new Worker('a', () => {}, { concurency: 2 }),
    () => new Worker('a', () => {}, { settings: { backofStrategy: () => 1 } }),
  ]) assert.throws(make, wrong);
  const { client } = queue;
  for (const call of [
    () => queue.add('a', 1, { atempts: 3 }), () => queue.add('a', 1, { attempts: 3, backoff: { type: 'fixed', dealy: 1 } }), () => queue.add('a', 1, { backoff: { type: 'fix', delay: 1 } }),
    () => queue.add('a', 1, { removeOnComplete: { aeg: 1 } }), () => queue.addBulk([{ name: 'a', data: 1, options: {} }]), () => queue.retryJobs({ keepCheckpoints: true }),
    () => queue.upsertJobScheduler('a', { cron: '@daily' }), () => queue.upsertJobScheduler('a', { every: 1000 }, { opt: {} }), () => queue.upsertJobScheduler('a', { every: 1000 }, { opts: { prio: 1 } }),
    () => client.put('a', { prio: 1 }), () => client.put('a', { retry: { first: 1, longest: 2, cuont: 3 } }), () => client.batch('a').add('a', { prio: 1 }),
    () => client.setSchedule('a', 'a', '', { evry: 1 }), () => client.setSchedule('a', 'a', '', { every: 1, onDuplicate: 'keep' }), () => client.release('1', { prio: 1 }),
    () => client.releaseLease('1', '1', { raeson: '' }), () => client.bury('1', { failure: false }), () => client.buryLease('1', '1', { delay: 1 }), () => client.touch('1', { progres: '' }),
    () => client.kick(1, { keep: true }), () => client.reserveBatch(1, { leased: true }), () => client.wait('1', { timout: 1 }), () => client.listJobs('a', 'ready', { limit: 1 }),
    () => worker.run() && client.touchLease('1', '1', { progres: '' }),
  ]) await assert.rejects(async () => call(), wrong, call.toString());
  for (const o of [{ attempts: '3' }, { attempts: 252 }, { backoff: '1s' }, { attempts: 2, backoff: { type: 'fixed' } }]) {
    await assert.rejects(async () => queue.add('a', 1, o), { name: 'TypeError', message: /^(attempts|backoff) / });
  }
});

test('a job that arrives while the worker closes is given back, and has not failed', async t => {
  const { port } = await serveKind(t, 'memory');
  const { queue, worker } = pair(t, port, () => assert.fail('handled'), { concurrency: 2 });
  const watching = async () => (await queue.client.statsTube('mail').catch(() => ({})))['current-waiting'] === 1;
  while (!(await watching()));
  const closed = worker.close();
  const { id } = await queue.add('a', 1);
  await closed;
  const { state, failures, deliveries, reserves } = await queue.client.statsJob(id);
  assert.deepEqual([state, failures ?? 0, deliveries ?? 0, reserves], ['ready', 0, 0, 1]);
});

test('a job that arrives when its TTR can be over is handled if it is still held', async () => {
  for (const [touchLease, held] of [
    [async () => {}, true], [() => Promise.reject(new NotFoundError('touch-lease', 'NOT_FOUND')), false], [() => Promise.reject(new UnavailableError('gone')), false],
  ]) {
    const client = { touchLease, statsJob: async () => ({}) };
    const lease = new Lease(client, { id: '1', lease: '1', info: { ttr: 1 } }, Date.now() - 1001);
    assert.equal(await lease.begin(), held);
    lease.end();
  }
});

test('a forced close does not wait for the handler', async t => {
  const { port } = await serveKind(t, 'memory');
  let finish;
  const handled = new Promise(resolve => { finish = resolve; });
  const { queue, worker } = pair(t, port, () => handled);
  const active = once(worker, 'active');
  await queue.add('a', 1);
  await active;
  let completed = 0;
  worker.on('completed', () => completed++);
  await worker.close(true);
  finish();
  await handled;
  assert.equal(completed, 0);
  assert.equal((await queue.getJobCounts()).active, 1);
});

test('many attempts, with and without a backoff', async t => {
  const { port } = await serveKind(t, 'memory');
  const { queue } = pair(t, port, () => {}, { autorun: false });
  for (const [backoff, retry] of [[undefined, 'exp(1ms,1ms,250)'], [{ type: 'exponential', delay: 1000 }, 'exp(1s,3650d,250)']]) {
    const { id } = await queue.add('a', 1, { attempts: 251, backoff });
    assert.equal((await queue.client.statsJob(id)).retry, retry);
  }
});

test('a worker whose job was taken away is told, and its result dropped', async t => {
  const { port } = await serveKind(t, 'memory');
  const { queue, worker } = pair(t, port, job => new Promise(resolve => job.signal.addEventListener('abort', () => resolve())));
  const events = [];
  worker.on('completed', () => events.push('completed'));
  const [active, stalled] = [once(worker, 'active'), once(worker, 'stalled')];
  const { id } = await queue.add('a', 1, { ttr: 1, jobId: 'k' });
  await active;
  await queue.remove('k');
  assert.deepEqual(await stalled, [id]);
  assert.deepEqual(events, []);
});

test('beanstalkd: backoffStrategy retries, and attempts are unsupported', async t => {
  const { port } = await serveKind(t, 'beanstalkd');
  const { queue, worker } = pair(t, port, job => { if (job.attemptsMade < 2) throw new Error('again'); }, {
    settings: { backoffStrategy: made => (made < 5 ? 0 : -1) },
  });
  await assert.rejects(queue.add('a', 1, { attempts: 3 }), UnsupportedError);
  const completed = once(worker, 'completed');
  await queue.add('a', 1);
  const [job] = await completed;
  assert.equal(job.attemptsMade, 3);
});

test('10,000 jobs, and the server killed twice in the middle: nothing is lost', { timeout: 90_000 }, async t => {
  const store = `embedded:${directory()}`;
  const port = await freePort();
  let server = await serve(t, store, ['-f', '0'], port);
  const total = 10_000;
  const seen = new Map();
  let kills = 0;
  let reached = () => {};
  const done = new Promise(resolve => { reached = resolve; });
  const { queue, worker } = pair(t, port, job => {
    seen.set(job.data, (seen.get(job.data) ?? 0) + 1);
    if (seen.size === total) reached();
  }, { concurrency: 100 });
  let killing = Promise.resolve();
  worker.on('completed', () => {
    if (kills < 2 && seen.size > (total / 3) * (kills + 1)) {
      kills++;
      killing = killing.then(async () => { await server.stop(); server = await serve(t, store, ['-f', '0'], port); });
    }
  });
  for (let n = 0; n < total; n += 500) {
    const jobs = Array.from({ length: 500 }, (_, i) => ({ name: 'n', data: n + i, opts: { jobId: `job-${n + i}`, ttr: 3 } }));
    await queue.addBulk(jobs);
  }
  await done;
  await killing;
  await worker.close();
  assert.equal(kills, 2);
  assert.equal(seen.size, total);
  const counts = await queue.getJobCounts();
  assert.equal(counts.failed + counts.delayed, 0);
  t.diagnostic(`handled more than once: ${[...seen.values()].filter(n => n > 1).length}; left to come again: ${counts.waiting + counts.active}`);
});
