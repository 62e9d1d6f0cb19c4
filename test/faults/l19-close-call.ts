import type { Any } from '../support/wire.js';
import { check, scenario } from './scenario.js';
import { checkRest, onStage, sleep } from './support.js';

interface Lengths {
  readonly rounds: number;
}

const waitMs = 50;

export const closeCall = scenario<Lengths>({
  id: 'L19',
  title: 'a wait that times out while the lock is given back ends exactly once, and leaves nothing behind',
  short: { rounds: 60 },
  full: { rounds: 2000 },
  run: ({ rounds }) =>
    onStage(async (stage) => {
      const daemon = await stage.daemon();
      const holder = await daemon.session({ agent: 'holder', ttlMs: 60_000 });
      const waiter = await daemon.session({ agent: 'waiter', ttlMs: 60_000 });
      const name = 'contended';
      const ended = { granted: 0, timeout: 0 };
      for (let round = 0; round < rounds; round++) {
        const held = await holder.call('lock.acquire', { name });
        const from = waiter.lines.length;
        const { grant } = await waiter.call('lock.acquire', { name, waitMs });
        const mine = (): Any[] =>
          waiter.lines.slice(from).filter((line) => line.grant === grant && /^(granted|waitEnded)$/.test(line.op));
        await sleep(waitMs - 2 + Math.random() * 4);
        await holder.call('lock.release', { grant: held.grant });
        await waiter.until(() => mine().length > 0, 10_000, 'the end of the wait');
        const [end] = mine();
        if (end.op === 'granted') {
          ended.granted++;
          const { state } = await waiter.call('lock.release', { grant });
          check(state === 'released', `a granted lock was ${state}`);
        } else {
          check(end.reason === 'timeout', `a wait ended by ${end.reason}`);
          ended.timeout++;
          // It is free: who asks now has it at once.
          await waiter.call('lock.acquire', { name, grant: `after-${round}` });
          await waiter.call('lock.release', { grant: `after-${round}` });
        }
        check(mine().length === 1, `${mine().length} ends of one wait`);
      }
      const { holders, waiting } = await holder.call('lock.get', { name });
      check(holders.length === 0 && waiting === 0, `left behind: ${holders.length} holders, ${waiting} waiters`);
      await Promise.all([holder, waiter].map((wire) => wire.call('session.close', {})));
      await checkRest(stage);
      return `${rounds} waits, each ended once: ${ended.granted} granted, ${ended.timeout} timed out`;
    }),
});
