// Only compiled: what must be accepted, and what must not.
import { FlowProducer, NotFinishedError, Queue, QueueEvents, Worker, Client, type Job, type PutOptions } from 'redstalk';
const q = new Queue<{ to: string }>('mail');
void q.add('a', { to: 'x' }, { attempts: 3, backoff: { type: 'exponential', delay: 1 } });
// @ts-expect-error wrong data
void q.add('a', { to: 1 });
// @ts-expect-error wrong option
void q.add('a', { to: 'x' }, { attempt: 3 });
const w = new Worker<{ to: string }, number>('mail', async (job: Job<{ to: string }>) => job.data.to.length);
w.on('completed', (job, result) => { const n: number = result; const t: string = job.data.to; void n; void t; });
// @ts-expect-error no such event
w.on('complete', () => {});
const o: PutOptions = { key: 'x' };
void new Client().put('x', o);
const b = new Client().batch('import');
void b.add('x', { tube: 'rows' });
// @ts-expect-error a batch cannot be awaited
void b.then;
void q.upsertJobScheduler('digest', { pattern: '@daily', tz: 'Europe/Berlin' }, { data: { to: 'x' }, opts: { attempts: 3 } });
// @ts-expect-error the jobs of a schedule have no jobId
void q.upsertJobScheduler('digest', { every: 1000 }, { opts: { jobId: 'x' } });
void q.add('a', { to: 'x' }, { removeOnComplete: { age: 60, count: 10 } }).then(job => job.waitUntilFinished(q, 1000));
// @ts-expect-error a time is seconds or text
void q.add('a', { to: 'x' }, { keep: true });
new Worker('mail', () => {}, { timeout: job => (job.name === 'import' ? 0 : undefined) });
// @ts-expect-error a timeout is milliseconds
new Worker('mail', () => {}, { timeout: '5m' });
new Worker('mail', async job => {
  const row: number = job.lastCheckpoint<{ row: number }>()?.row ?? 0;
  await job.checkpoint({ row: row + 1 });
  await job.updateProgress(50);
  if (job.stopping.aborted) throw new NotFinishedError();
}).on('progress', (job, progress) => void [job.id, progress]);
void new Client().touchLease('1', '2', { progress: '1/2' });
void new Client().kick(1, { keepCheckpoint: true });
// @ts-expect-error a progress is a value
new Worker('mail', job => job.updateProgress());
w.once('failed', (job, error) => void [job.data.to.length, error.message]).off('stalled', (jobId: string) => void jobId);
// @ts-expect-error no such event
w.once('complete', () => {});
new Worker<{ to: string }>('mail', { welcome: async job => job.data.to, bye: () => {} }, { limiter: { max: 10, duration: 1000 } });
// @ts-expect-error a processor is a function
new Worker('mail', { welcome: 'x' });
const events = new QueueEvents('mail');
events.on('completed', ({ jobId, returnvalue }) => void [jobId.length, returnvalue]).on('progress', ({ data }) => void data);
// @ts-expect-error no such event
events.on('waiting', () => {});
void q.getJob('7').then(async job => { const to: string | undefined = job?.data.to; await job?.waitUntilFinished(events, 1000); void to; });
async function flow() {
  await using flows = new FlowProducer();
  await using queue = new Queue('mail');
  const { job, children } = await flows.add({ name: 'a', queueName: 'q', children: [{ name: 'b', queueName: 'q', opts: { attempts: 3 } }] });
  void [job.id, children?.[0]?.job.id, queue];
  // @ts-expect-error its batches are its own
  void flows.add({ name: 'a', queueName: 'q', opts: { batch: 'x' } });
}
void flow;
