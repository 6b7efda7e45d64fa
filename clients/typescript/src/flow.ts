import { randomUUID } from 'node:crypto';
import { Client } from './client.js';
import type { JobInfo } from './commands.js';
import { envelope, typed } from './envelope.js';
import type { ConnectionOptions } from './options.js';
import type { PutOptions, Receipt } from './put.js';
import { JobOptions, putOptions } from './queue.js';
import { QueueJob, valueOf } from './queuejob.js';
import { check, Names } from './text.js';

/** A job that runs after its children. */
export interface FlowJob {
  name: string;
  queueName: string;
  data?: any;
  opts?: Omit<JobOptions, 'batch' | 'after' | 'afterAll'>;
  children?: FlowJob[];
  /** The job also runs if children have failed for good. By default it has failed then, too. */
  ignoreFailures?: boolean;
}

/** A job of a flow that was added. */
export interface JobNode {
  job: QueueJob;
  children?: JobNode[];
}

const names: Names<FlowJob> = { name: true, queueName: true, data: true, opts: true, children: true, ignoreFailures: true };
/** The meta of a parent that names the batch of its children. */
const childrenMeta = 'children';
/** For how long the results of children are kept, if they do not say it. */
const keptChild: PutOptions = { keep: '24h' };

/** Adds trees of jobs, of which each runs after its children. The children of a job are a batch of their own. */
export class FlowProducer {
  /** For everything else. */
  readonly client: Client;

  constructor(options: { connection?: ConnectionOptions } = {}) {
    check(options, { connection: true }, 'a flow producer');
    this.client = new Client(options.connection);
  }

  /** Adds a tree. If a job of it cannot be added, those that were added and have not begun are deleted, and the error is thrown. */
  async add(flow: FlowJob): Promise<JobNode> {
    const root = plan(flow);
    const all = [...nodesOf(root)];
    const sent = await Promise.allSettled(all.map(node => this.put(node)));
    const refused = sent.find(result => result.status === 'rejected');
    if (refused) {
      await this.undo(all).catch(() => {}); // the reason says more
      throw refused.reason;
    }
    await Promise.all(batchesOf(all).map(batch => this.client.batch(batch).seal()));
    return treeOf(root, this.client);
  }

  /** Adds trees. It is no transaction: if some fail, the others are added, and the first error is thrown. */
  addBulk(flows: FlowJob[]): Promise<JobNode[]> {
    return Promise.all(flows.map(flow => this.add(flow)));
  }

  private async put(node: Node): Promise<void> {
    node.receipt = await this.client.put(node.body, { ...(await typed(this.client, node.options)), tube: node.flow.queueName });
  }

  /** Deletes what was added. The root is a member of no batch. */
  private async undo(all: Node[]): Promise<void> {
    const { receipt } = all[0]!;
    if (receipt && !receipt.state) await this.client.delete(receipt.id);
    await Promise.all(batchesOf(all).map(batch => this.client.batch(batch).cancel()));
  }

  close(): Promise<void> {
    return this.client.close();
  }

  /** The same as close(). */
  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}

/** A job that is to be put. */
interface Node {
  flow: FlowJob;
  body: string;
  options: PutOptions;
  /** The batch of the children. */
  batch?: string;
  children: Node[];
  receipt?: Receipt;
}

/** The jobs of a flow, as members of the batch of a parent. Throws if one of them is not right. */
function plan(flow: FlowJob, parent?: string): Node {
  check(flow, names, 'a job of a flow');
  const { name, data, opts = {}, children = [], ignoreFailures } = flow;
  const batch = children.length ? `flow-${randomUUID()}` : undefined;
  const own = putOptions(opts);
  for (const name of ['batch', 'after', 'afterAll'] as const) if (own[name] !== undefined) throw new TypeError(`a job of a flow has no option ${name}`);
  const options: PutOptions = { ...own, batch: parent, ...(parent && own.keep === undefined ? keptChild : {}) };
  if (batch) Object.assign(options, { [ignoreFailures ? 'afterAll' : 'after']: batch, meta: { ...own.meta, [childrenMeta]: batch } });
  return { flow, body: envelope(name, data), options, batch, children: children.map(child => plan(child, batch)) };
}

/** A job and those below it. */
function* nodesOf(node: Node): Generator<Node> {
  yield node;
  for (const child of node.children) yield* nodesOf(child);
}

function batchesOf(all: Node[]): string[] {
  return all.flatMap(({ batch }) => batch ?? []);
}

function treeOf({ flow, receipt, children }: Node, client: Client): JobNode {
  const job = new QueueJob(client, receipt!, flow.name, flow.data);
  return children.length ? { job, children: children.map(child => treeOf(child, client)) } : { job };
}

/** What the children of a job have returned, by their ids. */
export async function childrenValues(client: Client, info?: JobInfo): Promise<Record<string, any>> {
  const values: Record<string, any> = {};
  const batch = info?.meta?.[childrenMeta];
  let cursor: string | undefined;
  while (batch && cursor !== '') {
    const { next, jobs } = await client.ended(`batch:${batch}`, { count: 1000, cursor });
    for (const { id, how, result } of jobs) if (how === 'done') values[id] = valueOf(result?.toString() ?? '');
    cursor = next;
  }
  return values;
}
