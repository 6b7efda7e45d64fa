// Flows, jobs that are looked up, processors by name, and limiters.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { test } from 'node:test';
import { Client, FlowProducer, Queue, QueueEvents, UnrecoverableError, UnsupportedError, Worker } from 'redstalk';
import { engines, serve, serveKind } from './servers.mjs';

const sleep = ms => new Promise(resolve => setTimeout(resolve, ms));

/** What is made with a connection to a server, closed in the end. */
function making(t, port) {
  const connection = { port };
  const closing = one => { t.after(() => one.close(true)); return one; };
  return {
    queue: name => closing(new Queue(name, { connection })),
    flows: () => closing(new FlowProducer({ connection })),
    worker: (name, processor, options) => closing(new Worker(name, processor, { connection, ...options })),
  };
}

const sum = values => Object.values(values).reduce((total, value) => total + value, 0);

for (const kind of engines) {
  test(`a parent runs after its children, and reads what they have returned, on ${kind}`, async t => {
    const make = making(t, (await serveKind(t, kind)).port);
    const row = n => ({ name: 'row', queueName: 'rows', data: n });
    const tree = await make.flows().add({
      name: 'report', queueName: 'reports', opts: { keep: '1h', meta: { request: '7' } },
      children: [row(1), { name: 'part', queueName: 'reports', data: 10, children: [row(100), row(200)] }],
    });
    const ran = [];
    const queue = make.queue('reports');
    assert.equal(await tree.job.getState(), 'waiting-children');
    make.worker('rows', { row: async ({ data }) => { await sleep(20); ran.push(data); return data; } }, { concurrency: 3 });
    const total = async job => { ran.push(job.name); return sum(await job.getChildrenValues()) + (job.data ?? 0); };
    make.worker('reports', { part: total, report: total });
    assert.equal(await tree.job.waitUntilFinished(queue, 20_000), 311);
    assert.deepEqual(ran.slice(-2), ['part', 'report']);
    assert.deepEqual([tree.children.length, tree.children[1].children[1].job.data], [2, 200]);
    assert.equal((await queue.getJob(tree.children[1].job.id)).returnvalue, 310);
  });
}

test('a flow of 1,000 children of which one fails', async t => {
  const make = making(t, (await serveKind(t, 'embedded')).port);
  const flows = make.flows();
  const children = Array.from({ length: 1000 }, (_, n) => ({ name: 'row', queueName: 'rows', data: n, opts: { attempts: 1 } }));
  const parent = { name: 'sum', queueName: 'sums', opts: { keep: '1h' } };
  const [strict, lenient] = await flows.addBulk([{ ...parent, children }, { ...parent, children, ignoreFailures: true }]);
  make.worker('rows', ({ data }) => { if (data === 500) throw new Error('no'); return data; }, { concurrency: 100 });
  make.worker('sums', async job => sum(await job.getChildrenValues()));
  const queue = make.queue('sums');
  assert.equal(await lenient.job.waitUntilFinished(queue, 30_000), 999 * 500 - 500);
  await assert.rejects(strict.job.waitUntilFinished(queue, 10_000), { name: 'JobFailedError', how: 'parked' });
  assert.equal(await strict.job.getState(), 'failed');
  // Once the children are done after all, the parent runs.
  for (const { id } of (await queue.client.listJobs('rows', 'buried')).entries) await queue.client.delete(String(id));
  for (const end = Date.now() + 10_000; await strict.job.getState() === 'failed'; await sleep(10)) assert.ok(Date.now() < end); // a batch ends a moment later
  assert.equal(await strict.job.waitUntilFinished(queue, 10_000), 999 * 500 - 500);
});

test('a flow that cannot be added leaves nothing', async t => {
  const { port } = await serve(t, 'memory:', ['-z', '1000']);
  const make = making(t, port);
  const flows = make.flows();
  const leaf = { name: 'a', queueName: 'rows' };
  const big = { name: 'a', queueName: 'rows', data: 'x'.repeat(2000) };
  await assert.rejects(flows.add({ ...leaf, children: [leaf, { ...leaf, children: [leaf, big] }, leaf] }), { code: 'JOB_TOO_BIG' });
  const cyclic = { ...leaf };
  cyclic.children = [cyclic];
  await assert.rejects(flows.add(cyclic), RangeError);
  for (const bad of [{ ...leaf, opts: { after: 'x' } }, { ...leaf, opts: { batch: 'x' }, children: [leaf] }, { ...leaf, kids: [] }, { ...leaf, children: [{ ...leaf, data: 7n }] }, { ...leaf, children: [{ ...leaf, name: '' }] }]) {
    await assert.rejects(flows.add(bad), TypeError);
  }
  assert.deepEqual(await make.queue('rows').getJobCounts(), { waiting: 0, delayed: 0, active: 0, failed: 0 });
  const alone = await flows.add({ ...leaf, children: [] });
  assert.deepEqual(Object.keys(alone), ['job']);
});

test('a job is looked up in each state', async t => {
  const make = making(t, (await serveKind(t, 'memory')).port);
  const queue = make.queue('mail');
  const other = make.queue('other');
  const added = await queue.add('a', { n: 1 }, { delay: 60_000, jobId: 'order-7', attempts: 1, keep: '1h' });
  const job = await queue.getJob('order-7');
  assert.deepEqual([job.id, job.name, job.data, job.attemptsMade, await job.getState()], [added.id, 'a', { n: 1 }, 0, 'delayed']);
  assert.deepEqual([await other.getJob(added.id), await queue.getJob('order-8'), await queue.getJob('99')], [undefined, undefined, undefined]);
  await assert.rejects(job.retry(), /job 1 is not failed: it is delayed/);
  await job.changeDelay(30_000);
  assert.ok((await queue.client.statsJob(job.id))['time-left'] <= 30);
  await job.promote();
  assert.equal(await job.getState(), 'waiting');
  await assert.rejects(job.promote(), /it is waiting/);
  const worker = make.worker('mail', async job => {
    await job.updateProgress(50);
    await sleep(200);
    if (job.attemptsMade === 0) throw new Error('no such address');
    return 'sent';
  });
  await once(worker, 'active');
  await sleep(100);
  assert.deepEqual([await job.getState(), (await queue.getJob(job.id)).progress], ['active', 50]);
  await assert.rejects(job.remove(), { name: 'NotFoundError' });
  await once(worker, 'failed');
  const failed = await queue.getJob(job.id);
  assert.deepEqual([await failed.getState(), failed.failedReason, failed.attemptsMade], ['failed', 'no such address', 1]);
  await worker.close();
  await failed.remove();
  assert.deepEqual([await failed.getState(), (await queue.getJob(job.id)).returnvalue], ['unknown', undefined]);
  const gone = await queue.add('a', 0);
  await gone.remove();
  assert.deepEqual([await gone.getState(), await queue.getJob(gone.id)], ['unknown', undefined]);
});

test('a job with a name that has no processor is buried', async t => {
  const make = making(t, (await serveKind(t, 'memory')).port);
  const queue = make.queue('mail');
  const worker = make.worker('mail', { welcome: job => `hello ${job.data}` });
  const failures = [];
  worker.on('failed', (job, error) => failures.push(`${job.name}: ${error.message}`));
  for (const name of ['bye', 'constructor', '__proto__']) await queue.add(name, 0, { attempts: 5 });
  await queue.client.put('raw', { tube: 'mail' });
  await queue.client.put('{"name":"welcome","data":"old"}', { tube: 'mail' });
  await queue.client.put('[{"type":"welcome"}]', { tube: 'mail' });
  const results = [];
  worker.on('completed', (_, result) => results.push(result));
  await queue.add('welcome', 'new', { meta: { 'content-type': 'text/x' } });
  while (results.length < 2) await sleep(10);
  assert.deepEqual(results, ['hello old', 'hello new']);
  assert.deepEqual(failures, ['bye', 'constructor', '__proto__', '', ''].map(name => `${name}: no processor for this job: ${name}`));
  assert.equal((await queue.getJobCounts()).failed, 5);
  for (const bad of [{}, { a: 1 }, null, 'x']) assert.throws(() => new Worker('mail', bad), TypeError);
  for (const name of ['', undefined, 7]) await assert.rejects(queue.add(name, 0), TypeError);
  const last = await queue.add('last', 7, { delay: 1000 });
  assert.equal((await queue.client.peek(last.id)).payload, '{"type":"last","data":7}');
  assert.equal((await queue.client.statsJob(last.id))['meta'], '{content-type: "application/json"}');
});

test('a limiter is the rate of the policy, whatever worker has the jobs', async t => {
  const make = making(t, (await serveKind(t, 'memory')).port);
  const queue = make.queue('mail');
  await queue.client.setPolicy('mail', { keep: '1h', rate: '100/m' });
  await queue.addBulk(Array.from({ length: 25 }, (_, n) => ({ name: 'a', data: n })));
  const starts = [];
  for (let n = 0; n < 2; n++) make.worker('mail', () => starts.push(Date.now()), { concurrency: 20, limiter: { max: 10, duration: 1000 } });
  while (starts.length < 25) await sleep(10);
  assert.deepEqual(await queue.client.getPolicy('mail'), { keep: '1h', rate: '10/s' });
  for (let n = 10; n < 25; n++) assert.ok(starts[n] - starts[n - 10] > 800, `${starts[n] - starts[n - 10]} ms`);
  const odd = [{ max: 0, duration: 1000 }, { max: 1.5, duration: 1000 }, { max: Infinity, duration: 1000 }, { max: '5', duration: 1000 }, { max: 5, duration: 5000 },
    { max: 5 }, { max: 5, duration: '1000' }, { max: 5, duration: NaN }, { max: 5, duration: 1000, groupKey: 'x' }, {}, 5, true];
  for (const limiter of odd) assert.throws(() => new Worker('mail', () => {}, { limiter }), TypeError, String(limiter.duration));
});

test('a worker that cannot set its limit takes no job, and says why', async t => {
  const make = making(t, (await serveKind(t, 'beanstalkd')).port);
  const queue = make.queue('mail');
  await queue.add('a', 1);
  const worker = make.worker('mail', () => assert.fail('a job'), { limiter: { max: 5, duration: 1000 } });
  const failure = await new Promise(resolve => worker.on('error', resolve));
  assert.ok(failure instanceof UnsupportedError);
  assert.equal((await queue.getJobCounts()).waiting, 1);
  await worker.close();
});

test('all that has connections is closed by await using', async t => {
  const { port } = await serveKind(t, 'memory');
  const connection = { port };
  const all = [new Client(connection), new Queue('a', { connection }), new FlowProducer({ connection }), new QueueEvents('a', { connection }), new Worker('a', () => {}, { connection })];
  for (const one of all) await one[Symbol.asyncDispose]();
  await assert.rejects(all[1].add('a', 0), { name: 'ClosedError' });
});
