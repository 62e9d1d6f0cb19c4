import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { Loop } from '../../src/lib/loop.js';

beforeEach(() => void vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] }));
afterEach(() => void vi.useRealTimers());

const run = (ms: number): Promise<unknown> => vi.advanceTimersByTimeAsync(ms);

/** A loop that notes when it ran; `answers` is what its runs say, the last one for ever. */
function rig(answers: (number | undefined)[] = [undefined], workMs = 0) {
  const startedAt = performance.now();
  const ranAt: number[] = [];
  const errors: unknown[] = [];
  const work = async (): Promise<number | undefined> => {
    ranAt.push(performance.now() - startedAt);
    if (workMs > 0) await new Promise((resolve) => setTimeout(resolve, workMs));
    return answers.length > 1 ? answers.shift() : answers[0];
  };
  return { ranAt, errors, loop: new Loop('test', 1000, work, (error) => errors.push(error)) };
}

describe('a loop', () => {
  it('runs at once and then at its interval', async () => {
    const { loop, ranAt } = rig();
    await loop.start();
    await run(2500);
    expect(ranAt).toEqual([0, 1000, 2000]);
    await loop.stop();
    await run(5000);
    expect(ranAt).toHaveLength(3);
  });

  it('runs earlier when the work says so, never later than its interval', async () => {
    const { loop, ranAt } = rig([300, 0, 5000, Number.POSITIVE_INFINITY, undefined]);
    await loop.start();
    await run(2350);
    // setTimeout(0) is one millisecond.
    expect(ranAt).toEqual([0, 300, 301, 1301, 2301]);
    await loop.stop();
  });

  it('runs earlier when somebody asks; the earliest of all wishes counts', async () => {
    const { loop, ranAt } = rig();
    await loop.start();
    await run(100);
    loop.soon(500);
    loop.soon(200);
    loop.soon(800);
    await run(2000);
    expect(ranAt).toEqual([0, 300, 1300]);
    await loop.stop();
  });

  it('never overlaps; what is asked for while it runs comes right after', async () => {
    const { loop, ranAt } = rig([undefined], 400);
    await loop.start();
    await run(100);
    loop.soon();
    loop.soon();
    await run(350);
    expect(ranAt).toEqual([0, 401]);
    await run(300);
    expect(ranAt).toEqual([0, 401]);
    await run(1200);
    expect(ranAt).toEqual([0, 401, 1801]);
    const stopped = loop.stop();
    await run(500);
    await stopped;
  });

  it('tells what was thrown and goes on at its interval, also when the work throws before it begins', async () => {
    for (const work of [
      () => Promise.reject(new Error('x')),
      () => {
        throw new Error('x');
      },
    ]) {
      const errors: unknown[] = [];
      const loop = new Loop('test', 1000, work as () => Promise<undefined>, (error) => errors.push(error));
      await loop.start();
      await run(1500);
      expect(errors).toHaveLength(2);
      await loop.stop();
    }
  });

  it('stop waits for the run under way; start again runs again; soon before start does nothing', async () => {
    const { loop, ranAt } = rig([undefined], 400);
    loop.soon();
    await run(1000);
    expect(ranAt).toEqual([]);
    await loop.start();
    await loop.start();
    await run(100);
    let stopped = false;
    const stop = loop.stop().then(() => {
      stopped = true;
    });
    await run(200);
    expect(stopped).toBe(false);
    await run(200);
    await stop;
    await loop.start();
    await run(10);
    expect(ranAt).toHaveLength(2);
    const again = loop.stop();
    await run(500);
    await again;
  });
});
