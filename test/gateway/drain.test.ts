import { describe, expect, it } from 'vitest';
import { Client, client, station, useStations, Wire } from './support.js';

useStations();

describe('a drain', () => {
  it('tells everybody when, then closes them one after the other over the window with 1012', async () => {
    const at = await station();
    const windowMs = 500;
    const all = await Promise.all(Array.from({ length: 20 }, () => client(at)));
    const startedAt = performance.now();
    const closedAt = all.map((one) => one.closed.then(() => performance.now() - startedAt));
    await at.gateway.drain(windowMs);
    expect(at.endings.map(({ how }) => how)).toEqual(Array(20).fill('drained'));
    const told: number[] = [];
    for (const [i, one] of all.entries()) {
      expect((await one.closed).code).toBe(1012);
      const { afterMs } = await one.push('drain');
      told.push(afterMs);
      expect(await closedAt[i]).toBeGreaterThanOrEqual(afterMs - 1); // Never before its turn.
      const last = one.lines.at(-1);
      expect(last).toMatchObject({ op: 'closed', code: 1012, afterMs: expect.any(Number) });
      expect(last.afterMs).toBeLessThanOrEqual(windowMs);
    }
    expect([...told].sort((a, b) => a - b)).toEqual(Array.from({ length: 20 }, (_, i) => i * 25));
    expect(told).not.toEqual([...told].sort((a, b) => a - b)); // In random order; once in 20! runs it is not.
  });

  it('lets a connection work until its turn, and answers what it asked before', async () => {
    const at = await station();
    const all = await Promise.all(Array.from({ length: 3 }, () => client(at)));
    const drained = at.gateway.drain(600);
    const last =
      all[(await Promise.all(all.map((one) => one.push('drain')))).findIndex(({ afterMs }) => afterMs === 400)]!;
    expect((await last.call('echo', { text: 'still' })).ok).toEqual({ text: 'still' });
    await drained;
  });

  it('lets nobody in: 503 with Retry-After; HTTP is still answered', async () => {
    const at = await station();
    const one = await client(at);
    const drained = at.gateway.drain(300);
    const head = await new Wire(at.port).upgrade();
    expect(head).toMatch(/^HTTP\/1\.1 503 /);
    expect(head).toMatch(/\r\nRetry-After: \d/);
    expect(await (await fetch(`http://127.0.0.1:${at.port}/healthz`)).text()).toBe('ops');
    await one.closed;
    await drained;
  });

  it('ends those too that do not answer the close', async () => {
    const at = await station();
    const wire = new Wire(at.port);
    await wire.upgrade();
    wire.socket.pause();
    const startedAt = performance.now();
    await at.gateway.drain(50);
    expect(performance.now() - startedAt).toBeLessThan(20_000);
    expect(at.gateway.registry.size).toBe(0);
  });

  it('of nobody is over at once, and asked twice is one', async () => {
    const at = await station();
    const first = at.gateway.drain(10_000);
    expect(at.gateway.drain(5)).toBe(first);
    await first;
  });

  it('of one connection does not wait for the window', async () => {
    const at = await station();
    const one = new Client(at.url);
    await one.open();
    await at.gateway.drain(60_000);
    expect((await one.closed).code).toBe(1012);
  });
});
