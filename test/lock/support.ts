import { expect } from 'vitest';
import { type Settings, startWorld, type TestDaemon, type World } from '../support/daemon.js';
import type { Any, Wire } from '../support/wire.js';

export type { Any, Wire, World };
export type Session = Wire & { opened: Any };

let names = 0;
/** A lock nobody else uses. */
export const fresh = (word = 'lock'): string => `${word}-${++names}`;

/** Acquires `name` at once; answers the reply. */
export const take = (wire: Wire, name: string, more: Any = {}): Promise<Any> =>
  wire.call('lock.acquire', { name, ...more });

/** Waits for `name`; the answer must be that it waits. */
export async function queueUp(wire: Wire, name: string, more: Any = {}): Promise<Any> {
  const reply = await wire.call('lock.acquire', { name, waitMs: 60_000, ...more });
  expect(reply.state).toBe('waiting');
  return reply;
}

export const granted = (wire: Wire, grant: string, limitMs?: number): Promise<Any> =>
  wire.next((line) => line.op === 'granted' && line.grant === grant, limitMs);
export const waitEnded = (wire: Wire, grant: string, limitMs?: number): Promise<Any> =>
  wire.next((line) => line.op === 'waitEnded' && line.grant === grant, limitMs);
export const lost = (wire: Wire, name: string, limitMs?: number): Promise<Any> =>
  wire.next((line) => line.op === 'lost' && line.name === name, limitMs);
export const pushesOf = (wire: Wire, grant: string): Any[] =>
  wire.lines.filter((line) => (line.op === 'granted' || line.op === 'waitEnded') && line.grant === grant);

/** A connection that sees every event of locks from now on. */
export async function watcherOf(
  daemon: TestDaemon,
  types: string[] = ['lock.>', 'lease.>', 'session.>', 'epoch.>'],
): Promise<Wire> {
  const watcher = await daemon.wire();
  await watcher.call('feed.subscribe', { types });
  return watcher;
}

/** Events about `name`, as `type:grant`. */
export const storyOf = (watcher: Wire, name: string): string[] =>
  watcher
    .events()
    .filter(({ event }) => event.data.lock === name && event.type.startsWith('lock.'))
    .map(({ event }) => `${event.type.slice(5)}:${event.data.grant ?? ''}`);

/** A link whose frames we stop answering: neither pongs nor closes, as a frozen process is. */
export function freeze(wire: Wire): void {
  (wire.socket as unknown as { _socket: { pause(): void } })._socket.pause();
}
export function thaw(wire: Wire): void {
  (wire.socket as unknown as { _socket: { resume(): void } })._socket.resume();
}

/** Keys of the namespace that would not go by themselves, but for the log and what every namespace has. */
export async function leftovers(world: World): Promise<string[]> {
  const client = world.redis.client();
  const left: string[] = [];
  const always = /:(meta|log|logIndex|epochs|daemons|ingress|sessions|sessionNames|session:.*)$/;
  for (const key of await client.keys('sb:{*')) {
    if (!always.test(key) && (await client.pttl(key)) === -1) left.push(key);
  }
  client.disconnect();
  return left;
}

/** What is left of some locks: keys of their own, and rows that name them. */
export async function leftoversOf(world: World, ...names: string[]): Promise<string[]> {
  const client = world.redis.client();
  const at = 'sb:{default}:';
  const left = (await leftovers(world)).filter((key) => names.some((name) => key.endsWith(`:${name}`)));
  const waits = await client.zrange(`${at}lockWaits`, '0', '-1');
  const listed = await client.zrange(`${at}locks`, '0', '-1');
  client.disconnect();
  const mine = (row: string): boolean => names.includes(row.split('\0')[0]!);
  return [...left, ...waits.filter(mine), ...listed.filter(mine)];
}

export { type Settings, startWorld };
