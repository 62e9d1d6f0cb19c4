import { expect, test } from 'vitest';
import { Defer, Ended, Fail, type OnceCall, OnceUnknown, Refusal } from '../../src/client/index.js';
import { until } from '../support/until.js';
import { behind, client, useDaemon, world } from './real.js';
import { rejection, useRig } from './rig.js';

useDaemon();
useRig();

let keys = 0;
const key = (): string => `client-${++keys}`;

test('R23: the handler runs once; whoever comes later gets its result, also from another process, whatever the order of members', async () => {
  const [a, b] = [await client({ agent: 'a' }), await client({ agent: 'b' })];
  const name = key();
  let runs = 0;
  const charge = async ({ attempts, fence, signal }: OnceCall) => {
    runs++;
    expect({ attempts, aborted: signal.aborted }).toEqual({ attempts: 1, aborted: false });
    expect(fence).toBeGreaterThan(0);
    return { charged: 5 };
  };
  expect(await a.once(name, { amount: 5, to: { x: 1, y: 2 } }, charge)).toEqual({ charged: 5 });
  expect(await b.once(name, { to: { y: 2, x: 1 }, amount: 5 }, charge)).toEqual({ charged: 5 });
  expect(runs).toBe(1);
  expect(await rejection(b.once(name, { amount: 6 }, charge))).toMatchObject({ code: 'MISMATCH' });
  expect(await b.once.get({ key: name })).toMatchObject({ state: 'done', attempts: 1, result: { charged: 5 } });
});

test('L29: twenty at once with a wait: one runs, all get its result; without a wait the others hear who is at it', async () => {
  const [a, b] = [await client({ agent: 'a' }), await client({ agent: 'b' })];
  const name = key();
  let runs = 0;
  let release: () => void = () => {};
  const gate = new Promise<void>((resolve) => {
    release = resolve;
  });
  const act = async (): Promise<number> => {
    await gate;
    return ++runs;
  };
  const all = Array.from({ length: 20 }, (_, i) => (i % 2 ? a : b).once(name, 1, { waitMs: 20_000 }, act));
  await expect
    .poll(async () => (await a.once.get({ key: name }).catch(() => ({ state: '' }))).state)
    .toBe('inProgress');
  const refused = await rejection(b.once(name, 1, act));
  expect(refused).toBeInstanceOf(Refusal);
  expect(refused).toMatchObject({ code: 'HELD', retry: true, details: { holder: { agent: expect.any(String) } } });
  release();
  expect(await Promise.all(all)).toEqual(Array(20).fill(1));
});

test('L30: what the handler throws is final, retryable or unknown: by its kind, or by choice', async () => {
  const sb = await client();
  const after = async (error: Error, options = {}) => {
    const name = key();
    const thrown = await rejection(sb.once(name, 1, options, () => Promise.reject(error)));
    expect(thrown).toBe(error);
    return sb.once.get({ key: name });
  };
  const final = await after(new Fail('no such card', { code: 'CARD', data: { tries: 2 } }));
  expect(final).toMatchObject({ state: 'done', error: { message: 'no such card', code: 'CARD', data: { tries: 2 } } });
  const again = await rejection(sb.once(final.key, 1, () => expect.unreachable()));
  expect(again).toBeInstanceOf(Fail);
  expect(again).toMatchObject({ message: 'no such card', options: { code: 'CARD', data: { tries: 2 } } });
  expect((await after(new Fail('busy', { retry: true }))).state).toBe('new');
  expect((await after(new Defer({ afterMs: 5 }))).state).toBe('new');
  expect((await after(new Error('socket hang up'))).state).toBe('unknown');
  expect((await after(new Error('refused'), { onError: () => 'retryable' })).state).toBe('new');
});

test('A30: a key whose holder ended without a word is never run blindly: it is refused, or found out, or run by choice', async () => {
  const sb = await client();
  const unknown = async (): Promise<string> => {
    const name = key();
    await rejection(sb.once(name, 1, () => Promise.reject(new Error('who knows'))));
    return name;
  };
  const name = await unknown();
  const refused = await rejection(sb.once(name, 1, () => expect.unreachable()));
  expect(refused).toBeInstanceOf(OnceUnknown);
  expect(refused).toMatchObject({ key: name, attempts: 2 });
  expect((await sb.once.get({ key: name })).state).toBe('unknown');
  expect(await sb.once(name, 1, { onUnknown: () => 'found' }, () => expect.unreachable())).toBe('found');
  expect(await sb.once(name, 1, () => expect.unreachable())).toBe('found');
  const other = await unknown();
  expect(await sb.once(other, 1, { onUnknown: (_, run) => run() }, ({ attempts }) => attempts)).toBe(2);
  expect(await sb.once.get({ key: other })).toMatchObject({ state: 'done', attempts: 2, result: 2 });
});

test('the lease is renewed while the handler runs, though it outlives it several times', async () => {
  const sb = await client();
  const name = key();
  const leaseMs = 400;
  const endsAt = async (): Promise<number> => Date.parse((await sb.once.get({ key: name })).leaseEndsAt ?? '');
  const result = await sb.once(name, 1, { leaseMs }, async ({ signal }) => {
    const first = await endsAt();
    await until(async () => (await endsAt()) >= first + 3 * leaseMs);
    return signal.aborted;
  });
  expect(result).toBe(false);
  expect(await sb.once.get({ key: name })).toMatchObject({ state: 'done', attempts: 1 });
});

test('L1 L7: cut off silently, the signal aborts before the key is anybody else’s; the result is not passed on', async () => {
  const { sb, link } = await behind({ ttlMs: 1000 });
  const other = await client({ agent: 'other' });
  const name = key();
  let lostAt = 0;
  let called: OnceCall | undefined;
  const run = sb.once(name, 1, { leaseMs: 1000 }, async (call) => {
    called = call;
    link.silence();
    await new Promise<void>((resolve) => call.signal.addEventListener('abort', () => resolve()));
    lostAt = Date.now();
    return 'too late';
  });
  const ended = await rejection(run);
  expect(ended).toBeInstanceOf(Ended);
  expect(ended).toMatchObject({ reason: 'cannotRenew' });
  const next = await other.once(
    name,
    1,
    { waitMs: 10_000, onUnknown: ({ fence }) => ({ fence, at: Date.now() }) },
    () => expect.unreachable(),
  );
  expect(next.fence).toBeGreaterThan(called!.fence);
  expect(next.at).toBeGreaterThanOrEqual(lostAt);
});

test('an operator takes it away: the signal aborts, the caller hears why', async () => {
  const [sb, other] = [await client(), await client({ agent: 'other' })];
  const name = key();
  const ended = await rejection(
    sb.once(name, 1, async ({ signal }) => {
      const lost = new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve()));
      await other.lease.revoke({ lease: `once:${name}`, reason: 'it hangs' });
      await lost;
      throw new Error('stopped');
    }),
  );
  expect(ended).toBeInstanceOf(Ended);
  expect(ended).toMatchObject({ reason: 'revoked' });
});

test('a cut link is no loss: after the resume it is finished under the same fence', async () => {
  const { sb, link } = await behind({ ttlMs: 20_000 });
  const name = key();
  const fences: number[] = [];
  await sb.once(name, 1, async ({ fence, signal }) => {
    fences.push(fence);
    link.cut();
    await sb.ping();
    expect(signal.aborted).toBe(false);
    return 'kept';
  });
  expect(await sb.once.get({ key: name })).toMatchObject({
    state: 'done',
    attempts: 1,
    fence: fences[0],
    result: 'kept',
  });
});

test('L10: the reply to the finish is lost and it is sent again: one finish, the result stays', async () => {
  const { sb, link } = await behind({ ttlMs: 20_000 });
  const watcher = await world.daemon.wire();
  await watcher.call('feed.subscribe', { types: ['once.>'] });
  const name = key();
  expect(
    await sb.once(name, 1, async () => {
      link.swallowNext();
      return 'r';
    }),
  ).toBe('r');
  await sb.ping();
  await watcher.event('once.finished', name);
  const finished = watcher.events().filter(({ event }) => event.subject === name && event.type === 'once.finished');
  expect(finished).toHaveLength(1);
});

test('a result that cannot be kept was done all the same: nobody runs it again', async () => {
  const sb = await client();
  const name = key();
  expect(await rejection(sb.once(name, 1, () => 'x'.repeat(300_000)))).toMatchObject({ code: 'TOO_LARGE' });
  expect(await sb.once.get({ key: name })).toMatchObject({ state: 'done', error: { code: 'TOO_LARGE' } });
  const circle: Record<string, unknown> = {};
  circle.self = circle;
  const other = key();
  expect(await rejection(sb.once(other, 1, () => circle))).toBeInstanceOf(TypeError);
  expect((await sb.once.get({ key: other })).state).toBe('done');
});

test('a caller that aborts ends its wait; a handler that runs is told, and still says how it ended', async () => {
  const sb = await client();
  const name = key();
  const stop = new AbortController();
  const running = rejection(
    sb.once(name, 1, { signal: stop.signal, onError: () => 'retryable' }, async ({ signal }) => {
      const waiting = rejection(sb.once(name, 1, { waitMs: 60_000, signal: stop.signal }, () => 1));
      const told = new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve()));
      stop.abort(new Error('enough'));
      await told;
      await waiting;
      throw signal.reason;
    }),
  );
  expect(await running).toMatchObject({ message: 'enough' });
  expect((await sb.once.get({ key: name })).state).toBe('new');
});
