import { z } from 'zod';
import { defineCommand } from '../protocol/command.js';
import { MsOrZero, TaskId } from '../protocol/primitives.js';
import { Raw } from '../protocol/raw-json.js';
import { lua } from '../redis/script.js';
import { State, terminal } from './model.js';

const script = lua(import.meta.url, './result.lua', ['id']);

export const result = defineCommand({
  name: 'queue.result',
  about: 'The outcome of a task; with waitMs the reply waits until the task has ended or the time is over.',
  allowed: 'watcher',
  params: z.strictObject({ task: TaskId, waitMs: MsOrZero.default(0) }),
  result: z.object({ state: State, result: z.unknown().optional(), error: z.unknown().optional() }),
  fails: ['NOT_FOUND'],
  run: async ({ task, waitMs }, { namespace, finishes, connection }) => {
    const until = performance.now() + waitMs;
    for (;;) {
      const left = until - performance.now();
      // Listening starts before the reading: an end between the two is not missed.
      const wait = left > 0 ? finishes.wait(task, left, connection.gone) : undefined;
      try {
        const [state, value, fault] = await namespace.read<[string, string, string]>(script, [task]);
        if (terminal.has(state) || !wait || connection.gone.aborted) return outcome(state, value, fault);
        await wait.done;
      } finally {
        wait?.stop();
      }
    }
  },
});

function outcome(state: string, value: string, fault: string): Raw<never> {
  const shown = state === 'completed' ? member('result', value) : member('error', fault);
  return new Raw(`{"state":"${state}"${shown}}`);
}

const member = (name: string, text: string): string => (text === '' ? '' : `,"${name}":${text}`);
