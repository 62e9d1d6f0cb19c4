import { expect, test } from 'vitest';
import { client, useDaemon } from './real.js';

useDaemon();

/** A provider that allows so many calls in any second and answers 429 beyond. */
class Provider {
  readonly calls: { at: number; ok: boolean }[] = [];
  readonly #perSecond: number;

  constructor(perSecond: number) {
    this.#perSecond = perSecond;
  }

  async call(): Promise<number> {
    const at = performance.now();
    const ok = this.calls.filter((call) => call.ok && at - call.at < 1000).length < this.#perSecond;
    this.calls.push({ at, ok });
    await new Promise((resolve) => setTimeout(resolve, 5));
    return ok ? 200 : 429;
  }

  get refused(): number {
    return this.calls.filter(({ ok }) => !ok).length;
  }
}

test('[A5] a limit that is configured at twice what the provider allows costs a few 429s, not hundreds', async () => {
  const provider = new Provider(22);
  const agents = await Promise.all(Array.from({ length: 10 }, (_, i) => client({ agent: `storm-${i}` })));
  const name = 'client-storm';
  await agents[0]!.limit.define({ name, kind: 'window', dimensions: { requests: { amount: 40, perMs: 1000 } } });
  const until = performance.now() + 10_000;
  const penalties: number[] = [];
  await Promise.all(
    agents.map(async (sb) => {
      while (performance.now() < until) {
        await sb.limit(name, { requests: 1 }, async (call) => {
          if ((await provider.call()) !== 429) return;
          await call.penalize(1000, '429');
          penalties.push(performance.now());
        });
      }
    }),
  );
  // When the first is refused each of the ten may have a call under way; after that it is one that tries, and one that
  // finds out where the ramp has met the provider's rate.
  const [first = 0] = provider.calls.filter(({ ok }) => !ok).map(({ at }) => at);
  const storm = provider.calls.filter(({ ok, at }) => !ok && at < first + 500).length;
  expect(storm).toBeLessThanOrEqual(10);
  expect(provider.refused - storm).toBeLessThanOrEqual(12);
  expect(provider.calls.length - provider.refused).toBeGreaterThan(40);
  expect(provider.refused).toBeLessThan((provider.calls.length - provider.refused) / 2);
  // Nobody calls while all are told to stop, apart from what was under way and from the one that tries.
  for (const at of penalties) {
    const meanwhile = provider.calls.filter((call) => call.at > at + 100 && call.at < at + 990);
    expect(meanwhile.length).toBeLessThanOrEqual(1);
  }
}, 30_000);
