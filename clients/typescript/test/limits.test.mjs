// The time of processors is limited, and a job that is deleted ends them.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { JobDeletedError, JobTimeoutError, NotFinishedError, Queue, UnrecoverableError, Worker } from 'redstalk';
import { Lease } from '../dist/esm/lease.js';
import { kinds, serveKind } from './servers.mjs';

Lease.grace = 400;

const sleep = ms => new Promise(resolve => setTimeout(resolve, ms));
const next = (worker, event) => new Promise(resolve => worker.on(event, (...args) => resolve(args)));
const aborted = signal => new Promise(resolve => signal.addEventListener('abort', () => resolve(signal.reason)));

/** Buries what has failed. */
const settings = { backoffStrategy: () => -1 };

/** A queue and a worker of a server; both are closed in the end. */
async function pair(t, kind, processor, options) {
  const { port } = await serveKind(t, kind);
  const connection = { port };
  const queue = new Queue('mail', { connection });
  const worker = new Worker('mail', processor, { connection, ...options });
  t.after(async () => { await worker.close(true); await queue.close(); });
  return { queue, worker };
}

/** Resolves to what a worker says of the first jobs that end, by their names. */
function ends(worker, count) {
  const seen = {};
  return new Promise(resolve => {
    const note = (job, what) => { seen[job.name] = what; if (Object.keys(seen).length === count) resolve(seen); };
    worker.on('completed', (job, result) => note(job, result));
    worker.on('failed', (job, error) => note(job, error));
  });
}

for (const kind of kinds) {
  test(`a processor whose time is over is told, and fails unless it resolves or is not finished, on ${kind}`, async t => {
    let attempts = 0;
    const { queue, worker } = await pair(t, kind, async job => {
      const reason = await aborted(job.signal);
      if (job.name === 'done') return reason.message;
      if (job.name === 'never') throw new UnrecoverableError('never');
      if (job.name === 'goes on' && !attempts++) throw new NotFinishedError();
      if (job.name === 'goes on') return job.attemptsMade;
      throw job.name === 'itself' ? reason : new Error('stopped');
    }, { timeout: 200, concurrency: 5, settings });
    const all = ends(worker, 5);
    const ids = {};
    for (const name of ['done', 'never', 'itself', 'stops', 'goes on']) ids[name] = (await queue.add(name, 0)).id;
    const seen = await all;
    assert.equal(seen.done, 'timeout');
    assert.equal(seen.never.message, 'never');
    assert.ok(seen.itself instanceof JobTimeoutError && seen.stops instanceof JobTimeoutError);
    assert.deepEqual([seen['goes on'], attempts], [kind === 'beanstalkd' ? 1 : 0, 2]);
    assert.equal(seen.stops.cause.message, 'stopped');
    const { state, reason } = await queue.client.statsJob(ids.stops);
    assert.deepEqual([state, reason], ['buried', kind === 'beanstalkd' ? undefined : 'timeout']);
  });

  test(`a processor that ignores that its time is over is named, and has its slot until it ends, on ${kind}`, async t => {
    let finish;
    const { queue, worker } = await pair(t, kind, job => job.name === 'hangs' && new Promise(resolve => { finish = resolve; }), { timeout: 100, settings });
    const [failed, said] = [next(worker, 'failed'), next(worker, 'error')];
    const { id } = await queue.add('hangs', 0, { ttr: 2 });
    await queue.add('next', 0);
    const [job, error] = await failed;
    assert.ok(job.id === id && error instanceof JobTimeoutError);
    assert.match((await said)[0].message, new RegExp(`job ${id} of mail ignores`));
    assert.deepEqual(await queue.getJobCounts(), { waiting: 1, delayed: 0, active: 0, failed: 1 });
    const good = next(worker, 'completed');
    finish();
    assert.equal((await good)[0].name, 'next');
    assert.equal((await queue.getJobCounts()).failed, 1);
  });
}

test('a close does not wait for a processor on which the worker has given up', async t => {
  const { queue, worker } = await pair(t, 'memory', () => new Promise(() => {}), { timeout: 100 });
  worker.on('error', () => {});
  const failed = next(worker, 'failed');
  await queue.add('hangs', 0);
  await failed;
  await worker.close();
});

test('the timeout can be a function of the job', async t => {
  const limits = { short: 50, unlimited: 0, usual: undefined, text: 'soon', nan: NaN, throws: null };
  const { queue, worker } = await pair(t, 'memory', job => sleep(300).then(() => job.signal.throwIfAborted()), {
    concurrency: 6, timeout: job => (job.name === 'throws' ? job.data.none.at : limits[job.name]),
  });
  const all = ends(worker, 6);
  for (const name of Object.keys(limits)) await queue.add(name, 0);
  const seen = await all;
  assert.deepEqual([seen.unlimited, seen.usual], [undefined, undefined]);
  assert.deepEqual(['short', 'text', 'nan', 'throws'].map(name => seen[name].name), ['JobTimeoutError', 'TypeError', 'TypeError', 'TypeError']);
  for (const timeout of [NaN, -1, '5']) assert.throws(() => new Worker('mail', () => {}, { timeout }), TypeError);
});

for (const kind of kinds.filter(kind => kind !== 'beanstalkd')) {
  test(`a job that is deleted or flushed aborts its signal, and its result is dropped, on ${kind}`, async t => {
    const reasons = [];
    const { queue, worker } = await pair(t, kind, async job => {
      reasons.push(await aborted(job.signal));
      throw new Error('cancelled');
    });
    for (const event of ['error', 'failed', 'completed']) worker.on(event, () => assert.fail(event));
    for (const cancel of [() => queue.remove('k'), () => queue.client.flushTube('mail', 'reserved')]) {
      const [active, stalled] = [next(worker, 'active'), next(worker, 'stalled')];
      const { id } = await queue.add('a', 0, { ttr: 3, jobId: 'k', keyTtl: 0 });
      await active;
      await cancel();
      assert.deepEqual(await stalled, [id]);
    }
    assert.ok(reasons.length === 2 && reasons.every(reason => reason instanceof JobDeletedError));
  });
}
