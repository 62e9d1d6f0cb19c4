import type { Signalbox, TaskContext, Worker, WorkOptions } from '../../src/client/index.js';
import type { Any, FakeDaemon } from './fake-daemon.js';
import { client, fakeDaemon } from './rig.js';

/** A worker of one queue, declared and waiting for what the test pushes. */
export type Step = (task: Any, context: TaskContext) => unknown;

export async function working(
  handler: Step,
  options: WorkOptions = {},
): Promise<{ daemon: FakeDaemon; sb: Signalbox; worker: Worker; push(...tasks: object[]): void }> {
  const daemon = await fakeDaemon();
  const sb = await client(daemon);
  const worker = sb.work('q', options, handler);
  await worker.ready;
  return { daemon, sb, worker, push: (...tasks) => daemon.peer.send({ op: 'tasks', worker: worker.id, tasks }) };
}

export const reported = async (daemon: FakeDaemon, verb: string): Promise<Any> =>
  (await daemon.asked(`queue.${verb}`)).params.tasks;
