// Puts a job of the type pair, and prints its result: put.mjs ADDR TUBE FROM
import { Queue } from '../../../clients/typescript/dist/esm/index.js';

const [address, tube, from] = process.argv.slice(2);
const queue = new Queue(tube, { connection: { addresses: [address] } });
const job = await queue.add('pair', { from, n: 7, text: 'é\n' }, {
  attempts: 3,
  jobId: `pair-${from}-${tube}`,
  keep: '1h',
  group: 'acme',
  batch: `batch-${tube}`,
  meta: { request: '4711' },
  trace: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01',
});
console.log(JSON.stringify(await job.waitUntilFinished(queue, 60_000)));
await queue.close();
