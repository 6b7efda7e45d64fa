export { Client, type Page, type State, type Tags } from './client.js';
export type { Job as ClientJob, JobInfo, ReleaseOptions } from './commands.js';
export * from './errors.js';
export type { ConnectionOptions } from './options.js';
export type { PutOptions, Receipt } from './put.js';
export { Queue, type JobOptions, type QueueOptions } from './queue.js';
export type { Duration, Stats } from './text.js';
export { Worker, type Job, type Processor, type WorkerOptions } from './worker.js';
