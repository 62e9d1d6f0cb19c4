import { createInterface } from 'node:readline';
import { setTimeout as wait } from 'node:timers/promises';
import { connect } from '../../../dist/src/client/index.js';

/**
 * An agent that takes random locks by the client, in a process that can be frozen and killed at any moment. Arguments: url,
 * name, seed, ttlMs, plan (JSON list of rounds). It prints what it knows to hold: `begin`, then `sure` again and again, each
 * with an instant taken before the signal was asked, so that at that instant the lock was surely still its own, then `end`.
 */
const [url, agent, ttlMs, planText] = process.argv.slice(2);
const plan = JSON.parse(planText);

/** The clock of the machine, the same in every process; it does not stop while this one stands still. */
const now = () => Number(process.hrtime.bigint()) / 1e6;
// What is printed is out when the call returns, as long as the pipe has room, and its reader never sleeps: what a killed
// process knew is not lost.
const say = (what) => process.stdout.write(`${JSON.stringify(what)}\n`);
const tickMs = 4;

let stopped = false;
createInterface({ input: process.stdin }).on('line', (line) => {
  if (line === 'stop') stopped = true;
});

const sb = await connect({
  url,
  agent,
  ttlMs: Number(ttlMs),
  connectTimeoutMs: 60_000,
  timeoutMs: 20_000,
  backoff: { baseMs: 10, capMs: 200 },
  onError: () => {},
});
say({ what: 'ready' });

async function hold(round, number, lock) {
  let at = now();
  if (lock.signal.aborted) return;
  say({ what: 'begin', number, grant: lock.grant, fence: lock.fence, at });
  const until = at + round.holdMs;
  for (;;) {
    at = now();
    if (lock.signal.aborted) return;
    say({ what: 'sure', number, at });
    if (at >= until) return;
    await wait(tickMs);
  }
}

async function take(round, number) {
  const controller = new AbortController();
  if (round.abortMs !== undefined) setTimeout(() => controller.abort(new Error('given up')), round.abortMs).unref();
  const { locks, inner, waitMs, leaseMs, maxHoldMs, onDisconnect } = round;
  const options = { waitMs, leaseMs, maxHoldMs, onDisconnect, signal: controller.signal };
  await sb.lock(locks, options, async (lock) => {
    await hold(round, number, lock);
    if (inner) await run({ ...inner, holdMs: round.holdMs }, `${number}.inner`);
  });
}

async function run(round, number) {
  say({ what: 'ask', number, locks: round.locks, waitMs: round.waitMs, at: now() });
  try {
    await take(round, number);
    say({ what: 'end', number, how: 'done', at: now() });
  } catch (error) {
    if (error.name === 'Closed') throw error;
    say({ what: 'end', number, how: error.code ?? error.reason ?? error.message, at: now() });
  }
}

for (let i = 0; !stopped; i++) {
  const round = plan[i % plan.length];
  await wait(round.restMs);
  await run(round, i);
}
await sb.close({ limitMs: 3000 });
say({ what: 'bye' });
process.exit(0);
