import { describe, expect, it } from 'vitest';
import { Wheel } from '../../src/gateway/wheel.js';
import { client, frame, station, useStations, Wire } from './support.js';

useStations();

describe('a connection', () => {
  it('is pinged every third of the time to live of its session, and its pongs are heard', async () => {
    const at = await station();
    const one = await client(at);
    await one.call('session.open', { agent: 'a', ttlMs: 300 });
    const heard = at.heard;
    await at.until(() => at.heard >= heard + 3);
    expect(at.endings).toEqual([]);
  });

  it('that answers nothing for two periods is ended as broken', async () => {
    const at = await station({ 'gateway.pingMs': 60 });
    const wire = new Wire(at.port);
    await wire.upgrade();
    const watcher = await client(at);
    await wire.ended;
    await at.until(() => at.endings.length === 1);
    expect(at.endings[0]).toMatchObject({ how: 'broken', connection: { closing: { code: 1006, reason: 'silent' } } });
    expect((await watcher.call('ping')).ok).toBeDefined();
  });

  it('that sends frames but no pongs is alive', async () => {
    const at = await station({ 'gateway.pingMs': 60 });
    const wire = new Wire(at.port);
    await wire.upgrade();
    const timer = setInterval(() => wire.socket.write(frame('x', { first: 0x8a })), 20);
    await at.until(() => at.heard > 20);
    clearInterval(timer);
    expect(at.endings).toEqual([]);
  });

  it('is told a heartbeat only if it has a tail and nothing else was said', async () => {
    const at = await station({ 'gateway.heartbeatMs': 100 });
    const plain = await client(at);
    const tail = await client(at);
    await tail.call('feed.subscribe');
    const beat = await tail.push('heartbeat');
    expect(beat).toEqual({ op: 'heartbeat', at: expect.any(String), position: 'e1:7', redis: 'up' });
    expect(new Date(beat.at).toISOString()).toBe(beat.at);
    expect(plain.lines.some((line) => line.op === 'heartbeat')).toBe(false);
    // Somebody who is spoken to hears none.
    const beats = () => tail.lines.filter((line) => line.op === 'heartbeat').length;
    const { sink } = [...at.tails.values()][0]!;
    let longestMs = 0;
    sink.push('{"i":-1}');
    await tail.line((line) => line.i === -1);
    const before = beats();
    for (let i = 0, saidAt = performance.now(); i < 20; i++) {
      await new Promise((resolve) => setTimeout(resolve, 15));
      sink.push(`{"i":${i}}`);
      await tail.line((line) => line.i === i);
      longestMs = Math.max(longestMs, performance.now() - saidAt);
      saidAt = performance.now();
    }
    if (longestMs < 80) expect(beats()).toBe(before); // On a machine that dawdles longer it may well be told one.
    await tail.line((line) => line.op === 'heartbeat' && line !== beat);
  });

  it.each([
    [1000, 'clean'],
    [1001, 'clean'],
    [undefined, 'clean'],
    [1011, 'broken'],
    [4000, 'broken'],
  ])('closed by the client with %s ended %s', async (code, how) => {
    const at = await station();
    const one = await client(at);
    if (code === undefined) one.ws.close();
    else one.ws.close(code);
    await at.until(() => at.endings.length === 1);
    expect(at.endings[0]!.how).toBe(how);
  });

  it('cut without a word ended broken, its tail and workers let go first', async () => {
    const at = await station();
    const one = await client(at);
    await one.call('session.open', { agent: 'a' });
    await one.call('work');
    await one.call('feed.subscribe');
    one.ws.terminate();
    await at.until(() => at.endings.length === 1);
    const { connection, how } = at.endings[0]!;
    expect(how).toBe('broken');
    expect(connection.session?.id).toBe('of-a');
    expect([...at.tails.values(), ...at.workers.values()].map((one) => one.disposed)).toEqual([true, true]);
    expect(at.gateway.registry.bySession('of-a')).toBeUndefined();
  });
});

describe('the wheel', () => {
  it('calls late rather than early, once a date, and moves a date up but never back', async () => {
    const wheel = new Wheel((error) => {
      throw error;
    });
    const startedAt = performance.now();
    const never = Number.POSITIVE_INFINITY;
    const calls: { name: string; ms: number }[] = [];
    await new Promise<void>((resolve) => {
      const moved = {
        dueAt: never,
        tick: () => {
          calls.push({ name: 'moved', ms: performance.now() - startedAt });
          return calls.length === 1 ? 60 : never;
        },
      };
      const last = {
        dueAt: never,
        tick: () => {
          resolve();
          return never;
        },
      };
      wheel.within(moved, 500);
      wheel.within(moved, 80);
      wheel.within(moved, 300);
      wheel.within(last, 400);
    });
    wheel.stop();
    expect(calls).toHaveLength(2); // Both before the one at 400, though a date of 500 was given first.
    expect(calls[0]!.ms).toBeGreaterThanOrEqual(59); // Its clock is one step coarse.
    expect(calls[1]!.ms - calls[0]!.ms).toBeGreaterThanOrEqual(39);
  });

  it('goes on after a date that throws', async () => {
    const faults: unknown[] = [];
    const wheel = new Wheel((error) => faults.push(error));
    await new Promise<void>((resolve) => {
      const bad = {
        dueAt: Number.POSITIVE_INFINITY,
        tick: () => {
          throw new Error('boom');
        },
      };
      wheel.within(bad, 20);
      const good = {
        dueAt: Number.POSITIVE_INFINITY,
        tick: () => {
          resolve();
          return Number.POSITIVE_INFINITY;
        },
      };
      wheel.within(good, 60);
    });
    wheel.stop();
    expect(faults).toHaveLength(1);
  });
});
