import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  Client, DuplicateError, NotFoundError, TimedOutError, UnsupportedError,
} from 'redstalk';
import { engines, kinds, serveKind } from './servers.mjs';

async function connect(t, kind) {
  const { port } = await serveKind(t, kind);
  const client = new Client({ port });
  t.after(() => client.close());
  return client;
}

for (const kind of kinds) {
  test(`the commands of jackd on ${kind}`, async t => {
    const c = await connect(t, kind);
    assert.equal(await c.use('mails'), 'mails');
    const { id } = await c.put('hello\r\nworld', { priority: 7, ttr: 30 });
    await c.put('later', { delay: 100 });
    assert.equal((await c.peek(id)).payload, 'hello\r\nworld');
    assert.equal((await c.peekReady()).id, id);
    assert.equal((await c.peekDelayed()).payload, 'later');
    await assert.rejects(c.peekBuried(), NotFoundError);
    assert.equal(await c.watch('mails'), 2);
    assert.equal(await c.ignore('default'), 1);
    await assert.rejects(c.ignore('mails'), { code: 'NOT_IGNORED' });
    assert.deepEqual(await c.listTubesWatched(), ['mails']);
    const job = await c.reserve();
    assert.equal(job.id, id);
    await c.touch(id);
    assert.equal(await c.release(id, { priority: 3 }), 'RELEASED');
    assert.equal((await c.statsJob(id)).pri, 3);
    assert.equal((await c.reserveJob(id)).id, id);
    await c.bury(id);
    assert.equal((await c.peekBuried()).id, id);
    await c.kickJob(id);
    await c.reserveWithTimeout(0);
    await c.bury(id);
    assert.equal(await c.kick(10), 1);
    assert.equal((await c.statsTube('mails'))['current-jobs-ready'], 1);
    assert.ok((await c.listTubes()).includes('mails'));
    assert.equal(await c.listTubeUsed(), 'mails');
    await c.pauseTube('mails', { delay: 10 });
    await assert.rejects(c.reserveWithTimeout(0), TimedOutError);
    await c.pauseTube('mails', { delay: 0 });
    await c.delete((await c.reserveWithTimeout(1)).id);
    await assert.rejects(c.delete(id), NotFoundError);
    assert.equal(typeof (await c.stats())['current-connections'], 'number');
    await c.quit();
    await assert.rejects(c.stats(), { name: 'ClosedError' });
  });

  test(`many puts are pipelined, and keep their order and tubes on ${kind}`, async t => {
    const c = await connect(t, kind);
    const big = Buffer.alloc(60_000, 'x');
    const all = await Promise.all(Array.from({ length: 300 }, (_, n) => c.put(n % 50 ? `${n}` : big, { tube: `t${n % 3}` })));
    assert.deepEqual(all.map(r => Number(r.id)), all.map((_, n) => Number(all[0].id) + n));
    assert.equal((await c.statsTube('t1'))['current-jobs-ready'], 100);
    assert.deepEqual((await c.peek(all[50].id)).body, big);
    assert.equal((await c.peek(all[52].id)).payload, '52');
  });
}

test('on beanstalkd an error names the missing feature, and nothing is sent', async t => {
  const c = await connect(t, 'beanstalkd');
  assert.equal((await c.capabilities()).size, 0);
  const options = {
    key: 'k', keyTtl: 1, onDuplicate: 'fail', retry: [1], max: 1, dead: 'd', expire: 1, onExpire: 'park',
    meta: { a: 'b' }, trace: 'x', group: 'g', jitter: 1, at: Date.now(),
  };
  for (const [name, value] of Object.entries(options)) {
    const tag = name.replace(/[A-Z]/g, letter => `-${letter.toLowerCase()}`);
    await assert.rejects(c.put('x', { [name]: value }), error => error instanceof UnsupportedError && error.feature === `the put option ${tag}`);
  }
  await assert.rejects(c.put('x', { delay: 0.5 }), UnsupportedError);
  await assert.rejects(c.reserveLease(0), { feature: 'leases' });
  await assert.rejects(c.reserveBatch(1), { feature: 'reserve-batch' });
  await assert.rejects(c.setPolicy('a', { max: 1 }), { feature: 'policies' });
  await assert.rejects(c.listJobs('a', 'ready'), { feature: 'list-jobs' });
  await assert.rejects(c.deleteKey('a', 'b'), { feature: 'keys' });
  await assert.rejects(c.setGroup('a', 'b'), { feature: 'groups' });
  await assert.rejects(c.release('1', { reason: 'x' }), { feature: 'reasons' });
  await assert.rejects(c.watch('a', 2), { feature: 'weights of tubes' });
  assert.equal((await c.stats())['total-jobs'], 0);
});

for (const kind of engines) {
  test(`put options on ${kind}`, async t => {
    const c = await connect(t, kind);
    const { id, state } = await c.put('x', {
      tube: 'mails', key: 'k', keyTtl: '1h', retry: { first: 1, longest: '1m', count: 3 }, jitter: 0, max: 9, dead: 'lost',
      expire: '1h', onExpire: 'park', meta: { request: 'say "hi"\\ – ü\n' }, group: 'Ann & Co',
      trace: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01', delay: 0.25,
    });
    assert.equal(state, undefined);
    const stats = await c.statsJob(id);
    assert.equal(stats.key, 'k');
    assert.equal(stats.max, 9);
    assert.equal(stats.dead, 'lost');
    assert.equal(stats.group, 'Ann & Co');
    assert.equal(stats['on-expire'], 'park');
    assert.deepEqual(await c.put('x', { tube: 'mails', key: 'k', keyTtl: '1h' }), { id, state: 'DELAYED' });
    await assert.rejects(c.put('x', { tube: 'mails', key: 'k', onDuplicate: 'fail' }), error => error instanceof DuplicateError && error.id === id);
    assert.equal((await c.find('mails', 'k')).id, id);
    await c.watch('mails');
    const [job] = await c.reserveBatch(10, { seconds: 5, lease: true });
    assert.equal(job.info.key, 'k');
    assert.equal(job.info.tube, 'mails');
    assert.deepEqual(job.info.meta, { request: 'say "hi"\\ – ü\n' });
    await c.deleteKey('mails', 'k');
    await assert.rejects(c.deleteLease(job.id, job.lease), NotFoundError);
    const other = await c.put('y', { tube: 'mails', key: 'k', onDuplicate: 'replace', at: new Date(Date.now() + 60_000) });
    assert.equal((await c.statsJob(other.id)).state, 'delayed');
    await c.reschedule(other.id, 0);
    assert.equal((await c.statsJob(other.id)).state, 'ready');
  });

  test(`leases, reasons, lists, policies and groups on ${kind}`, async t => {
    const c = await connect(t, kind);
    const other = new Client({ port: c.connection.options.port });
    t.after(() => other.close());
    const ids = [];
    for (const body of ['a', 'b', 'c']) ids.push((await c.put(body)).id);
    const a = await c.reserveLease(1);
    assert.equal(a.payload, 'a');
    assert.equal(a.info.deliveries, 1);
    await other.touchLease(a.id, a.lease);
    await other.releaseLease(a.id, a.lease, { reason: 'a "bad"\nday', delay: 100 });
    assert.equal((await c.statsJob(a.id)).reason, 'a "bad"\nday');
    await assert.rejects(other.buryLease(a.id, a.lease), NotFoundError);
    const [b, third] = await c.reserveBatch(5, { lease: true });
    await other.buryLease(b.id, b.lease, { reason: 'no' });
    assert.deepEqual(await c.reserveBatch(5), []);
    await other.releaseLease(third.id, third.lease, { failure: false });
    assert.equal((await c.statsJob(third.id)).failures ?? 0, 0);
    const page = await c.listJobs('default', 'buried');
    assert.equal(page.next, '');
    assert.equal(String(page.entries[0].id), b.id);
    assert.equal(page.entries[0].reason, 'no');
    await c.replayJob(b.id);
    assert.equal((await c.listJobs('default', 'ready', { count: 1 })).entries.length, 1);
    assert.deepEqual(await c.deleteBatch([...ids, '4444']), { deleted: 3, missing: 1 });

    await c.setPolicy('mails', { retry: '10s,1m', 'group-concurrency': 1 });
    assert.equal((await c.getPolicy('mails')).retry, '10s,1m');
    assert.deepEqual(await c.listPolicies(), ['mails']);
    for (const group of ['x y', 'x y', 'z']) await c.put(group, { tube: 'mails', group });
    await c.watch('mails', 5);
    assert.equal((await c.reserveBatch(5)).length, 2);
    await c.setGroup('mails', 'x y', { concurrency: 2 });
    assert.equal((await c.getGroup('mails', 'x y')).concurrency, 2);
    assert.equal((await c.statsGroup('mails', 'x y')).ready, 1);
    assert.deepEqual((await c.listGroups('mails')).entries.map(group => group.name), ['x y', 'z']);
    await c.pauseGroup('mails', 'x y', 60);
    await assert.rejects(c.reserveLease(0), TimedOutError);
    assert.equal(await c.moveJobs('mails', 'ready', 'elsewhere', 5), 1);
    assert.equal(await c.flushTube('elsewhere'), 1);
    assert.equal(await c.flushGroup('mails', 'z'), 0);
  });
}

test('a word that would be another command is refused', async t => {
  const c = await connect(t, 'memory');
  await assert.rejects(c.use('a\r\nput'), TypeError);
  await assert.rejects(c.put('x', { key: 'a b' }), TypeError);
  await assert.rejects(c.put('x', { priority: -1 }), TypeError);
  await assert.rejects(c.delete('1\r\nquit'), TypeError);
  await assert.rejects(c.put({ to: 'ada' }), /^TypeError: a body is text or bytes, not object$/);
});
