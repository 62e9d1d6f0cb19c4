import { describe, expect, test } from 'vitest';
import { useWorld } from '../queue/support.js';
import { until } from '../support/until.js';
import type { Any, Wire } from '../support/wire.js';
import { begin, freshKey, hold, storyOf, watch } from './support.js';

const { daemon, current } = useWorld();
const finish = (wire: Wire, key: string, fence: number, result: Any): Promise<Any> =>
  wire.call('once.finish', { key, fence, result });
const fail = (wire: Wire, key: string, fence: number, outcome: string, more: Any = {}): Promise<Any> =>
  wire.call('once.fail', { key, fence, outcome, ...more });

describe('once', () => {
  test('R23: the first caller is handed the key, all others hear who has it, and afterwards its result', async () => {
    const watcher = await watch(daemon());
    const [a, b] = [await daemon().session({ agent: 'a' }), await daemon().session({ agent: 'b' })];
    const key = freshKey();
    const first = await begin(a, key, { leaseMs: 20_000 });
    expect(first).toEqual({
      state: 'new',
      attempts: 1,
      fence: expect.any(Number),
      holder: { session: a.opened.session, agent: 'a' },
      leaseEndsAt: expect.any(String),
    });
    const left = Date.parse(first.leaseEndsAt) - Date.now();
    expect(left).toBeGreaterThan(15_000);
    expect(left).toBeLessThanOrEqual(20_100);
    expect(await begin(b, key)).toEqual({
      state: 'inProgress',
      attempts: 1,
      holder: { session: a.opened.session, agent: 'a' },
      leaseEndsAt: first.leaseEndsAt,
    });
    const record = await finish(a, key, first.fence, { charge: 900719925474099, at: 1.5 });
    expect(record).toMatchObject({ key, state: 'done', attempts: 1, fence: first.fence, fingerprint: 'f' });
    const kept = Date.parse(record.keptUntilAt) - Date.now();
    expect(kept).toBeGreaterThan(86_300_000);
    expect(kept).toBeLessThanOrEqual(86_400_100);
    const done = { state: 'done', attempts: 1, fence: first.fence, result: { charge: 900719925474099, at: 1.5 } };
    expect(await begin(b, key)).toEqual(done);
    expect(await begin(a, key)).toEqual(done);
    await watcher.event('once.finished', key);
    const who = { key, session: a.opened.session, agent: 'a', fence: first.fence, attempts: 1 };
    expect(storyOf(watcher, key)).toEqual([
      ['began', { ...who, state: 'new', leaseEndsAt: first.leaseEndsAt }],
      ['finished', who],
    ]);
    expect(await b.call('once.get', { key })).toEqual(record);
    expect((await a.call('lease.list', { session: a.opened.session, kind: 'once' })).leases).toEqual([]);
  });

  test('the result comes back as the bytes that were stored', async () => {
    const wire = await daemon().session();
    const key = freshKey();
    const { fence } = await hold(wire, key);
    wire.send(
      `{"id":900,"op":"once.finish","params":{"key":"${key}","fence":${fence},"result":{"n": 9007199254740993, "n":1.0}}}`,
    );
    await wire.next(({ id }) => id === 900);
    const raw: string[] = [];
    wire.socket.on('message', (data) => raw.push(String(data)));
    await begin(wire, key);
    expect(raw.join('\n')).toContain('"result":{"n": 9007199254740993, "n":1.0}');
  });

  test('L29: fifty begins at once on two daemons: one is new, 49 hear its holder; A30: another body is MISMATCH', async () => {
    const other = await current().another();
    const wires = await Promise.all(
      Array.from({ length: 50 }, (_, i) => (i % 2 ? other : daemon()).session({ agent: `a${i}` })),
    );
    const key = freshKey();
    const begun = await Promise.all(wires.map((wire) => begin(wire, key)));
    const [mine] = begun.filter(({ state }) => state === 'new');
    const others = begun.filter(({ state }) => state === 'inProgress');
    expect(others).toHaveLength(49);
    for (const { holder, leaseEndsAt, fence } of others) {
      expect(holder).toEqual(mine.holder);
      expect(Date.parse(leaseEndsAt)).toBeGreaterThan(Date.now());
      expect(fence).toBeUndefined();
    }
    const refused = await Promise.all(
      wires.slice(0, 5).map((wire) => wire.refused('once.begin', { key, fingerprint: 'g' })),
    );
    for (const error of refused) expect(error).toMatchObject({ code: 'MISMATCH', retry: false });
    const holder = wires[begun.indexOf(mine)]!;
    await finish(holder, key, mine.fence, 'r');
    expect((await begin(wires[7]!, key)).result).toBe('r');
    expect(await wires[7]!.refused('once.begin', { key, fingerprint: 'g' })).toMatchObject({ code: 'MISMATCH' });
    for (const wire of wires) await wire.close();
  });

  test('L10: begin, finish and fail repeated answer as the first did, and happened once', async () => {
    const watcher = await watch(daemon());
    const wire = await daemon().session();
    const [key, key2] = [freshKey(), freshKey()];
    const first = await begin(wire, key, { attempt: 'call 1' });
    const again = await begin(wire, key, { attempt: 'call 1' });
    expect({ ...again, leaseEndsAt: '' }).toEqual({ ...first, leaseEndsAt: '' });
    expect(await begin(wire, key, { attempt: 'call 2' })).toMatchObject({ state: 'inProgress' });
    const record = await finish(wire, key, first.fence, 1);
    expect(await finish(wire, key, first.fence, 1)).toEqual(record);
    const { fence } = await hold(wire, key2);
    const failed = await fail(wire, key2, fence, 'retryable');
    expect(await fail(wire, key2, fence, 'retryable')).toEqual(failed);
    expect(failed).toMatchObject({ state: 'new', attempts: 1 });
    expect(failed.fence).toBeGreaterThan(fence);
    await watcher.event('once.failed', key2);
    expect(storyOf(watcher, key).map(([type]) => type)).toEqual(['began', 'finished']);
    expect(storyOf(watcher, key2).map(([type]) => type)).toEqual(['began', 'failed']);
  });

  test('L30: a failure is final, retryable or unknown by choice', async () => {
    const watcher = await watch(daemon());
    const [a, b] = [await daemon().session({ agent: 'a' }), await daemon().session({ agent: 'b' })];
    const error = { message: 'card declined', code: 'DECLINED', data: { tries: 1 } };
    const failAs = async (outcome: string): Promise<{ key: string; fence: number; next: Any }> => {
      const key = freshKey();
      const { fence } = await hold(a, key);
      await fail(a, key, fence, outcome, { error });
      return { key, fence, next: await begin(b, key) };
    };
    const final = await failAs('final');
    expect(final.next).toEqual({ state: 'done', attempts: 1, fence: final.fence, error });
    expect(await b.call('once.get', { key: final.key })).toMatchObject({ state: 'done', error });
    const retryable = await failAs('retryable');
    expect(retryable.next).toMatchObject({ state: 'new', attempts: 2, holder: { agent: 'b' } });
    const unknown = await failAs('unknown');
    expect(unknown.next).toMatchObject({ state: 'unknown', attempts: 2, holder: { agent: 'b' } });
    for (const { fence, next } of [retryable, unknown]) expect(next.fence).toBeGreaterThan(fence);
    // It was found out: done after all, and b's word counts.
    await finish(b, unknown.key, unknown.next.fence, 'found');
    expect(await begin(a, unknown.key)).toMatchObject({ state: 'done', result: 'found' });
    await watcher.event('once.finished', unknown.key);
    const told = { message: error.message, code: error.code };
    expect(storyOf(watcher, final.key)[1]).toEqual([
      'failed',
      expect.objectContaining({ outcome: 'final', error: told }),
    ]);
    expect(storyOf(watcher, unknown.key)[1]).toEqual([
      'unknown',
      expect.objectContaining({ reason: 'reported', error: told, fence: unknown.fence }),
    ]);
    expect(storyOf(watcher, unknown.key)[2]).toEqual([
      'began',
      expect.objectContaining({ state: 'unknown', attempts: 2 }),
    ]);
  });

  test('an error of an earlier attempt is not shown beside the result of a later one', async () => {
    const wire = await daemon().session();
    const key = freshKey();
    const { fence } = await hold(wire, key);
    await fail(wire, key, fence, 'retryable', { error: { message: 'm' } });
    expect(await wire.call('once.get', { key })).toMatchObject({ state: 'new', error: { message: 'm' } });
    const again = await hold(wire, key);
    const record = await finish(wire, key, again.fence, 2);
    expect(record.error).toBeUndefined();
    expect(record).toMatchObject({ result: 2, attempts: 2 });
  });

  test('A30: a result is replayed through its keep and not longer; keep and lease are apart', async () => {
    const wire = await daemon().session();
    const key = freshKey();
    const { fence } = await hold(wire, key, { leaseMs: 60_000, keepMs: 1500 });
    const doneAt = performance.now();
    await finish(wire, key, fence, 'kept');
    let replays = 0;
    while (performance.now() - doneAt < 1000) {
      expect(await begin(wire, key)).toMatchObject({ state: 'done', result: 'kept' });
      replays++;
    }
    expect(replays).toBeGreaterThan(1);
    await until(async () => (await wire.call('once.get', { key }).catch(({ code }) => code)) === 'NOT_FOUND');
    expect(performance.now() - doneAt).toBeGreaterThan(1490);
    const client = current().redis.client();
    await until(async () => (await client.exists(`sb:{default}:once:${key}`)) === 0);
    const next = await begin(wire, key);
    expect(next).toMatchObject({ state: 'new', attempts: 1 });
    expect(next.fence).toBeGreaterThan(fence);
  });

  test('keys that look like anything are told apart and come back byte-exact', async () => {
    const wire = await daemon().session();
    const names = [
      '*',
      ':',
      'a:b',
      '{x}',
      '}{',
      '0',
      '-1',
      '+inf',
      '$',
      'null',
      '__proto__',
      'constructor',
      '😀',
      'é',
      'e\u0301',
      '../x',
      '%s',
      `"'`,
      '007',
      '1e3',
    ];
    const fences = await Promise.all(names.map(async (key) => (await hold(wire, key, { fingerprint: key })).fence));
    expect(new Set(fences).size).toBe(names.length);
    const { leases } = await wire.call('lease.list', { session: wire.opened.session, kind: 'once' });
    expect(leases.map(({ name }: Any) => name).sort()).toEqual([...names].sort());
    for (const [i, key] of names.entries()) {
      expect(await finish(wire, key, fences[i]!, key)).toMatchObject({ key, result: key, fingerprint: key });
    }
  });
});
