import type { TestDaemon } from '../support/daemon.js';
import type { Any, Wire } from '../support/wire.js';

let keys = 0;
/** A key of its own for a test. */
export const freshKey = (): string => `k${process.pid}-${++keys}`;

export const begin = (wire: Wire, key: string, more: Any = {}): Promise<Any> =>
  wire.call('once.begin', { key, fingerprint: 'f', ...more });

/** Begins, which must hand the key over. */
export async function hold(wire: Wire, key: string, more: Any = {}): Promise<Any> {
  const begun = await begin(wire, key, more);
  if (begun.fence === undefined || begun.state === 'done') throw new Error(`not handed over: ${JSON.stringify(begun)}`);
  return begun;
}

/** A watcher of the ledger from now on. */
export async function watch(daemon: TestDaemon): Promise<Wire> {
  const wire = await daemon.wire();
  await wire.call('feed.subscribe', { types: ['once.>', 'lease.>', 'session.>'] });
  return wire;
}

/** What was told of a key so far, in order. */
export const storyOf = (watcher: Wire, key: string): Any[] =>
  watcher
    .events()
    .filter(({ event }) => event.subject === key)
    .map(({ event }) => [event.type.replace('once.', ''), event.data]);
