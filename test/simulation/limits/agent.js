import { createInterface } from 'node:readline';
import { setTimeout as wait } from 'node:timers/promises';
import { connect } from '../../../dist/src/client/index.js';

/**
 * An agent that spends from limits and acts under once keys, in a process that can be frozen and killed at any moment.
 * Arguments: url, name, ttlMs, plan (JSON list of rounds). It prints what it knows: `ask` before a call, `begin` when it has
 * something, `sure` with instants taken before the signal was asked, `took` and `did` before what it says to the daemon,
 * `end` with what the call became.
 */
const [url, agent, ttlMs, planText] = process.argv.slice(2);
const plan = JSON.parse(planText);

/** The clock of the machine, the same in every process; it does not stop while this one stands still. */
const now = () => Number(process.hrtime.bigint()) / 1e6;
// What is printed is out when the call returns, as long as the pipe has room, and its reader never sleeps: what a killed
// process knew is not lost.
const say = (what) => process.stdout.write(`${JSON.stringify(what)}\n`);
const tickMs = 4;
const lanes = 3;

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

/** Answers whether it was surely ours all the time. */
async function hold(number, signal, holdMs) {
  for (const until = now() + holdMs; ; ) {
    const at = now();
    if (signal.aborted) return false;
    say({ what: 'sure', number, at });
    if (at >= until) return true;
    await wait(tickMs);
  }
}

/** Tells the limit what a provider said; printed once it was heard. */
async function note(number, call, { penalizeMs, observe }) {
  const from = now();
  if (penalizeMs) await call.penalize(penalizeMs, '429');
  if (observe) await call.observe(observe.dimension, observe.remaining, observe.resetMs);
  say({ what: 'noted', number, from, at: now() });
}

async function spend(round, number) {
  const { limit, cost, actual, waitMs, leaseMs, weight, holdMs, abortMs } = round;
  const controller = new AbortController();
  if (abortMs !== undefined) setTimeout(() => controller.abort(new Error('given up')), abortMs).unref();
  await sb.limit(limit, cost, { waitMs, leaseMs, weight, signal: controller.signal }, async (call) => {
    say({ what: 'begin', number, name: call.reservation, fence: call.fence, at: now() });
    await hold(number, call.signal, holdMs);
    if (round.penalizeMs || round.observe) await note(number, call, round).catch(() => {});
    if (!actual) return;
    say({ what: 'took', number, at: now() });
    call.took(actual);
  });
}

async function act(round, number) {
  const { key, leaseMs, keepMs, waitMs, holdMs, how } = round;
  const body = (as) => async (call) => {
    say({ what: 'begin', number, name: key, fence: call.fence, as, at: now() });
    if (!(await hold(number, call.signal, holdMs))) throw Object.assign(new Error('lost'), { own: 'lost' });
    const value = `${agent} ${call.fence}`;
    say({ what: 'did', number, value, at: now() });
    if (how === 'done') return value;
    throw Object.assign(new Error(value), { own: how });
  };
  const options = { leaseMs, keepMs, waitMs, onUnknown: body('unknown'), onError: ({ own }) => own ?? 'unknown' };
  return await sb.once(key, key, options, body('new'));
}

async function run(number) {
  const round = plan[number % plan.length];
  await wait(round.restMs);
  say({ what: 'ask', number, at: now() });
  let end;
  try {
    const value = await (round.key === undefined ? spend : act)(round, number);
    end = { how: 'done', value };
  } catch (error) {
    if (error.name === 'Closed') throw error;
    // What somebody else's final error was, or our own.
    if (error.name === 'Fail') end = { how: 'failed', value: error.message };
    else end = { how: error.own ?? error.code ?? error.reason ?? error.message };
  }
  say({ what: 'end', number, ...end, at: now() });
  // While Redis is away every answer is quick.
  if (end.how === 'UNAVAILABLE') await wait(50);
}

/** Calls run beside each other: an agent that only ever waits for one never fills a limit. */
async function lane(first) {
  for (let number = first; !stopped; number += lanes) await run(number);
}
await Promise.all(Array.from({ length: lanes }, (_, first) => lane(first)));
await sb.close({ limitMs: 3000 });
say({ what: 'bye' });
process.exit(0);
