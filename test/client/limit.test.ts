import { expect, test } from 'vitest';
import { Ended, Refusal } from '../../src/client/index.js';
import { until } from '../support/until.js';
import { deferred } from './fake-daemon.js';
import { behind, client, useDaemon, world } from './real.js';
import { rejection, useRig } from './rig.js';

useDaemon();
useRig();

let names = 0;
const fresh = (): string => `client-limit-${++names}`;
const minute = 60_000;

async function limited(dimensions: Record<string, { amount: number; perMs?: number }>) {
  const sb = await client();
  const name = fresh();
  await sb.limit.define({ name, kind: 'window', dimensions });
  const usage = async () => (await sb.limit.get({ name })).usage;
  return { sb, name, usage };
}

test('the handler runs with what it reserved, and what it took is settled at its end', async () => {
  const { sb, name, usage } = await limited({ tokens: { amount: 1000, perMs: minute }, concurrency: { amount: 2 } });
  const made = await sb.limit(name, { tokens: 400, concurrency: 1 }, async (call) => {
    expect(call.signal.aborted).toBe(false);
    expect((await usage()).tokens).toMatchObject({ reserved: 400 });
    call.took({ tokens: 90 });
    return 'answer';
  });
  expect(made).toBe('answer');
  expect(await usage()).toEqual({
    tokens: { amount: 1000, used: 90, reserved: 0, remaining: 910 },
    concurrency: { amount: 2, used: 0, reserved: 0, remaining: 2 },
  });
});

test('what a handler throws comes out, and its reservation is settled all the same', async () => {
  const { sb, name, usage } = await limited({ tokens: { amount: 10, perMs: minute }, concurrency: { amount: 1 } });
  const thrown = sb.limit(name, { tokens: 4, concurrency: 1 }, () => {
    throw new Error('no');
  });
  expect((await rejection(thrown)).message).toBe('no');
  expect(await usage()).toMatchObject({ tokens: { used: 4, reserved: 0 }, concurrency: { reserved: 0 } });
});

test('calls beyond the limit wait for their turn; never more at once than it says', async () => {
  const { sb, name } = await limited({ concurrency: { amount: 3 } });
  let [running, most] = [0, 0];
  const full = deferred();
  const call = () =>
    sb.limit(name, { concurrency: 1 }, async () => {
      most = Math.max(most, ++running);
      if (running === 3) full.resolve();
      await full.promise;
      running--;
    });
  await Promise.all(Array.from({ length: 30 }, call));
  expect(most).toBe(3);
});

test('what never fits, or has no time to wait, is refused', async () => {
  const { sb, name } = await limited({ concurrency: { amount: 1 } });
  const never = await rejection(sb.limit(name, { concurrency: 2 }, () => 1));
  expect(never).toMatchObject({ code: 'NEVER_FITS' });
  const gate = deferred<void>();
  const first = sb.limit(name, { concurrency: 1 }, () => gate.promise);
  await until(async () => (await sb.limit.get({ name })).usage.concurrency?.reserved === 1);
  expect(await rejection(sb.limit(name, { concurrency: 1 }, { waitMs: 0 }, () => 1))).toMatchObject({
    code: 'LIMITED',
  });
  const late = await rejection(sb.limit(name, { concurrency: 1 }, { waitMs: 50 }, () => 1));
  expect(late).toBeInstanceOf(Refusal);
  expect(late).toMatchObject({ code: 'LIMITED' });
  gate.resolve();
  await first;
});

test('[L19] a wait that is given up leaves nothing behind', async () => {
  const { sb, name, usage } = await limited({ concurrency: { amount: 1 } });
  const gate = deferred<void>();
  const first = sb.limit(name, { concurrency: 1 }, () => gate.promise);
  await until(async () => (await usage()).concurrency?.reserved === 1);
  const giveUp = new AbortController();
  const waits = sb.limit(name, { concurrency: 1 }, { signal: giveUp.signal }, () => 'never');
  await until(async () => (await sb.limit.get({ name })).waiting === 1);
  giveUp.abort(new Error('enough'));
  expect((await rejection(waits)).message).toBe('enough');
  await until(async () => (await sb.limit.get({ name })).waiting === 0);
  gate.resolve();
  await first;
  expect((await usage()).concurrency).toMatchObject({ reserved: 0, remaining: 1 });
});

test('the signal aborts when the reservation is taken away; what the handler made stands', async () => {
  const { sb, name } = await limited({ n: { amount: 5, perMs: minute } });
  const reasons: unknown[] = [];
  const made = sb.limit(name, { n: 1 }, async ({ signal, reservation }) => {
    await sb.lease.revoke({ lease: `reservation:${reservation}`, reason: 'test' });
    await until(() => signal.aborted);
    reasons.push(signal.reason);
    return 'made';
  });
  expect(await made).toBe('made');
  expect(reasons[0]).toBeInstanceOf(Ended);
  expect(reasons[0]).toMatchObject({ reason: 'revoked' });
});

test('the signal aborts by the rule of the holder when nothing is heard any more', async () => {
  const { sb, link } = await behind({ ttlMs: 1000 });
  const name = fresh();
  await sb.limit.define({ name, kind: 'window', dimensions: { concurrency: { amount: 1 } } });
  const made = sb.limit(name, { concurrency: 1 }, async ({ signal }) => {
    link.silence();
    await until(() => signal.aborted, 5000);
    link.heal();
    return (signal.reason as Ended).reason;
  });
  const reason = await made;
  expect(['cannotRenew', 'sessionLost']).toContain(reason);
});

test('a lease of its own is renewed while the handler runs', async () => {
  const { sb, name, usage } = await limited({ concurrency: { amount: 1 } });
  const endsAt = async (): Promise<number> => {
    const { leases } = await sb.lease.list({});
    return Date.parse(leases.find(({ kind }) => kind === 'reservation')!.endsAt!);
  };
  const held = await sb.limit(name, { concurrency: 1 }, { leaseMs: 400 }, async ({ signal }) => {
    const first = await endsAt();
    await until(async () => (await endsAt()) > first + 800, 10_000);
    return [signal.aborted, (await usage()).concurrency?.reserved];
  });
  expect(held).toEqual([false, 1]);
});

test('a wait outlives the link: granted meanwhile or later, the handler runs once', async () => {
  const { sb, link } = await behind({ ttlMs: 20_000 });
  const other = await client({ agent: 'other' });
  const name = fresh();
  await sb.limit.define({ name, kind: 'window', dimensions: { concurrency: { amount: 1 } } });
  const gate = deferred<void>();
  const first = other.limit(name, { concurrency: 1 }, () => gate.promise);
  await until(async () => (await other.limit.get({ name })).usage.concurrency?.reserved === 1);
  let runs = 0;
  const second = sb.limit(name, { concurrency: 1 }, () => ++runs);
  await until(async () => (await other.limit.get({ name })).waiting === 1);
  link.cut();
  gate.resolve();
  await first;
  expect(await second).toBe(1);
  expect((await other.limit.get({ name })).usage.concurrency).toMatchObject({ reserved: 0 });
});

test('[L10] a lost reply to reserve, or to settle, is asked for again: one grant, one charge', async () => {
  const { sb, link } = await behind({ ttlMs: 20_000 });
  const other = await client({ agent: 'other' });
  const name = fresh();
  await other.limit.define({ name, kind: 'window', dimensions: { n: { amount: 100, perMs: minute } } });
  let runs = 0;
  link.swallowNext();
  await sb.limit(name, { n: 10 }, (call) => {
    runs++;
    call.took({ n: 4 });
    link.swallowNext();
  });
  expect(runs).toBe(1);
  expect((await other.limit.get({ name })).usage.n).toEqual({ amount: 100, used: 4, reserved: 0, remaining: 96 });
});

test('[A5] who meets a 429 stops everybody, and it goes on by itself', async () => {
  const { sb, name } = await limited({ requests: { amount: 100, perMs: minute } });
  const other = await client({ agent: 'b' });
  const began = Date.now();
  await sb.limit(name, { requests: 1 }, (call) => call.penalize(300, '429'));
  const refusal = await rejection(other.limit(name, { requests: 1 }, { waitMs: 0 }, () => 1));
  expect(refusal).toMatchObject({ code: 'LIMITED' });
  await other.limit(name, { requests: 1 }, (call) => call.observe('requests', 5, 1000));
  expect(Date.now() - began).toBeGreaterThanOrEqual(299);
  expect(world.daemon.output()).not.toContain('background task failed');
});
