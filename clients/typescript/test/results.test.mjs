// Results of jobs, and waits for them.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { test } from 'node:test';
import { ClosedError, NotFoundError, NotKeptError, Queue, TimedOutError, UnrecoverableError, Worker } from 'redstalk';
import { directory, serve, serveKind, startRedis } from './servers.mjs';

/** The engines that keep records. */
const keeping = ['memory', 'embedded'];

function pair(t, port, processor, options = {}) {
  const connection = { port, reconnect: { first: 10, longest: 50 } };
  const queue = new Queue('mail', { connection });
  const worker = new Worker('mail', processor, { connection, ...options });
  t.after(async () => { await worker.close(true); await queue.close(); });
  return { queue, worker };
}

for (const kind of keeping) {
  test(`a result is what the processor returns, on ${kind}`, async t => {
    const { port } = await serveKind(t, kind);
    const { queue, worker } = pair(t, port, ({ name, data }) => {
      if (name === 'never') throw new UnrecoverableError('line, 12: no such address');
      if (name === 'bad') throw new Error('try, 2: again');
      return data;
    });
    const completed = once(worker, 'completed');
    const job = await queue.add('sum', { n: [1, 'é'] }, { removeOnComplete: { age: 60 } });
    assert.deepEqual(await job.waitUntilFinished(queue, 10_000), { n: [1, 'é'] });
    assert.deepEqual(job.returnvalue, { n: [1, 'é'] });
    assert.deepEqual((await completed)[0].returnvalue, { n: [1, 'é'] });
    for (const value of [null, 0, '', 'text', false]) {
      assert.deepEqual(await (await queue.add('any', value, { keep: 60 })).waitUntilFinished(), value);
    }
    assert.equal(await (await queue.add('nothing', undefined, { removeOnComplete: 1000 })).waitUntilFinished(queue), undefined);

    const failures = [['never', { attempts: 1 }, 'parked', 'line, 12: no such address'], ['bad', { attempts: 2, dead: 'morgue' }, 'dead', 'try, 2: again'],
      ['late', { expire: 0.001, delay: 60_000 }, 'deleted', 'the job was deleted']];
    for (const [name, options, how, message] of failures) {
      const added = await queue.add(name, 1, { ...options, removeOnComplete: false });
      if (how === 'deleted') await queue.client.delete(added.id);
      await assert.rejects(added.waitUntilFinished(queue), { name: 'JobFailedError', how, message });
      assert.equal(added.failedReason, message);
    }
    const { jobs } = await queue.client.ended('mail', { count: 2 });
    assert.deepEqual(jobs.map(({ how }) => how), ['deleted', 'dead']);
    assert.deepEqual([jobs[1].reason, jobs[1].failures, jobs[1].all['to-tube']], ['try, 2: again', 2, 'morgue']);
    const record = await queue.client.statsEnded(job.id);
    assert.deepEqual([record.how, record.tube, record.result.toString(), record.deliveries], ['done', 'mail', '{"n":[1,"é"]}', 1]);
    assert.equal(record.until - record.ended, 60_000);
  });

  test(`waits that are in vain end, on ${kind}`, async t => {
    const { port } = await serveKind(t, kind);
    const { queue } = pair(t, port, () => 7, { autorun: false });
    const kept = await queue.add('a', 1, { keep: '1h' });
    const other = await queue.add('a', 1, { removeOnComplete: true });
    await assert.rejects(kept.waitUntilFinished(queue, 0), TimedOutError);
    const begin = Date.now();
    await assert.rejects(kept.waitUntilFinished(queue, 300), TimedOutError);
    assert.ok(Date.now() - begin >= 295);
    await assert.rejects(other.waitUntilFinished(queue), NotKeptError);
    await assert.rejects(queue.client.wait('99'), NotFoundError);
    await assert.rejects(queue.client.wait('1\r\nquit'), TypeError);
    const standing = assert.rejects(kept.waitUntilFinished(), ClosedError);
    await queue.close();
    await standing;
    await assert.rejects(kept.waitUntilFinished(), ClosedError);
  });
}

test('a result that cannot be kept is dropped, and the job is done', async t => {
  const { port } = await serveKind(t, 'memory');
  const cyclic = {};
  cyclic.self = cyclic;
  const bad = [cyclic, 7n, 'x'.repeat(65_536)];
  const { queue, worker } = pair(t, port, job => bad[job.data]);
  const errors = [];
  worker.on('error', error => errors.push(error.message));
  for (const n of bad.keys()) {
    // Nobody can get it, so nobody hears of it.
    await queue.add('unwanted', n);
    assert.equal(await (await queue.add('wanted', n, { keep: '1h' })).waitUntilFinished(queue, 10_000), undefined);
  }
  assert.equal(errors.length, 3);
  assert.match(errors[0], /^the result of job 2 was dropped: .*circular/);
  assert.match(errors[2], /^the result of job 6 was dropped: JOB_TOO_BIG/);
});

test('a job in a tube whose policy keeps records has a result, until the server is told otherwise', async t => {
  const { port } = await serveKind(t, 'memory');
  let go = () => {};
  const { queue } = pair(t, port, ({ data }) => data || new Promise(resolve => { go = () => resolve('late'); }));
  await queue.client.setPolicy('mail', { keep: '1h' });
  const first = await queue.add('a', 'first');
  assert.equal(await first.waitUntilFinished(queue, 10_000), 'first');
  const second = await queue.add('a', '');
  while ((await queue.getJobCounts()).active === 0);
  await queue.client.setPolicy('mail');
  go();
  await assert.rejects(second.waitUntilFinished(queue, 10_000), error => error instanceof NotKeptError || error instanceof NotFoundError);
  assert.deepEqual(await queue.getJobCounts(), { waiting: 0, delayed: 0, active: 0, failed: 0 });
});

test('waits behind long ones end soon, and use few connections', async t => {
  const { port } = await serveKind(t, 'memory');
  const { queue } = pair(t, port, ({ data }) => data, { concurrency: 50 });
  const add = (n, options) => queue.add('a', n, { keep: '1h', ...options });
  const never = await Promise.all(Array.from({ length: 200 }, (_, n) => add(n, { delay: 3_600_000 })));
  const ends = never.map(job => assert.rejects(job.waitUntilFinished(queue), ClosedError));
  for (let n = 0; n < 5; n++) {
    const begin = Date.now();
    assert.equal(await (await add(n)).waitUntilFinished(queue, 10_000), n);
    assert.ok(Date.now() - begin < 5_000);
  }
  const most = Number((await queue.client.stats())['current-connections']);
  assert.ok(most <= 8, `${most} connections`);
  await queue.close();
  await Promise.all(ends);
});

/** How many jobs: 10,000 take half a minute on a quiet machine. */
const many = Number(process.env.RESULTS ?? 2000);

for (const kind of ['embedded', 'redis']) {
  test(`no result of many jobs is missed while the server is killed, on ${kind}`, async t => {
    const store = kind === 'redis' ? `redis://127.0.0.1:${(await startRedis(t)).port}/0` : `embedded:${directory()}`;
    let { port, stop } = await serve(t, store);
    let done = 0;
    const { queue, worker } = pair(t, port, async ({ data }) => { await null; return data * 2; }, { concurrency: 100 });
    worker.on('error', () => {});
    const jobs = Array.from({ length: many }, (_, n) => ({ name: 'a', data: n, opts: { jobId: `job-${n}`, keep: '1h', ttr: 5 } }));
    const waits = queue.addBulk(jobs).then(added => Promise.all(added.map(async job => {
      assert.equal(await job.waitUntilFinished(queue, 50_000), job.data * 2);
      done++;
    })));
    for (const limit of [1, many * 0.3, many * 0.6]) {
      while (done < limit) await new Promise(resolve => setTimeout(resolve, 1));
      await stop();
      ({ stop } = await serve(t, store, [], port));
    }
    await waits;
    assert.equal(done, many);
  });
}
