import { afterAll, beforeAll, expect, test } from 'vitest';
import { connect } from '../../src/client/index.js';
import { BrokenLink } from '../client/link.js';
import { startWorld, type World } from '../support/daemon.js';
import type { Any, Wire } from '../support/wire.js';

let world: World;
beforeAll(async () => {
  world = await startWorld();
});
afterAll(() => world.stop());

const lineBytes = 1024 * 1024;
/** Fifty names of 200 bytes, half of them bytes that JSON text writes as two. */
const names = (prefix: string): string[] =>
  Array.from({ length: 50 }, (_, i) => `${prefix}-${i}-`.padEnd(100, '"').padEnd(200, 'x'));

/** The pages from `cursor` on; fails when one of them is longer than a line. */
async function pagesFrom(wire: Wire, session: string, cursor: string | undefined, limit: number): Promise<Any[]> {
  const rows: Any[] = [];
  for (let at = cursor; ; ) {
    const page = await wire.call('lease.list', { session, limit, ...(at === undefined ? {} : { cursor: at }) });
    expect(Buffer.byteLength(JSON.stringify(page))).toBeLessThan(lineBytes);
    rows.push(...page.leases);
    at = page.cursor;
    if (at === undefined) return rows;
  }
}

test('a resume whose holdings are longer than a line says where lease.list goes on: each row is there once', async () => {
  const holder = await world.daemon.session({ agent: 'holder' });
  const { session, key } = holder.opened;
  const grants = Array.from({ length: 60 }, (_, i) => `grant-${i}`);
  for (const grant of grants) {
    const locks = names(grant).map((name) => ({ name }));
    await holder.call('lock.acquire', { grant, locks });
  }
  const wire = await world.daemon.wire();
  const opened = await wire.call('session.open', { agent: 'holder', resume: { session, key } });
  expect(Buffer.byteLength(JSON.stringify(opened))).toBeLessThan(lineBytes);
  expect(opened.holdings.length).toBeGreaterThan(0);
  expect(opened.holdings.length).toBeLessThan(60);
  const rest = await pagesFrom(wire, session, opened.cursor, 1000);
  const leases = [...opened.holdings, ...rest].map(({ lease }: Any) => lease);
  expect(leases).toEqual(grants.map((grant) => `lock:${grant}`));
  const all = await pagesFrom(await world.daemon.wire(), session, undefined, 1000);
  expect(all.map(({ lease }) => lease)).toEqual([`session:${session}`, ...leases]);
  await wire.call('session.close');
});

test('a resume whose holdings fit says nothing of it', async () => {
  const holder = await world.daemon.session({ agent: 'holder' });
  await holder.call('lock.acquire', { name: 'one' });
  const { session, key } = holder.opened;
  const wire = await world.daemon.wire();
  const opened = await wire.call('session.open', { agent: 'holder', resume: { session, key } });
  expect(opened).toMatchObject({ holdings: [{ kind: 'lock', name: 'one' }] });
  expect(opened.cursor).toBeUndefined();
});

// The story: the rows that had no room in the answer were taken for ended, and their handlers lost locks that were theirs.
test('a client that holds more than a line shows loses nothing of it by a cut', async () => {
  const link = await BrokenLink.to(world.daemon.url);
  const sb = await connect({ url: link.url, agent: 'a', ttlMs: 60_000, backoff: { baseMs: 5, capMs: 50 } });
  try {
    let held = 0;
    let go: () => void = () => {};
    const gate = new Promise<void>((resolve) => {
      go = resolve;
    });
    const runs: Promise<boolean>[] = [];
    await new Promise<void>((allHeld) => {
      for (let i = 0; i < 60; i++) {
        const run = sb.lock(names(`sdk-${i}`), async ({ signal }) => {
          if (++held === 60) allHeld();
          await gate;
          return signal.aborted;
        });
        runs.push(run.catch((error) => error));
      }
    });
    link.cut();
    await sb.ping();
    expect(link.connections).toBe(2);
    go();
    expect(await Promise.all(runs)).toEqual(Array(60).fill(false));
  } finally {
    await sb.close({ limitMs: 0 });
    await link.close();
  }
});
