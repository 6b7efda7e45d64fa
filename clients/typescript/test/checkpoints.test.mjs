// A job that takes long goes on where it was, after a deploy or the death of its worker, and shows how far it is.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { Client, JobDeletedError, JobLostError, NotFinishedError, NotFoundError, Queue, UnsupportedError, Worker } from 'redstalk';
import { serveKind } from './servers.mjs';

const sleep = ms => new Promise(resolve => setTimeout(resolve, ms));
const aborted = signal => new Promise(resolve => signal.addEventListener('abort', () => resolve(signal.reason)));

/** A queue of a server, and a function that starts workers; all are closed in the end. */
async function setUp(t, kind) {
  const { port } = await serveKind(t, kind);
  const connection = { port };
  const queue = new Queue('import', { connection });
  t.after(() => queue.close());
  const work = (processor, options) => {
    const worker = new Worker('import', processor, { connection, ...options });
    worker.on('error', error => assert.fail(error));
    t.after(() => worker.close(true));
    return worker;
  };
  return { port, queue, client: queue.client, work };
}

for (const kind of ['memory', 'embedded']) {
  test(`a processor saves and stops when its worker closes, and another worker goes on, on ${kind}`, async t => {
    const { queue, client, work } = await setUp(t, kind);
    const first = work(async job => {
      assert.equal(job.lastCheckpoint(), undefined);
      await job.checkpoint({ row: 1 });
      const stopped = aborted(job.stopping);
      job.signal.throwIfAborted();
      first.emit('halfway');
      await stopped;
      await job.checkpoint({ row: 2, text: 'é' });
      await job.updateProgress('2/3');
      await job.updateProgress('2/3, stopped');
      throw new NotFinishedError();
    });
    for (const event of ['failed', 'completed', 'stalled']) first.on(event, () => assert.fail(event));
    const halfway = once(first, 'halfway');
    const { id } = await queue.add('rows', 0, { attempts: 1 });
    await halfway;
    assert.equal((await client.statsJob(id))['checkpoint-bytes'], 9);
    const closing = Date.now();
    const closed = first.close();
    let begun;
    const second = work(job => { begun = Date.now(); return [job.lastCheckpoint(), job.attemptsMade, job.id]; });
    const [, result] = await once(second, 'completed');
    assert.deepEqual(result, [{ row: 2, text: 'é' }, 0, id]);
    // The TTR is a minute. In an idle machine it takes some milliseconds.
    assert.ok(begun - closing < 5_000, `${begun - closing} ms`);
    t.diagnostic(`went on after ${begun - closing} ms`);
    await closed;
    await assert.rejects(client.getCheckpoint(id), NotFoundError);
  });

  test(`a job whose worker was killed goes on from its checkpoint, on ${kind}`, async t => {
    const { port, queue, work } = await setUp(t, kind);
    const program = `
      import { Worker } from 'redstalk';
      new Worker('import', async job => {
        for (let row = 1; ; row++) {
          await job.checkpoint({ row });
          console.log(row);
        }
      }, { connection: { port: ${port} } });`;
    const child = spawn(process.execPath, ['--input-type=module', '-e', program], { cwd: fileURLToPath(new URL('..', import.meta.url)), stdio: ['ignore', 'pipe', 'inherit'] });
    t.after(() => child.kill('SIGKILL'));
    await queue.add('rows', 0, { ttr: 2, attempts: 2 });
    let output = '';
    for await (const text of child.stdout) {
      output += text;
      if (output.split('\n').length > 20) child.kill('SIGKILL');
    }
    const acknowledged = Number(output.trim().split('\n').at(-1));
    const [, { row }] = await once(work(job => job.lastCheckpoint()), 'completed');
    assert.ok(row === acknowledged || row === acknowledged + 1, `${row} after ${acknowledged}`);
  });

  test(`only the present lease saves a checkpoint, on ${kind}`, async t => {
    const { client } = await setUp(t, kind);
    await client.watch('import');
    const { id } = await client.put('x', { tube: 'import', ttr: 1 });
    const late = await client.reserveLease(0);
    await client.checkpointLease(id, late.lease, 'late');
    const now = await client.reserveLease(5);
    assert.deepEqual([now.id, now.info['checkpoint-bytes'], Buffer.from(now.info.checkpoint, 'base64').toString()], [id, 4, 'late']);
    await assert.rejects(client.checkpointLease(id, late.lease, 'later'), NotFoundError);
    await assert.rejects(client.checkpoint(id, 'later'), NotFoundError);
    assert.equal((await client.getCheckpoint(id)).toString(), 'late');
    await client.checkpointLease(id, now.lease, '');
    await assert.rejects(client.getCheckpoint(id), NotFoundError);

    await client.releaseLease(id, now.lease);
    await client.reserveJob(id);
    await client.checkpoint(id, Buffer.from([0, 255]));
    assert.deepEqual([...(await client.getCheckpoint(id))], [0, 255]);
    await client.touch(id, { progress: 'a\t"1/2"' });
    assert.equal((await client.statsJob(id)).progress, 'a\t"1/2"');
  });

  test(`a kick or replay drops the checkpoint, unless it is to be kept, on ${kind}`, async t => {
    const { queue, client } = await setUp(t, kind);
    const { id } = await client.put('x', { tube: 'import' });
    const kept = () => client.getCheckpoint(id).then(String, () => 'none');
    for (const [again, ...args] of [
      ['kickJob', id], ['replayJob', id], ['retryJobs'],
    ]) {
      for (const keepCheckpoint of [true, false]) {
        await client.reserveJob(id);
        await client.checkpoint(id, 'saved');
        await client.bury(id);
        assert.equal(await kept(), 'saved');
        await (again === 'retryJobs' ? queue : client)[again](...args, { keepCheckpoint });
        assert.equal((await client.statsJob(id)).state, 'ready');
        assert.equal(await kept(), keepCheckpoint ? 'saved' : 'none', again);
      }
    }
  });
}

test('a processor whose job is gone learns it from a checkpoint', async t => {
  const { queue, work } = await setUp(t, 'memory');
  const errors = [];
  const worker = work(async job => {
    await (job.name === 'deleted' ? queue.remove('k') : queue.client.flushTube('import', 'reserved'));
    const [error, after, progress] = [await job.checkpoint(1).catch(e => e), await job.checkpoint(2).catch(e => e), await job.updateProgress(1).catch(e => e)];
    assert.ok(error === job.signal.reason && after === error && progress === error && job.lastCheckpoint() === undefined);
    errors.push(error);
  });
  for (const name of ['deleted', 'flushed']) {
    const stalled = once(worker, 'stalled');
    const { id } = await queue.add(name, 0, { jobId: 'k', keyTtl: 0 });
    assert.deepEqual(await stalled, [id]);
  }
  assert.ok(errors.length === 2 && errors.every(error => error instanceof JobDeletedError && error instanceof JobLostError));
});

test('what is no checkpoint is an error at the call', async t => {
  const { queue, client, work } = await setUp(t, 'memory');
  const worker = work(async job => {
    if (job.name === 'raw') return job.lastCheckpoint();
    await job.checkpoint(null);
    assert.equal(job.lastCheckpoint(), null);
    await job.checkpoint({ ok: [1] });
    await assert.rejects(job.checkpoint('x'.repeat(65_535)), { name: 'ServerError', code: 'JOB_TOO_BIG' });
    await assert.rejects(job.checkpoint(() => {}), TypeError);
    await assert.rejects(job.checkpoint(1n), TypeError);
    assert.deepEqual([job.lastCheckpoint(), await client.getCheckpoint(job.id).then(String)], [{ ok: [1] }, '{"ok":[1]}']);
    await job.checkpoint(undefined);
    assert.equal(job.lastCheckpoint(), undefined);
    await assert.rejects(client.getCheckpoint(job.id), NotFoundError);
    return 'fine';
  }, { autorun: false });
  const { id } = await client.put(JSON.stringify({ name: 'raw' }), { tube: 'import' });
  await client.reserveJob(id);
  await client.checkpoint(id, 'no JSON');
  await client.release(id);
  const [failed, completed] = [once(worker, 'failed'), once(worker, 'completed')];
  await queue.add('rows', 0);
  void worker.run();
  assert.match((await failed)[1].message, new RegExp(`^the checkpoint of job ${id} is no JSON`));
  assert.equal((await completed)[1], 'fine');
});

test('checkpoints that are too many for one reply are read one by one', async t => {
  const { queue, client, work } = await setUp(t, 'memory');
  const count = 80; // 5 MB
  const jobs = await queue.addBulk(Array.from({ length: count }, (_, n) => ({ name: 'rows', data: n })));
  for (const { id, data } of jobs) {
    await client.reserveJob(id);
    await client.checkpoint(id, JSON.stringify(`${data} `.padEnd(65_000)));
    await client.release(id);
  }
  const seen = [];
  const worker = work(job => seen.push(job.data === Number(job.lastCheckpoint().trim())), { concurrency: count });
  await new Promise(resolve => worker.on('completed', () => seen.length === count && resolve()));
  assert.ok(seen.every(Boolean));
});

test('progress is sent once a second, and the last one always', async t => {
  const { queue, client, work } = await setUp(t, 'memory');
  const shown = new Set();
  const worker = work(async job => {
    const end = Date.now() + 1_500;
    for (let n = 0; Date.now() < end; n++) {
      await job.updateProgress(n / 3);
      shown.add((await client.statsJob(job.id)).progress);
    }
    for (const bad of ['x'.repeat(257), { text: 'é'.repeat(130) }]) await assert.rejects(job.updateProgress(bad), RangeError);
    for (const bad of [NaN, Infinity, undefined, () => {}, 1n]) await assert.rejects(job.updateProgress(bad), TypeError);
    await job.updateProgress({ done: 7, of: 10 });
    await job.updateProgress(`7/10 "é"\n`);
    throw new Error('no');
  });
  let calls = 0;
  worker.on('progress', (job, progress) => calls += progress === `7/10 "é"\n` || job.name === 'rows' ? 1 : 0);
  const failed = once(worker, 'failed');
  const { id } = await queue.add('rows', 0);
  await failed;
  assert.equal((await client.statsJob(id)).progress, `7/10 "é"\n`);
  shown.delete(undefined);
  assert.ok(shown.size >= 1 && shown.size <= 2, [...shown].join());
  assert.ok([...shown].every(text => /^\d+(\.\d\d?)? %$/.test(text)), [...shown].join());
  assert.ok(calls > 10);
});

test('progress within the second reaches a job that goes on, and keeps it', async t => {
  const { queue, client, work } = await setUp(t, 'memory');
  const worker = work(async job => {
    // Each of them moves the next touch; the TTR is not over meanwhile.
    for (let n = 0; n < 12; n++) {
      await job.updateProgress(`${n}/12`);
      await sleep(200);
    }
    while ((await client.statsJob(job.id)).progress !== '11/12') await sleep(20);
  });
  worker.on('stalled', () => assert.fail('stalled'));
  const completed = once(worker, 'completed');
  await queue.add('rows', 0, { ttr: 1 });
  await completed;
});

test('on beanstalkd checkpoints and progress are unsupported, and a job that is not finished is released', async t => {
  const { queue, client, work } = await setUp(t, 'beanstalkd');
  let calls = 0;
  const worker = work(async job => {
    if (++calls === 1) throw new NotFinishedError();
    assert.equal(job.lastCheckpoint(), undefined);
    await assert.rejects(job.checkpoint(1), { name: 'UnsupportedError', capability: 'checkpoint' });
    await assert.rejects(job.updateProgress(1), { name: 'UnsupportedError', capability: 'progress' });
    for (const call of [client.touch('1', { progress: '1' }), client.kick(1, { keepCheckpoint: true }), client.kickJob('1', { keepCheckpoint: true }), client.getCheckpoint('1')]) {
      await assert.rejects(call, UnsupportedError);
    }
  });
  worker.on('failed', (_, error) => assert.fail(error));
  const completed = once(worker, 'completed');
  await queue.add('rows', 0);
  await completed;
  assert.equal(calls, 2);
});
