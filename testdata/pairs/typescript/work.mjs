// Handles jobs of the type pair until SIGTERM. Each fails at its first delivery, and goes on from its checkpoint at the second: work.mjs ADDR TUBE TO
import { Worker } from '../../../clients/typescript/dist/esm/index.js';

const [address, tube, to] = process.argv.slice(2);

async function pair(job) {
  const checkpoint = job.lastCheckpoint();
  if (!checkpoint) {
    await job.checkpoint({ step: 1 });
    await job.updateProgress('1/2');
    throw new Error(`first try of ${to}`);
  }
  const { from, n, text } = job.data;
  const { key, meta, trace, group, batch, reason } = job.info;
  return { to, from, n: n + 1, text, step: checkpoint.step, key, request: meta.request, type: meta['content-type'], trace, group, batch, reason };
}

const worker = new Worker(tube, { pair }, { connection: { addresses: [address] } });
process.once('SIGTERM', () => worker.close());
