import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { until } from '../support/until.js';
import type { Any, Wire } from '../support/wire.js';
import { check, scenario } from './scenario.js';
import { checkRest, onStage, type Stage, sleep } from './support.js';

interface Lengths {
  readonly waiters: number;
  readonly ttlMs: number;
  /** How long somebody who lives has waited before it is looked at. */
  readonly patienceMs: number;
}

/** Waits for one thing on many connections, and says so once all of them stand in the queue. */
const program = `
import { WebSocket } from 'ws';
const [url, count, ttlMs, request] = process.argv.slice(1);
let waiting = 0;
for (let i = 0; i < Number(count); i++) {
  const socket = new WebSocket(url, 'signalbox.v1');
  const send = (line) => socket.send(JSON.stringify(line));
  socket.on('open', () => send({ id: 1, op: 'session.open', params: { agent: 'dying-' + i, ttlMs: Number(ttlMs) } }));
  socket.on('message', (data) => {
    for (const line of String(data).split('\\n').map((text) => JSON.parse(text))) {
      if (line.id === 1) send({ id: 2, ...JSON.parse(request) });
      if (line.id === 2 && line.ok?.state === 'waiting' && ++waiting === Number(count)) process.stdout.write('all wait');
      if (line.error) throw new Error(JSON.stringify(line.error));
    }
  });
}
`;

async function crowd(url: string, count: number, ttlMs: number, request: Any): Promise<ChildProcess> {
  const args = [url, String(count), String(ttlMs), JSON.stringify(request)];
  const child = spawn(process.execPath, ['--input-type=module', '-e', program, ...args], {
    cwd: fileURLToPath(new URL('../..', import.meta.url)),
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const ended = once(child, 'exit').then(([code]) => {
    throw new Error(`the waiters ended with ${code}`);
  });
  ended.catch(() => undefined);
  await Promise.race([once(child.stdout!, 'data'), ended]);
  return child;
}

/** What is held, waited for and given back, in the words of a lock and of a limit. */
const kinds = {
  lock: (name: string): Any => ({ op: 'lock.acquire', params: { name, waitMs: 3_600_000 } }),
  limit: (name: string): Any => ({
    op: 'limit.reserve',
    params: { name, cost: { concurrency: 1 }, waitMs: 3_600_000 },
  }),
} as const;

const giveBack = (wire: Wire, { grant, reservation }: Any): Promise<Any> =>
  grant === undefined ? wire.call('limit.settle', { reservation }) : wire.call('lock.release', { grant });

const granted = (wire: Wire, { grant, reservation }: Any, limitMs: number): Promise<Any> =>
  wire.next((line) => line.op === 'granted' && (line.grant ?? line.reservation) === (grant ?? reservation), limitMs);

/** Resolves when every session but these is known to have no socket. */
async function allNoticed({ admin }: Stage, living: readonly { opened: Any }[]): Promise<void> {
  const at = 'sb:{default}:session';
  await until(async () => {
    const ids = await admin.zrange(`${at}s`, '0', '-1');
    const dead = ids.filter((id) => !living.some(({ opened }) => opened.session === id));
    const away = await Promise.all(dead.map((id) => admin.hget(`${at}:${id}`, 'away')));
    return away.every((one) => one !== null);
  });
}

export const deadWaiters = scenario<Lengths>({
  id: 'L18',
  title: 'hundreds of dead waiters block nobody who lives, and who waits for long is still in the queue',
  short: { waiters: 200, ttlMs: 2000, patienceMs: 3000 },
  full: { waiters: 200, ttlMs: 15_000, patienceMs: 600_000 },
  run: ({ waiters, ttlMs, patienceMs }) =>
    onStage(async (stage) => {
      const daemon = await stage.daemon();
      const holder = await daemon.session({ agent: 'holder', ttlMs: 60_000 });
      const living = await daemon.session({ agent: 'living', ttlMs: 60_000 });
      const said: string[] = [];
      for (const [kind, request] of Object.entries(kinds)) {
        for (const end of ['SIGKILL', 'SIGSTOP'] as const) {
          const name = `${kind}-${end}`;
          if (kind === 'limit') {
            const dimensions = { concurrency: { amount: 1 } };
            await holder.call('limit.define', { name, kind: 'window', dimensions });
          }
          const ask = request(name);
          const held = await holder.call(ask.op, ask.params);
          const dead = await crowd(daemon.url, waiters, ttlMs, ask);
          try {
            const waits = await living.call(ask.op, ask.params);
            check(waits.place === waiters + 1, `${name}: the living one has place ${waits.place}`);
            dead.kill(end);
            // A grant to one whose end nobody has noticed yet is a hold, and ends like any other.
            if (end === 'SIGKILL') await allNoticed(stage, [holder, living]);
            const from = performance.now();
            await giveBack(holder, held);
            await granted(living, waits, 60_000);
            const ms = Math.round(performance.now() - from);
            // Whose socket is closed is passed over at once; a frozen crowd is known by its ttl, and the sweep that finds it.
            const boundMs = (end === 'SIGKILL' ? 0 : ttlMs) + 2000;
            check(ms <= boundMs, `${name}: granted after ${ms} ms, bound ${boundMs}`);
            said.push(`${name} ${ms} ms`);
            await giveBack(living, waits);
          } finally {
            dead.kill('SIGCONT');
            dead.kill('SIGKILL');
          }
        }
      }
      const patient = await Promise.all(
        Object.entries(kinds).map(async ([kind, request]) => {
          const ask = request(`${kind}-SIGKILL`);
          const held = await holder.call(ask.op, ask.params);
          return { held, waits: await living.call(ask.op, ask.params) };
        }),
      );
      await sleep(patienceMs);
      check(!living.lines.some(({ op }) => op === 'waitEnded'), 'no wait has ended by itself');
      for (const { held, waits } of patient) {
        await giveBack(holder, held);
        await granted(living, waits, 5000);
        await giveBack(living, waits);
      }
      await Promise.all([holder, living].map((wire) => wire.call('session.close', {})));
      await checkRest(stage);
      return `granted behind ${waiters} dead: ${said.join(', ')}; still in the queue after ${patienceMs / 1000} s`;
    }),
});
