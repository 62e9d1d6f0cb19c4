import { describe, expect, test } from 'vitest';
import { useWorld } from '../queue/support.js';
import { startRemote } from '../support/remote.js';
import type { Any } from '../support/wire.js';
import { begin, freshKey, hold, storyOf, watch } from './support.js';

const { daemon, current } = useWorld({ 'session.graceMs': 200 });
const stale = (yours: number) => ({ code: 'STALE_FENCE', details: { yours, current: expect.any(Number) } });

describe('a holder that ends without a word leaves the key unknown', () => {
  test('L30 A30: killed in the act: inProgress, then unknown under a higher fence, to one caller; frozen, its late word is fenced out', async () => {
    const watcher = await watch(daemon());
    const frozen = await startRemote(daemon().url);
    const { session } = await frozen.wire.call('session.open', { agent: 'frozen', ttlMs: 60_000 });
    const key = freshKey();
    const first = await begin(frozen.wire as Any, key, { leaseMs: 1500, keepMs: 60_000 });
    frozen.freeze();
    const others = await Promise.all(Array.from({ length: 20 }, (_, i) => daemon().session({ agent: `o${i}` })));
    expect((await begin(others[0]!, key)).state).toBe('inProgress');
    const lapsed = await watcher.event('once.unknown', key);
    expect(lapsed.event.data).toEqual({
      key,
      session,
      agent: 'frozen',
      fence: first.fence,
      attempts: 1,
      reason: 'leaseLapsed',
    });
    expect(await others[0]!.call('once.get', { key })).toMatchObject({ state: 'unknown', attempts: 1 });
    const begun = await Promise.all(others.map((wire) => begin(wire, key)));
    const mine = begun.findIndex(({ state }) => state === 'unknown');
    expect(begun.filter(({ state }) => state === 'inProgress')).toHaveLength(19);
    expect(begun[mine]).toMatchObject({ attempts: 2, holder: { agent: `o${mine}` } });
    expect(begun[mine].fence).toBeGreaterThan(first.fence);
    frozen.thaw();
    const late = await frozen.wire
      .call('once.finish', { key, fence: first.fence, result: 'first' })
      .catch((e: Any) => e.error);
    expect(late).toMatchObject(stale(first.fence));
    expect(late.details.current).toBe(begun[mine].fence);
    await others[mine]!.call('once.finish', { key, fence: begun[mine].fence, result: 'second' });
    expect((await begin(others[0]!, key)).result).toBe('second');
    await watcher.event('once.finished', key);
    expect(storyOf(watcher, key).map(([type]) => type)).toEqual(['began', 'unknown', 'began', 'finished']);
    frozen.kill();
  });

  test('its lease is over: it is told, and answered STALE_FENCE although nobody has the key yet', async () => {
    const wire = await daemon().session();
    const key = freshKey();
    const { fence } = await hold(wire, key, { leaseMs: 300 });
    const lost = await wire.next(({ op, kind }) => op === 'lost' && kind === 'once');
    expect(lost).toEqual({ op: 'lost', kind: 'once', name: key, fence, reason: 'leaseLapsed' });
    for (const op of ['once.finish', 'once.fail']) {
      const more = op === 'once.fail' ? { outcome: 'retryable' } : { result: 1 };
      const error = await wire.refused(op, { key, fence, ...more });
      expect(error).toMatchObject(stale(fence));
      expect(error.details.current).toBeGreaterThan(fence);
    }
    const [renewed] = (await wire.call('lease.renew', { leases: [{ lease: `once:${key}`, fence }] })).leases;
    expect(renewed.error).toMatchObject(stale(fence));
    expect(await begin(wire, key)).toMatchObject({ state: 'unknown', attempts: 2 });
  });

  test('R3: a lease that is renewed does not end, also with another length', async () => {
    const wire = await daemon().session();
    const key = freshKey();
    const { fence } = await hold(wire, key, { leaseMs: 500 });
    const from = performance.now();
    let ends = '';
    while (performance.now() - from < 1500) {
      const [renewed] = (await wire.call('lease.renew', { leases: [{ lease: `once:${key}`, fence }] })).leases;
      expect(renewed.error).toBeUndefined();
      ends = renewed.endsAt;
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
    expect(Date.parse(ends) - Date.now()).toBeLessThanOrEqual(500);
    const leases = [{ lease: `once:${key}`, fence, leaseMs: 30_000 }];
    const [longer] = (await wire.call('lease.renew', { leases })).leases;
    expect(Date.parse(longer.endsAt) - Date.now()).toBeGreaterThan(29_000);
    expect(await wire.call('once.finish', { key, fence })).toMatchObject({ state: 'done', result: null });
  });

  test.each([
    ['closed', 'closed'],
    ['lost', 'sessionLost'],
    ['revoked', 'sessionLost'],
  ])('its session is %s: unknown at once, reason %s', async (how, reason) => {
    const watcher = await watch(daemon());
    const other = await daemon().session();
    const wire = await daemon().session({ ttlMs: how === 'lost' ? 400 : 60_000 });
    const key = freshKey();
    const { fence } = await hold(wire, key);
    if (how === 'closed') await wire.call('session.close');
    else if (how === 'lost') wire.cut();
    else await other.call('lease.revoke', { lease: `session:${wire.opened.session}`, reason: 'r' });
    const { event } = await watcher.event('once.unknown', key);
    expect(event.data).toMatchObject({ key, fence, reason, session: wire.opened.session });
    expect(await begin(other, key)).toMatchObject({ state: 'unknown', attempts: 2 });
    if (how === 'revoked') expect(await wire.refused('once.finish', { key, fence })).toMatchObject(stale(fence));
  });

  test('an operator takes it: unknown, the holder is told', async () => {
    const watcher = await watch(daemon());
    const [wire, other] = [await daemon().session(), await daemon().session()];
    const key = freshKey();
    const { fence } = await hold(wire, key);
    await other.call('lease.revoke', { lease: `once:${key}`, reason: 'it hangs' });
    expect(await wire.next(({ op }) => op === 'lost')).toMatchObject({
      kind: 'once',
      name: key,
      fence,
      reason: 'revoked',
    });
    expect((await watcher.event('once.unknown', key)).event.data).toMatchObject({
      reason: 'revoked',
      message: 'it hangs',
    });
    expect((await watcher.event('lease.revoked', `once:${key}`)).event.data).toMatchObject({
      lease: `once:${key}`,
      fence,
      reason: 'it hangs',
    });
    expect(await other.refused('lease.revoke', { lease: `once:${key}`, reason: 'r' })).toMatchObject({
      code: 'NOT_FOUND',
    });
  });
});

describe('a broken socket', () => {
  test('does not end it: the grace takes the work, the key waits for its lease or its session, and a resume goes on', async () => {
    const watcher = await watch(daemon());
    const wire = await daemon().session({ ttlMs: 20_000 });
    const key = freshKey();
    await wire.call('queue.enqueue', { queue: key, tasks: [{ payload: 1, task: `t-${key}` }] });
    await wire.call('queue.claim', { queue: key });
    const { fence } = await hold(wire, key);
    const tasks = await daemon().wire();
    await tasks.call('feed.subscribe', { types: ['task.retried'] });
    wire.cut();
    await tasks.event('task.retried', `t-${key}`);
    const other = await daemon().session();
    expect(await begin(other, key)).toMatchObject({ state: 'inProgress' });
    // Nothing is left for the grace to take: it is over for this session.
    const client = current().redis.client();
    await expect.poll(() => client.zscore('sb:{default}:grace', wire.opened.session)).toBe(null);
    const back = await daemon().wire();
    const { session, key: secret } = wire.opened;
    const { holdings } = await back.call('session.open', { agent: 'agent', resume: { session, key: secret } });
    expect(holdings).toEqual([
      { lease: `once:${key}`, kind: 'once', name: key, state: 'held', fence, endsAt: expect.any(String) },
    ]);
    const { leases } = await back.call('lease.list', { session, kind: 'once' });
    expect(leases[0]).toMatchObject({ lease: `once:${key}`, fence, holder: { session } });
    expect(Math.abs(Date.parse(leases[0].sinceAt) - Date.now())).toBeLessThan(20_000);
    expect(await back.call('once.finish', { key, fence, result: 1 })).toMatchObject({ state: 'done' });
    expect(storyOf(watcher, key).every(([type]) => type !== 'unknown')).toBe(true);
    for (const [task] of [[`t-${key}`]]) await back.call('queue.cancel', { task });
  });

  test('of a killed daemon takes nothing: another one goes on with it, and what an older socket says is ignored', async () => {
    const doomed = await current().another();
    const wire = await doomed.session({ ttlMs: 20_000 });
    const key = freshKey();
    const { fence } = await hold(wire, key);
    await doomed.kill();
    const back = await daemon().wire();
    const { session, key: secret } = wire.opened;
    await back.call('session.open', { agent: 'agent', resume: { session, key: secret } });
    expect(await back.call('once.finish', { key, fence, result: 'still mine' })).toMatchObject({ state: 'done' });
  });
});
