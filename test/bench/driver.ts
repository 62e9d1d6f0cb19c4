import type { Answer, Ask } from './side.js';

/**
 * A process of a side: does what its parent asks, by the verbs of one module of sides/. A process each, so that nobody
 * shares an event loop, a heap or a JIT with another or with the measuring. Loaded by name: a process has the packages
 * of its own side and no others.
 */
const { side } = (await import(`./sides/${process.argv[2]}.js`)) as {
  side: Record<string, (...args: readonly unknown[]) => unknown>;
};

process.on('message', async ({ id, verb, args }: Ask) => {
  let answer: Answer;
  try {
    answer = { id, value: await side[verb]!(...args) };
  } catch (error) {
    answer = { id, error: (error as Error).stack ?? String(error) };
  }
  process.send?.(answer);
});
// Whatever ends the parent ends us.
process.on('disconnect', () => process.exit(0));
