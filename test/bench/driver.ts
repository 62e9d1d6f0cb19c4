import type { Answer, Ask, Side } from './side.js';
import { BullMq } from './sides/bullmq.js';
import { Signalbox } from './sides/signalbox.js';

/**
 * The process of one side: does what its parent asks, one thing after the other. A process a side, so that neither
 * shares an event loop, a heap or a JIT with the other or with the measuring.
 */
const side: Side = process.argv[2] === 'bullmq' ? new BullMq() : new Signalbox();

const verbs: Record<string, (...args: never[]) => unknown> = {
  cpu: () => {
    const { user, system } = process.cpuUsage();
    return (user + system) / 1e6;
  },
};

process.on('message', async ({ id, verb, args }: Ask) => {
  let answer: Answer;
  try {
    const run = (verbs[verb] ?? side[verb as keyof Side].bind(side)) as (...args: unknown[]) => unknown;
    answer = { id, value: await run(...args) };
  } catch (error) {
    answer = { id, error: (error as Error).stack ?? String(error) };
  }
  process.send?.(answer);
});
// Whatever ends the parent ends us.
process.on('disconnect', () => process.exit(0));
