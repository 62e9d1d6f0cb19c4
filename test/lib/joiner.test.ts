import { describe, expect, it } from 'vitest';
import { Joiner } from '../../src/lib/joiner.js';

interface Call {
  readonly items: readonly number[];
  readonly resolve: (results: string[]) => void;
  readonly reject: (error: Error) => void;
}

/** A joiner whose calls end when the test says so. */
function rig(bounds: Partial<{ itemsMax: number; callsMax: number; waitingMax: number }> = {}) {
  const calls: Call[] = [];
  const joiner = new Joiner<number, string>(
    (items) => new Promise((resolve, reject) => calls.push({ items, resolve, reject })),
    { itemsMax: 4, callsMax: 1, waitingMax: 20, overflow: () => new Error('full'), ...bounds },
  );
  // What a call's end sets off is sent a turn later, and a call a turn.
  const turn = async (): Promise<void> => {
    for (let i = 0; i < 4; i++) await new Promise((resolve) => setImmediate(resolve));
  };
  const answer = async (index: number): Promise<void> => {
    calls[index]!.resolve(calls[index]!.items.map((item) => `r${item}`));
    await turn();
  };
  return { joiner, calls, turn, answer };
}

describe('a joiner', () => {
  it('joins what comes in one turn into one call and gives each caller its own, in order', async () => {
    const { joiner, calls, turn, answer } = rig();
    const all = Promise.all([joiner.add([1]), joiner.add([2, 3]), joiner.add([4])]);
    await turn();
    expect(calls.map(({ items }) => items)).toEqual([[1, 2, 3, 4]]);
    await answer(0);
    expect(await all).toEqual([['r1'], ['r2', 'r3'], ['r4']]);
  });

  it('while its calls are out arrivals wait, and the next call takes them all up to its bound', async () => {
    const { joiner, calls, turn, answer } = rig();
    const first = joiner.add([1]);
    await turn();
    const rest = Promise.all([2, 3, 4, 5, 6].map((item) => joiner.add([item])));
    await turn();
    expect(calls).toHaveLength(1);
    await answer(0);
    expect(calls.slice(1).map(({ items }) => items)).toEqual([[2, 3, 4, 5]]);
    await answer(1);
    expect(calls[2]!.items).toEqual([6]);
    await answer(2);
    expect([await first, await rest]).toEqual([['r1'], [['r2'], ['r3'], ['r4'], ['r5'], ['r6']]]);
  });

  it('has passed when what was added until then is answered, good or bad, whatever comes after', async () => {
    const { joiner, calls, turn, answer } = rig({ itemsMax: 2, callsMax: 2 });
    await joiner.passed();
    const all = Promise.allSettled([1, 2, 3, 4, 5].map((item) => joiner.add([item])));
    let hasPassed = false;
    const passed = joiner.passed().then(() => {
      hasPassed = true;
    });
    await turn();
    expect(calls.map(({ items }) => items)).toEqual([
      [1, 2],
      [3, 4],
    ]);
    await answer(1);
    expect(calls[2]!.items).toEqual([5]);
    const later = joiner.add([6]);
    calls[2]!.reject(new Error('away'));
    await turn();
    // The last one has its answer, the first ones have not.
    expect(hasPassed).toBe(false);
    await answer(0);
    // Unless what came later was on its way already, it is not waited for.
    await answer(3);
    await passed;
    expect((await all).map(({ status }) => status)).toEqual([...Array(4).fill('fulfilled'), 'rejected']);
    expect(await later).toEqual(['r6']);
  });

  it('what waits is shared between the calls that may go, groups whole, so that their answers come apart', async () => {
    const { joiner, calls, turn } = rig({ itemsMax: 100, callsMax: 2, waitingMax: 200 });
    const groups = [30, 30, 20, 20].map((length) => joiner.add(Array.from({ length }, (_, i) => i)));
    await turn();
    expect(calls.map(({ items }) => items.length)).toEqual([60, 40]);
    for (const { items, resolve } of calls) resolve(items.map(String));
    expect((await Promise.all(groups)).map(({ length }) => length)).toEqual([30, 30, 20, 20]);
  });

  it('calls that may go together go a turn apart, each told whether another one follows', async () => {
    const told: boolean[] = [];
    const joiner = new Joiner<number, number>(
      async (items, more) => {
        told.push(more);
        return items;
      },
      { itemsMax: 100, callsMax: 2, waitingMax: 200, overflow: () => new Error('full') },
    );
    const all = Promise.all([30, 30].map((length) => joiner.add(Array.from({ length }, (_, i) => i))));
    await new Promise((resolve) => setImmediate(resolve));
    expect(told).toEqual([true]);
    await all;
    expect(told).toEqual([true, false]);
  });

  it('what is not joined goes at once, as many as may go', async () => {
    const { joiner, calls } = rig({ itemsMax: 1, callsMax: 3 });
    for (const item of [1, 2, 3, 4]) joiner.add([item]).catch(() => {});
    await new Promise((resolve) => setImmediate(resolve));
    expect(calls.map(({ items }) => items)).toEqual([[1], [2], [3]]);
  });

  it('a group larger than a call is cut, and resolves whole, though its calls end in any order', async () => {
    const { joiner, calls, turn, answer } = rig({ callsMax: 3 });
    const group = joiner.add([1, 2, 3, 4, 5, 6, 7, 8, 9]);
    const other = joiner.add([10]);
    await turn();
    expect(calls.map(({ items }) => items)).toEqual([
      [1, 2, 3, 4],
      [5, 6, 7, 8],
      [9, 10],
    ]);
    await answer(2);
    await answer(0);
    expect(await other).toEqual(['r10']);
    await answer(1);
    // Results stand in the order of the items, whichever call was first.
    expect(await group).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9].map((item) => `r${item}`));
  });

  it('a failed call fails the groups it carried, whole, and what is left of them is not sent', async () => {
    const { joiner, calls, turn, answer } = rig();
    const large = joiner.add([1, 2, 3, 4, 5, 6, 7, 8, 9]);
    const small = joiner.add([10]);
    await turn();
    const failed = expect(large).rejects.toThrow('lost');
    calls[0]!.reject(new Error('lost'));
    await failed;
    await turn();
    expect(calls[1]!.items).toEqual([10]);
    await answer(1);
    expect(await small).toEqual(['r10']);
    await joiner.idle();
  });

  it('a group one of whose calls failed while another is out is rejected once', async () => {
    const { joiner, calls, turn, answer } = rig({ callsMax: 2 });
    const large = joiner.add([1, 2, 3, 4, 5, 6]);
    await turn();
    const failed = expect(large).rejects.toThrow('first');
    calls[0]!.reject(new Error('first'));
    await failed;
    await answer(1);
    const next = joiner.add([7]);
    await turn();
    await answer(2);
    expect(await next).toEqual(['r7']);
  });

  it('refuses what would wait beyond its bound, and takes more when there is room again', async () => {
    const { joiner, turn, answer } = rig({ waitingMax: 3 });
    const first = joiner.add([1, 2, 3]);
    await expect(joiner.add([4])).rejects.toThrow('full');
    await turn();
    const second = joiner.add([4]);
    await answer(0);
    await answer(1);
    expect([await first, await second]).toEqual([['r1', 'r2', 'r3'], ['r4']]);
  });

  it('an answer of another length fails its callers instead of giving one the result of another', async () => {
    const { joiner, calls, turn } = rig();
    const group = joiner.add([1, 2]);
    await turn();
    calls[0]!.resolve(['only one']);
    await expect(group).rejects.toThrow(/results/);
    await joiner.idle();
  });

  it('nothing is a call of nothing', async () => {
    const { joiner, calls, turn } = rig();
    expect(await joiner.add([])).toEqual([]);
    await turn();
    expect(calls).toEqual([]);
  });

  it('is idle when nothing waits and nothing is out', async () => {
    const { joiner, turn, answer } = rig();
    await joiner.idle();
    const group = joiner.add([1, 2, 3, 4, 5]);
    let idle = false;
    const waited = joiner.idle().then(() => {
      idle = true;
    });
    await turn();
    await answer(0);
    expect(idle).toBe(false);
    await answer(1);
    await waited;
    await group;
  });

  it('a run that throws before it begins is a call that failed', async () => {
    const joiner = new Joiner<number, string>(
      () => {
        throw new Error('at once');
      },
      { itemsMax: 4, callsMax: 1, waitingMax: 20, overflow: () => new Error('full') },
    );
    await expect(joiner.add([1])).rejects.toThrow('at once');
    await expect(joiner.add([2])).rejects.toThrow('at once');
  });
});
