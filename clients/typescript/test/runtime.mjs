// A program of all parts of the package, run by runtimes.mjs with Node, Bun and Deno: runtime.mjs PORT
import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { FlowProducer, Queue, QueueEvents, Worker } from 'redstalk';

assert.deepEqual(Object.keys(createRequire(import.meta.url)('redstalk')).sort(), Object.keys(await import('redstalk')).filter(name => !['default', 'module.exports'].includes(name)).sort());
const connection = { port: Number(process.argv[2]) };
const name = `runtime-${process.pid}`;
const [queue, flows] = [new Queue(name, { connection }), new FlowProducer({ connection })];
const events = new QueueEvents(name, { connection, interval: 50 });
const told = [];
events.on('completed', ({ returnvalue }) => told.push(returnvalue)).on('failed', ({ failedReason }) => told.push(failedReason));
await events.waitUntilReady();

const worker = new Worker(name, {
  sum: ({ data: [a, b] }) => a + b,
  all: async job => Object.values(await job.getChildrenValues()),
  bad: () => { throw new Error('no'); },
  long: async job => {
    await job.checkpoint(1);
    await job.updateProgress(50);
    await new Promise(resolve => setTimeout(resolve, 1500)); // longer than its TTR
    return job.signal.aborted;
  },
}, { connection, concurrency: 10 });
const keep = '1h';
assert.equal(await (await queue.add('long', 0, { ttr: 1, keep })).waitUntilFinished(queue, 10_000), false);
await assert.rejects((await queue.add('bad', 0, { attempts: 2, keep })).waitUntilFinished(events, 10_000), { message: 'no', how: 'parked' });
const { job } = await flows.add({ name: 'all', queueName: name, opts: { keep }, children: [{ name: 'sum', queueName: name, data: [3, 4] }] });
assert.deepEqual(await job.waitUntilFinished(flows, 10_000), [7]);
const many = await queue.addBulk(Array.from({ length: 1000 }, (_, n) => ({ name: 'sum', data: [n, 1], opts: { keep } })));
assert.deepEqual(await Promise.all(many.map(one => one.waitUntilFinished(queue, 20_000))), many.map((_, n) => n + 1));
while (told.length < 1004) await new Promise(resolve => setTimeout(resolve, 10));
assert.ok(told.includes('no'));

// And a clean stop by a signal.
process.once('SIGTERM', async () => {
  for (const one of [worker, events, flows, queue]) await one[Symbol.asyncDispose]();
  console.log('closed');
});
process.kill(process.pid, 'SIGTERM');
