// Compares with BullMQ, in turns: jobs a second, and the processor time of Node for each job. Medians of the rounds.
//
//   NODE_PATH=DIRECTORY/node_modules node test/bench.mjs [JOBS [ROUNDS]]
//
// DIRECTORY is where bullmq and ioredis are installed; without them there is only redstalk. BullMQ and the Redis engine share a Redis.
import { createRequire } from 'node:module';
import * as redstalk from 'redstalk';
import { serve, serveKind, startRedis } from './servers.mjs';

const [jobs = 1000, rounds = 5] = process.argv.slice(2).map(Number);
const stops = [];
const t = { after: stop => stops.push(stop) };

/** What has the same Queue and Worker: redstalk on each engine, and BullMQ if it is installed. */
async function systems() {
  const redis = await startRedis(t);
  const list = [
    { name: 'redstalk, memory', ...redstalk, ...(await serveKind(t, 'memory')) },
    { name: 'redstalk, embedded', ...redstalk, ...(await serveKind(t, 'embedded')) },
    { name: 'redstalk, Redis', ...redstalk, ...(await serve(t, `redis://127.0.0.1:${redis.port}/0`)) },
  ];
  try {
    list.unshift({ name: 'BullMQ, Redis', ...createRequire(import.meta.url)('bullmq'), ...redis });
  } catch (error) {
    if (error.code !== 'MODULE_NOT_FOUND') throw error;
    console.error('BullMQ is not installed, so it is left out');
  }
  return list;
}

/** Jobs a second, and microseconds of processor time for each. */
async function measured(act) {
  const [start, cpu] = [performance.now(), process.cpuUsage()];
  await act();
  const elapsed = performance.now() - start;
  const { user, system } = process.cpuUsage(cpu);
  return [(jobs / elapsed) * 1000, (user + system) / jobs];
}

/** Works on all jobs; the worker is closed after the measurement, for that can take a second. */
async function work({ Worker }, queue, options) {
  let worker;
  const result = await measured(() => new Promise((resolve, reject) => {
    let left = jobs;
    worker = new Worker(queue, async () => {}, options);
    worker.on('completed', () => --left || resolve());
    worker.on('failed', (job, error) => reject(error));
    worker.on('error', reject);
  }));
  await worker.close();
  return result;
}

let queues = 0;

/** One round of a system: each part has a new queue. */
async function round(system, report) {
  const connection = { host: '127.0.0.1', port: system.port };
  const numbers = Array.from({ length: jobs }, (_, number) => ({ name: 'job', data: { number } }));
  // BullMQ keeps jobs that are done unless it is told not to; redstalk has no such option, and ignores it.
  const defaultJobOptions = { removeOnComplete: true };
  for (const [adding, concurrency] of [['add', 1], ['addBulk', 10]]) {
    const name = `bench-${++queues}`;
    const queue = new system.Queue(name, { connection, defaultJobOptions });
    report(adding, await measured(async () => {
      if (adding === 'addBulk') await queue.addBulk(numbers);
      else for (const { name, data } of numbers) await queue.add(name, data);
    }));
    report(`worked on, ${concurrency}`, await work(system, name, { connection, concurrency }));
    await queue.close();
  }
}

function median(values) {
  return values.sort((a, b) => a - b)[Math.floor(values.length / 2)];
}

const results = {};
try {
  const all = await systems();
  for (let n = 0; n < rounds; n++) {
    for (const system of all) {
      await round(system, (what, figures) => ((results[system.name] ??= {})[what] ??= []).push(figures));
    }
  }
} finally {
  await Promise.all(stops.map(stop => stop()));
}
const number = value => Math.round(value).toLocaleString('en');
for (const [name, parts] of Object.entries(results)) {
  for (const [what, figures] of Object.entries(parts)) {
    const [rate, cpu] = [0, 1].map(column => median(figures.map(pair => pair[column])));
    console.log(`${name.padEnd(20)} ${what.padEnd(14)} ${number(rate).padStart(8)} jobs/s ${number(cpu).padStart(6)} µs`);
  }
}
