import type { Namespace } from '../redis/namespace.js';
import { lua } from '../redis/script.js';
import type { HeldTask } from './port.js';

const script = lua(import.meta.url, './still-held.lua', ['session']);
const pageMax = 1000;

/** Of these attempts, in their order: is it still the session's? */
export async function stillHeld(namespace: Namespace, session: string, tasks: readonly HeldTask[]): Promise<boolean[]> {
  const all: boolean[] = [];
  for (let at = 0; at < tasks.length; at += pageMax) {
    const args = tasks.slice(at, at + pageMax).flatMap(({ task, fence }) => [task, fence]);
    const rows = await namespace.read<number[]>(script, [session, ...args]);
    all.push(...rows.map((row) => row === 1));
  }
  return all;
}
