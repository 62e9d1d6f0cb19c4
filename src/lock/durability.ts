import type { Namespace } from '../redis/namespace.js';
import { lua } from '../redis/script.js';

const script = lua(import.meta.url, './durability.lua');
/** Nobody switches persistence often. */
const knownForMs = 10_000;

const known = new WeakMap<Namespace, { readonly at: number; readonly word: Promise<string> }>();

/** What a grant survives: `aof`, a restart of Redis (but for what was not yet forced to disk); `memory`, nothing. */
export function durabilityOf(namespace: Namespace): Promise<string> {
  const now = performance.now();
  const last = known.get(namespace);
  if (last && now - last.at < knownForMs) return last.word;
  const word = namespace.read<string>(script).then(
    (text) => (text === '1' ? 'aof' : 'memory'),
    // Nothing is promised that is not known.
    () => 'memory',
  );
  known.set(namespace, { at: now, word });
  return word;
}
