import { closeCodes } from '../protocol/close-codes.js';
import { pushLine } from '../protocol/frame.js';
import { bounds } from './bounds.js';
import type { Connection } from './connection.js';
import type { Registry } from './registry.js';

/**
 * Sends everybody away over `windowMs`, in random order, evenly: who is sent away in one instant comes back in one
 * instant, and jitter of the clients alone does not help. `drain` tells each when its turn comes; until then it goes
 * on as before. The `closed` line says when to come back: soon, for its session runs on meanwhile.
 */
export async function drain(registry: Registry, windowMs: number): Promise<void> {
  const leaving = shuffled([...registry]);
  const turnAt = (index: number): number => Math.round((index * windowMs) / leaving.length);
  for (const [index, connection] of leaving.entries()) {
    connection.push(pushLine('drain', { afterMs: turnAt(index) }));
  }
  const startedAt = performance.now();
  const spreadMs = Math.min(bounds.returnMaxMs, Math.max(windowMs, leaving.length));
  for (let index = 0; index < leaving.length; ) {
    await pause(turnAt(index) - (performance.now() - startedAt));
    const passed = performance.now() - startedAt;
    for (; index < leaving.length && turnAt(index) <= passed; index++) {
      leaving[index]!.close(closeCodes.drain, 'drain', 'drained', Math.round(Math.random() * spreadMs));
    }
  }
  // A socket that does not go by itself is terminated by its pulse.
  await registry.empty();
}

/** Every connection ends now. */
export function terminateAll(registry: Registry): Promise<void> {
  for (const connection of registry) connection.terminate();
  return registry.empty();
}

// At least one turn of the event loop, so that what is written gets out between two steps.
const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, Math.max(1, ms)));

function shuffled(list: Connection[]): Connection[] {
  for (let i = list.length - 1; i > 0; i--) {
    const j = Math.floor(Math.random() * (i + 1));
    [list[i], list[j]] = [list[j]!, list[i]!];
  }
  return list;
}
