import { afterAll, afterEach, beforeAll } from 'vitest';
import { type ConnectOptions, connect, type Signalbox } from '../../src/client/index.js';
import { startWorld, type World } from '../support/daemon.js';
import { BrokenLink } from './link.js';

export let world: World;
export const open: { close(): Promise<unknown> }[] = [];

/** To be called by every test file: a Redis and a daemon for its tests, and clients that are closed after each test. */
export function useDaemon(): void {
  beforeAll(async () => {
    world = await startWorld();
  });
  afterAll(() => world.stop());
  afterEach(async () => {
    for (const each of open.splice(0).reverse()) await each.close();
  });
}

export async function client(options: ConnectOptions = {}): Promise<Signalbox> {
  const sb = await connect({ url: world.daemon.url, agent: 'a1', backoff: { baseMs: 5, capMs: 50 }, ...options });
  open.push({ close: () => sb.close({ limitMs: 0 }) });
  return sb;
}

/** A client behind a link that can be broken. */
export async function behind(options: ConnectOptions = {}): Promise<{ sb: Signalbox; link: BrokenLink }> {
  const link = await BrokenLink.to(world.daemon.url);
  open.push(link);
  return { sb: await client({ ...options, url: link.url }), link };
}

let queues = 0;
export const queue = (): string => `q${++queues}`;
