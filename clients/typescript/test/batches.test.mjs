import assert from 'node:assert/strict';
import { test } from 'node:test';
import { BatchSealedError, Client, DrainingError, NotFoundError, Queue, UnsupportedError, Worker } from 'redstalk';
import { engines, serve, serveKind, startRedis } from './servers.mjs';

async function connect(t, kind) {
  const { port } = await serveKind(t, kind);
  const client = new Client({ port });
  t.after(() => client.close());
  return client;
}

for (const kind of engines) {
  test(`a batch lets its jobs run when its members are deleted on ${kind}`, async t => {
    const c = await connect(t, kind);
    const batch = c.batch('import-7');
    assert.equal(await batch, batch); // it is no promise
    const members = await Promise.all(['one', 'two'].map(row => batch.add(row, { tube: 'rows' })));
    const mail = await batch.after('mail', { tube: 'mails' });
    const log = await batch.afterAll('log', { tube: 'mails' });
    assert.equal((await batch.stats()).state, 'open');
    await batch.seal();
    await assert.rejects(batch.add('three'), BatchSealedError);
    assert.deepEqual((await batch.members()).entries.map(e => String(e.id)).sort(), members.map(m => m.id).sort());
    await c.delete(members[0].id);
    assert.deepEqual(await batch.stats(), {
      name: 'import-7', state: 'sealed', sealed: true, total: 2, pending: 1, parked: 0, done: 1, gone: 0,
      after: [{ id: mail.id, tube: 'mails', state: 'delayed', all: false }, { id: log.id, tube: 'mails', state: 'delayed', all: true }],
    });
    await c.delete(members[1].id);
    await c.watch('mails');
    const ran = [await c.reserveWithTimeout(10), await c.reserveWithTimeout(10)];
    assert.deepEqual(ran.map(job => job.payload).sort(), ['log', 'mail']);
    assert.deepEqual((await c.listBatches()).batches.map(b => [b.name, b.state, b.done]), [['import-7', 'done', 2]]);

    const other = c.batch('12');
    await other.add('x');
    assert.equal(await other.cancel(), 1);
    assert.equal((await other.stats()).name, '12');
    await assert.rejects(c.batch('none').cancel(), NotFoundError);
    assert.throws(() => c.batch('a b'), TypeError);
  });

  test(`schedules on ${kind}`, async t => {
    const c = await connect(t, kind);
    await c.setSchedule('nightly', 'reports', 'all', { cron: '30 2 * * 1-5', tz: 'Europe/Berlin', retry: ['1m'], spread: 30, overlap: 'allow', catchUp: '1h', catchUpAll: 3, priority: 7, ttr: 600, delay: 5 });
    const nightly = await c.getSchedule('nightly');
    assert.equal(nightly.cron, '30 2 * * 1-5');
    assert.equal(nightly.paused, false);
    assert.ok(nightly.next > new Date());
    assert.deepEqual(await c.previewSchedule('nightly', 3), await c.previewCron('30 2 * * 1-5', 3, 'Europe/Berlin'));
    await c.pauseSchedule('nightly');
    assert.equal((await c.listSchedules()).schedules[0].paused, true);
    await c.resumeSchedule('nightly');
    const { id } = await c.runSchedule('nightly');
    assert.equal((await c.statsJob(id)).pri, 7);
    assert.equal((await c.getSchedule('nightly')).lastId, id);
    await c.deleteSchedule('nightly');
    await assert.rejects(c.getSchedule('nightly'), NotFoundError);
  });

  test(`job schedulers of a queue on ${kind}`, async t => {
    const { port } = await serveKind(t, kind);
    const queue = new Queue('mail', { connection: { port }, defaultJobOptions: { attempts: 3, jobId: 'not for schedulers' } });
    const other = new Queue('other', { connection: { port } });
    t.after(() => Promise.all([queue.close(), other.close()]));
    const scheduler = await queue.upsertJobScheduler('digest', { every: 1000 }, { name: 'digest', data: { to: 'all' } });
    assert.equal(scheduler.every, '1s');
    await queue.upsertJobScheduler('digest', { every: 1000 }, { name: 'digest', data: { to: 'all' } });
    await queue.upsertJobScheduler('yearly', { pattern: '@yearly', startDate: new Date() });
    let handle;
    const handling = new Promise(resolve => { handle = resolve; });
    const worker = new Worker('mail', async job => handle(job), { connection: { port } });
    const handled = await handling;
    await worker.close();
    assert.deepEqual([handled.name, handled.data], ['digest', { to: 'all' }]);
    await assert.rejects(other.upsertJobScheduler('digest', { every: 1000 }), /is one of the queue mail/);
    assert.equal(await other.getJobScheduler('digest'), undefined);
    assert.equal(await other.removeJobScheduler('digest'), false);
    assert.deepEqual((await queue.getJobSchedulers()).map(s => s.name), ['digest', 'yearly']);
    assert.equal(await queue.removeJobScheduler('digest'), true);
    assert.equal(await queue.removeJobScheduler('digest'), false);
    assert.deepEqual((await queue.getJobSchedulers()).map(s => s.name), ['yearly']);
    assert.equal(await queue.remove('nothing'), 0);
    await queue.add('a', {}, { jobId: 'k' });
    assert.equal(await queue.remove('k'), 1);
  });
}

test('on beanstalkd neither batches nor schedules exist', async t => {
  const c = await connect(t, 'beanstalkd');
  await assert.rejects(c.batch('b').add('x'), { feature: 'the put option batch' });
  await assert.rejects(c.batch('b').seal(), { feature: 'batches' });
  await assert.rejects(c.put('x', { after: 'b' }), UnsupportedError);
  await assert.rejects(c.setSchedule('s', 't', 'x', { every: 1 }), { feature: 'schedules' });
  await assert.rejects(c.listSchedules(), { feature: 'schedules' });
  assert.equal((await c.stats())['total-jobs'], 0);
});

test('a put that a draining server refuses goes to another one', async t => {
  const redis = `redis://127.0.0.1:${(await startRedis(t)).port}/0`;
  const servers = [await serve(t, redis), await serve(t, redis)];
  const drainers = servers.map(({ port }) => new Client({ port }));
  const client = new Client({ addresses: servers.map(({ port }) => `127.0.0.1:${port}`) });
  t.after(() => [client, ...drainers].forEach(c => c.close()));
  const drain = (c, verb) => c.connection.send({ line: verb, ok: ['DRAINING', 'NOT_DRAINING'] });
  await client.watch('jobs');
  await client.put('one', { tube: 'jobs' });
  const held = await client.reserveWithTimeout(5);
  await drain(drainers[0], 'drain');
  await client.put('two', { tube: 'jobs' });
  assert.equal((await client.reserveWithTimeout(5)).payload, 'two');
  await client.delete(held.id); // its connection is still the first
  await drain(drainers[1], 'drain');
  await assert.rejects(client.put('three', { tube: 'jobs' }), DrainingError);
  await drain(drainers[0], 'undrain');
  await client.put('four', { tube: 'jobs' });
  assert.equal((await client.reserveWithTimeout(5)).payload, 'four');
});
