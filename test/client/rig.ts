import { afterEach } from 'vitest';
import { type ConnectOptions, connect, type Signalbox } from '../../src/client/index.js';
import { FakeDaemon } from './fake-daemon.js';

const open: { close(): Promise<unknown> | unknown }[] = [];

/** To be called by every test file: what its tests open is closed after each. */
export function useRig(): void {
  afterEach(async () => {
    for (const each of open.splice(0).reverse()) await each.close();
  });
}

export async function fakeDaemon(): Promise<FakeDaemon> {
  const daemon = await FakeDaemon.start();
  open.push({ close: () => daemon.stop() });
  return daemon;
}

/** A client of that daemon that comes back fast and is closed at the end of the test. */
export async function client(daemon: FakeDaemon, options: ConnectOptions = {}): Promise<Signalbox> {
  const sb = await connect({ url: daemon.url, agent: 'a1', backoff: { baseMs: 5, capMs: 20 }, ...options });
  open.push({ close: () => sb.close({ limitMs: 0 }) });
  return sb;
}

/** The error a promise rejects with. */
export async function rejection(promise: Promise<unknown>): Promise<Error & Record<string, unknown>> {
  try {
    await promise;
  } catch (error) {
    return error as Error & Record<string, unknown>;
  }
  throw new Error('it did not reject');
}
