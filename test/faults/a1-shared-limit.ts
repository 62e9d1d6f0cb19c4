import { startRemote } from '../support/remote.js';
import type { Any } from '../support/wire.js';
import { check, scenario } from './scenario.js';
import { checkRest, onStage, sleep } from './support.js';

interface Lengths {
  readonly perMs: number;
  /** Nobody asks for anything first. */
  readonly idleMs: number;
}

const limit = 60;
const agents = 10;
const asksEach = 30;

/** In no span of the window more than the limit, by the moments at which Redis granted. */
function checkSpans(times: readonly number[], perMs: number): void {
  const sorted = [...times].sort((a, b) => a - b);
  for (let i = limit; i < sorted.length; i++) {
    const span = sorted[i]! - sorted[i - limit]!;
    check(span > perMs, `${limit + 1} grants in ${Math.round(span)} ms, the window is ${perMs} ms`);
  }
}

/** Among those that wait nobody is more than two grants ahead; what is free at once goes to whoever comes. */
function checkTurns(grants: readonly Any[]): void {
  const left = new Map<string, number>();
  for (const { agent } of grants) left.set(agent, (left.get(agent) ?? 0) + 1);
  const served = new Map([...left.keys()].map((agent) => [agent, 0]));
  for (const { agent } of grants) {
    served.set(agent, served.get(agent)! + 1);
    left.set(agent, left.get(agent)! - 1);
    const waiting = [...served].filter(([other]) => left.get(other)! > 0).map(([, count]) => count);
    const ahead = served.get(agent)! - Math.min(...waiting, served.get(agent)!);
    check(ahead <= 2, `${agent} is ${ahead} grants ahead of somebody who waits`);
  }
}

export const sharedLimit = scenario<Lengths>({
  id: 'A1',
  title: 'ten processes share one limit of 60 in a window: never more in any span, all served in time and in turn',
  short: { perMs: 1000, idleMs: 500 },
  full: { perMs: 60_000, idleMs: 600_000 },
  run: ({ perMs, idleMs }) =>
    onStage(async (stage) => {
      const daemons = [await stage.daemon(), await stage.daemon()];
      const remotes = await Promise.all(
        Array.from({ length: agents }, (_, i) => startRemote(daemons[i % daemons.length]!.url)),
      );
      try {
        const wires = remotes.map(({ wire }) => wire);
        await Promise.all(wires.map((wire, i) => wire.call('session.open', { agent: `agent-${i}`, ttlMs: 60_000 })));
        const name = 'm1';
        const dimensions = { requests: { amount: limit, perMs } };
        await wires[0]!.call('limit.define', { name, kind: 'window', dimensions });
        await sleep(idleMs);
        // Just before the window of a limiter that counts from the full minute would be a new one.
        await sleep((2 * perMs - (Date.now() % perMs) - perMs / 600) % perMs);
        const startedAt = performance.now();
        // 300 grants of 60 a window: the first 60 at once.
        const boundMs = 5.25 * perMs;
        const times: number[] = [];
        const waited: Any[] = [];
        await Promise.all(
          wires.map(async (wire, i) => {
            const asks = Array.from({ length: asksEach }, async () => {
              const asked = await wire.call('limit.reserve', { name, cost: { requests: 1 }, waitMs: 10 * perMs });
              if (asked.state === 'granted') return void times.push(asked.fence / 1000);
              const push = await wire.next(
                ({ op, reservation }) => reservation === asked.reservation && (op === 'granted' || op === 'waitEnded'),
                2 * boundMs,
              );
              check(push.op === 'granted', `a wait ended: ${JSON.stringify(push)}`);
              times.push(push.fence / 1000);
              waited.push({ agent: `agent-${i}`, fence: push.fence });
            });
            await Promise.all(asks);
          }),
        );
        const tookMs = Math.round(performance.now() - startedAt);
        check(times.length === agents * asksEach, `${times.length} grants of ${agents * asksEach} asks`);
        check(tookMs <= boundMs, `all were granted after ${tookMs} ms, bound ${boundMs}`);
        checkSpans(times, perMs);
        checkTurns(waited.sort((a, b) => a.fence - b.fence));
        await Promise.all(wires.map((wire) => wire.call('session.close', {})));
        await checkRest(stage);
        return `${times.length} grants in ${tookMs} ms, at most ${limit} in any ${perMs} ms, ${waited.length} of them in turn`;
      } finally {
        for (const remote of remotes) remote.kill();
      }
    }),
});
