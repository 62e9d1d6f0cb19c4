import { setTimeout as wait } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { ask, askPatiently } from '../src/cli/demo/ask.js';
import { completionOf, Llm } from '../src/cli/demo/llm.js';
import { Rate } from '../src/cli/demo/rate.js';
import { randomOf } from './queue/support.js';

const seed = Number(process.env.SEED ?? Date.now() % 1_000_000);
const random = randomOf(seed);
const whole = (least: number, most: number): number => least + Math.floor(random() * (most - least + 1));

interface Asked {
  readonly at: number;
  readonly ok: boolean;
}

/** By brute force: each is let through if and only if fewer than `amount` were in the span that ends with it. */
function wrongOf(asked: readonly Asked[], amount: number, perMs: number): Asked[] {
  return asked.filter(({ at, ok }, i) => {
    const before = asked.slice(0, i).filter((other) => other.ok && other.at > at - perMs).length;
    return ok !== before < amount;
  });
}

test(`the rate lets through as many as it says in any span, and no fewer (SEED=${seed})`, () => {
  for (let round = 0; round < 200; round++) {
    const [amount, perMs] = [whole(1, 12), whole(5, 200)];
    const rate = new Rate(amount, perMs);
    const asked: Asked[] = [];
    for (let at = 0; asked.length < 150; at += random() < 0.2 ? whole(1, perMs) : whole(0, 2)) {
      asked.push({ at, ok: rate.take(at) });
      if (rate.share > 1) throw new Error(`more than all of it was used: ${rate.share}`);
    }
    expect(wrongOf(asked, amount, perMs)).toEqual([]);
    const served = asked.filter(({ ok }) => ok).length;
    expect([rate.served, rate.refused]).toEqual([served, asked.length - served]);
  }
});

test('the share is all of it if nobody waits longer than the rate says, and less by the time that was wasted', () => {
  const serve = (...at: number[]): number => {
    const rate = new Rate(2, 100);
    for (const now of at) expect(rate.take(now)).toBe(true);
    return rate.share;
  };
  expect(serve(0, 0, 100, 100, 200)).toBe(1);
  expect(serve(0, 50, 100, 150, 200, 250)).toBe(0.8);
  expect(serve(0, 0, 200, 200, 400)).toBe(0.5);
  // Both fit at once: the rate held nobody up, and of nothing there is no share.
  expect(serve(0, 90)).toBe(0);
});

test(`the model answers 429 beyond its rate, and whoever is patient is served (SEED=${seed})`, async () => {
  const [amount, perMs] = [15, 300];
  const asked: Asked[] = [];
  class Recorded extends Rate {
    override take(at: number): boolean {
      const ok = super.take(at);
      asked.push({ at, ok });
      return ok;
    }
  }
  const llm = new Llm(new Recorded(amount, perMs), 5);
  try {
    const url = await llm.start();
    const statuses: number[] = [];
    const burst = async (size: number): Promise<void> => {
      const answers = await Promise.all(Array.from({ length: size }, (_, i) => ask(url, `prompt ${i}`)));
      for (const [i, { status, text, afterMs }] of answers.entries()) {
        statuses.push(status);
        if (status === 200) expect(text).toBe(completionOf(`prompt ${i}`));
        else expect(afterMs).toBeGreaterThan(0);
      }
    };
    await burst(amount * 2);
    for (let i = 0; i < 12; i++) {
      await wait(whole(0, perMs / 2));
      await burst(whole(1, amount * 2));
    }
    const served = statuses.filter((status) => status === 200).length;
    expect(statuses.filter((status) => status === 429).length).toBe(statuses.length - served);
    expect([llm.rate.served, llm.rate.refused]).toEqual([served, statuses.length - served]);
    expect(llm.rate.refused).toBeGreaterThanOrEqual(amount);
    const patient = Array.from({ length: amount * 2 }, () =>
      askPatiently(url, 'again', perMs, AbortSignal.timeout(20_000)),
    );
    for (const { status } of await Promise.all(patient)) expect(status).toBe(200);
    expect(wrongOf(asked, amount, perMs)).toEqual([]);
  } finally {
    llm.stop();
  }
}, 30_000);
