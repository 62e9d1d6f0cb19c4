import { expect, test } from 'vitest';
import { until } from '../support/until.js';
import { type Any, limitOf, randomOf, reserve, settle, usage, useWorld } from './support.js';

const { daemon } = useWorld();
const seed = Number(process.env.SEED ?? Date.now() % 1_000_000);
const random = randomOf(seed);
const whole = (least: number, most: number): number => least + Math.floor(random() * (most - least + 1));
const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

/** What was taken when: a grant at its time with what it came to, the rest of an overdrawn one when it was settled. */
interface Charge {
  readonly at: number;
  amount: number;
}

/** Every span of the window by brute force: one that begins with each charge. */
function mostInAnySpan(charges: readonly Charge[], spanMs: number): number {
  let most = 0;
  for (const { at: from } of charges) {
    let sum = 0;
    for (const { at, amount } of charges) if (at >= from && at < from + spanMs) sum += amount;
    most = Math.max(most, sum);
  }
  return most;
}

test(`[L24] [A1] in no span of the window more than the limit, at no moment (SEED=${seed})`, async () => {
  const rounds = await Promise.all(
    Array.from({ length: 6 }, async (_, round) => {
      const amount = whole(5, 40);
      const perMs = whole(60, 400);
      const wires = await Promise.all(
        Array.from({ length: 3 }, (_, i) => daemon().session({ agent: `m${round}-${i}` })),
      );
      const name = await limitOf(wires[0]!, 'window', { n: { amount, perMs } });
      const charges: Charge[] = [];
      let refusals = 0;
      await Promise.all(
        wires.map(async (wire) => {
          for (let step = 0; step < 120; step++) {
            const n = whole(1, Math.ceil(amount / 3));
            const reply: Any = await reserve(wire, name, { n }).catch((error) => error);
            if (reply.state === undefined) refusals++;
            else {
              const charge = { at: reply.fence / 1000, amount: n };
              charges.push(charge);
              // Given back in full, in part, or not at all: what is given back may be granted again, no more.
              if (random() < 0.3) {
                const actual = whole(0, n);
                await settle(wire, reply, { n: actual });
                charge.amount = actual;
              }
            }
            if (random() < 0.3) await pause(whole(0, perMs / 4));
          }
        }),
      );
      return { amount, perMs, charges, refusals };
    }),
  );
  for (const { amount, perMs, charges, refusals } of rounds) {
    expect(mostInAnySpan(charges, perMs), `${amount} per ${perMs}`).toBeLessThanOrEqual(amount);
    // It was at the edge: otherwise nothing was shown.
    expect(refusals).toBeGreaterThan(0);
    // And not far below: a sixtieth of the span is given away, and what the agents' pauses and whole asks leave.
    const busiest = mostInAnySpan(charges, perMs);
    expect(busiest).toBeGreaterThan(amount / 2);
  }
}, 60_000);

test(`a bucket never gives more than burst + rate × time in any span (SEED=${seed})`, async () => {
  const wire = await daemon().session();
  const [amount, perMs, burst] = [whole(20, 50), 200, whole(5, 60)];
  const name = await limitOf(wire, 'bucket', { n: { amount, perMs, burst } });
  const charges: Charge[] = [];
  for (let step = 0; step < 400; step++) {
    const n = whole(1, 5);
    const reply: Any = await reserve(wire, name, { n }).catch((error) => error);
    if (reply.state) charges.push({ at: reply.fence / 1000, amount: n });
    if (random() < 0.1) await pause(whole(0, 60));
  }
  for (let i = 0; i < charges.length; i++) {
    let sum = 0;
    for (const { at, amount: n } of charges.slice(i)) {
      sum += n;
      // Redis counts in whole milliseconds: one of them at each end.
      expect(sum).toBeLessThanOrEqual(burst + ((at - charges[i]!.at + 1) * amount) / perMs + 1e-6);
    }
  }
}, 60_000);

test(`money is neither made nor lost: spent, reserved and left are always the budget (SEED=${seed})`, async () => {
  const total = 1_000_000_000_000;
  const wires = await Promise.all(Array.from({ length: 4 }, () => daemon().session({ ttlMs: 60_000 })));
  const name = await limitOf(wires[0]!, 'budget', { usdMicros: { amount: total }, tokens: { amount: 10_000 } });
  let [spentMoney, spentTokens] = [0, 0];
  await Promise.all(
    wires.map(async (wire) => {
      for (let step = 0; step < 60; step++) {
        const cost = { usdMicros: whole(1, 10_000_000_001), tokens: whole(1, 60) };
        const reply: Any = await reserve(wire, name, cost).catch((error) => error);
        if (!reply.state) continue;
        const actual = { usdMicros: whole(0, 2 * cost.usdMicros), tokens: whole(0, cost.tokens) };
        const fate = random();
        if (fate < 0.6) await settle(wire, reply, actual);
        else if (fate < 0.8) await settle(wire, reply);
        else await wire.call('lease.revoke', { lease: `reservation:${reply.reservation}`, reason: 'model' });
        spentMoney += fate < 0.6 ? actual.usdMicros : cost.usdMicros;
        spentTokens += fate < 0.6 ? actual.tokens : cost.tokens;
        if (fate > 0.95) await settle(wire, reply).catch(() => undefined);
        const now = await usage(wire, name);
        for (const [dimension, { used, reserved, remaining, amount }] of Object.entries<Any>(now))
          expect(used + reserved + remaining, dimension).toBe(amount);
      }
    }),
  );
  const { usdMicros, tokens } = await usage(wires[0]!, name);
  expect({ money: usdMicros.used, tokens: tokens.used }).toEqual({ money: spentMoney, tokens: spentTokens });
  expect(usdMicros.reserved + tokens.reserved).toBe(0);
}, 60_000);

test('[L26] of twenty that reserve 1,000 of 10,000 tokens ten pass; settled lower, the rest follows; a debt delays the next', async () => {
  const wires = await Promise.all(
    Array.from({ length: 20 }, (_, i) => daemon().session({ agent: `l26-${i}`, ttlMs: 60_000 })),
  );
  const name = await limitOf(wires[0]!, 'window', { tokens: { amount: 10_000, perMs: 3000 } });
  const replies = await Promise.all(wires.map((wire) => reserve(wire, name, { tokens: 1000 }, { waitMs: 20_000 })));
  const passed = replies.filter(({ state }) => state === 'granted');
  expect(passed).toHaveLength(10);
  const first = Math.min(...passed.map(({ fence }) => fence));
  for (const [i, reply] of replies.entries())
    if (reply.state === 'granted') await settle(wires[i]!, reply, { tokens: 100 });
  // Nine hundred came back from each: nine of the ten have room at once, without any window passing.
  const late = replies.map((reply, i) => ({ reply, wire: wires[i]! })).filter(({ reply }) => reply.state === 'waiting');
  const grants = (): Any[] =>
    late.flatMap(({ wire, reply }) =>
      wire.lines.filter((line) => line.op === 'granted' && line.reservation === reply.reservation),
    );
  await until(() => grants().length >= 9);
  expect(Math.max(...grants().map(({ fence }) => fence)) - first).toBeLessThan(3_000_000);
  const one = late.find(({ reply }) => reply.reservation === grants()[0].reservation)!;
  const settled = await settle(one.wire, one.reply, { tokens: 9000 });
  expect(settled.debt.tokens).toBeGreaterThanOrEqual(8000);
  const error = await wires[0]!.refused('limit.reserve', { name, cost: { tokens: 1 } });
  expect(error).toMatchObject({ code: 'LIMITED' });
  expect(error.details.remaining.tokens).toBeLessThan(0);
  expect(error.afterMs).toBeGreaterThan(0);
}, 30_000);
