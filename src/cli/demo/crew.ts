import type { ChildProcess } from 'node:child_process';
import { setTimeout as wait } from 'node:timers/promises';
import type { Cast } from './cast.js';
import type { Cut } from './cut.js';
import type { Watcher } from './watch.js';

export const agentsCount = 10;
/** Short, so that the frozen agent's work moves on while one watches. */
const ttlMs = 2000;

/** Where the demo plays. */
export interface Stage {
  readonly cast: Cast;
  readonly url: string;
  /** Arguments of `signalbox redis-cli` that lead to the daemon's Redis. */
  readonly redis: readonly string[];
  readonly token: string | undefined;
  readonly json: boolean;
  /** How many calls the model serves in its minute, and how long that minute is. */
  readonly rate: number;
  readonly minuteMs: number;
  readonly thinkMs: number;
}

interface Member {
  readonly name: string;
  readonly child: ChildProcess;
}

/** Ten agents on one queue, who ask the model at `llm` under `limit`, or as they like if there is none. */
export function startAgents({ cast, url, token, minuteMs }: Stage, queue: string, llm: string, limit = ''): Member[] {
  return Array.from({ length: agentsCount }, (_, i) => {
    const name = `reader-${i + 1}`;
    const env = {
      DEMO_URL: url,
      DEMO_AGENT: name,
      DEMO_QUEUE: queue,
      DEMO_LLM: llm,
      DEMO_LIMIT: limit,
      DEMO_MINUTE_MS: String(minuteMs),
      DEMO_TTL_MS: String(ttlMs),
    };
    return { name, child: cast.agent(token === undefined ? env : { ...env, SIGNALBOX_TOKEN: token }) };
  });
}

/**
 * One agent is killed at work, one is frozen at work for longer than its session lives, the watcher's link is cut. What
 * the two have reserved and not settled counts as spent: the call may have been made.
 */
export async function disturb(agents: readonly Member[], watcher: Watcher, cut: Cut, documents: number) {
  const atWork = (name: string): boolean => (watcher.holding.get(name)?.size ?? 0) > 0;
  const [victim, sleeper] = [agents[2]!, agents[5]!];
  await watcher.until(() => watcher.completed >= documents * 0.1 && atWork(victim.name));
  victim.child.kill('SIGKILL');
  await watcher.until(() => watcher.completed >= documents * 0.2 && atWork(sleeper.name));
  sleeper.child.kill('SIGSTOP');
  await watcher.until(() => watcher.completed >= documents * 0.4);
  cut.break();
  await wait(300);
  cut.mend();
  await wait(ttlMs * 1.5);
  const { signalCode } = victim.child;
  const thawed = sleeper.child.kill('SIGCONT');
  return { killed: signalCode === 'SIGKILL' ? victim.name : '', frozen: thawed ? sleeper.name : '' };
}
