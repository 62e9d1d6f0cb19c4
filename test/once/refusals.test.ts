import { expect, test } from 'vitest';
import { Dump } from '../queue/at-rest.js';
import { useWorld } from '../queue/support.js';
import type { Any } from '../support/wire.js';
import { freshKey, hold } from './support.js';

const { daemon, current } = useWorld({ 'queue.resultBytes': 1000, 'queue.progressBytes': 500 });

const long = 'x'.repeat(201);
const names: unknown[] = [undefined, 7, null, '', long, '€'.repeat(67), 'a\u0000b', 'a\nb', 'a\u0085', ['k'], { k: 1 }];
const spans = [0, -1, 0.5, '5', null, 366 * 86_400_000 + 1];
const fences = [undefined, -1, 1.5, 2 ** 53, '5', null];
const begun = { key: 'k', fingerprint: 'f' };

/** op, params, path. */
const bad: [string, Any, string][] = [
  ...names.map((key): [string, Any, string] => ['once.begin', { ...begun, key }, 'key']),
  ...names.map((fingerprint): [string, Any, string] => ['once.begin', { ...begun, fingerprint }, 'fingerprint']),
  ...names.slice(1).map((attempt): [string, Any, string] => ['once.begin', { ...begun, attempt }, 'attempt']),
  ...['leaseMs', 'keepMs'].flatMap((field) =>
    spans.map((value): [string, Any, string] => ['once.begin', { ...begun, [field]: value }, field]),
  ),
  ['once.begin', { ...begun, waitMs: 5 }, 'waitMs'],
  ...['once.finish', 'once.fail'].flatMap((op): [string, Any, string][] => [
    ...names.map((key): [string, Any, string] => [op, { key, fence: 1, outcome: 'final' }, 'key']),
    ...fences.map((fence): [string, Any, string] => [op, { key: 'k', fence, outcome: 'final' }, 'fence']),
  ]),
  ...[undefined, 'maybe', 1, null].map((outcome): [string, Any, string] => [
    'once.fail',
    { key: 'k', fence: 1, outcome },
    'outcome',
  ]),
  ['once.fail', { key: 'k', fence: 1, outcome: 'final', error: 'no' }, 'error'],
  ['once.fail', { key: 'k', fence: 1, outcome: 'final', error: {} }, 'error.message'],
  ['once.fail', { key: 'k', fence: 1, outcome: 'final', error: { message: 'm', extra: 1 } }, 'error.extra'],
  ['once.fail', { key: 'k', fence: 1, outcome: 'final', error: { message: 'x'.repeat(1001) } }, 'error.message'],
  ...names.map((key): [string, Any, string] => ['once.get', { key }, 'key']),
];

async function ledger(): Promise<unknown> {
  const dump = await Dump.of(current().redis);
  return [...dump.keys].filter(([name]) => name.startsWith('once')).sort();
}

test('what does not fit the schema is BAD_REQUEST with the path, and nothing is stored', async () => {
  const wire = await daemon().session();
  const before = await ledger();
  for (const [op, params, path] of bad) {
    const error = await wire.refused(op, params);
    const text = JSON.stringify([op, params]);
    expect([error.code, text], text).toEqual(['BAD_REQUEST', text]);
    // A union or a missing object is named by its own path.
    expect(error.path, text).toBe(path);
  }
  expect(await ledger()).toEqual(before);
});

test('what state and size do not allow: each refusal, and nothing is changed by it', async () => {
  const [wire, other] = [await daemon().session(), await daemon().session()];
  const key = freshKey();
  for (const [op, more] of [
    ['once.finish', { fence: 1 }],
    ['once.fail', { fence: 1, outcome: 'final' }],
    ['once.get', {}],
  ] as [string, Any][])
    expect(await wire.refused(op, { key, ...more })).toMatchObject({ code: 'NOT_FOUND', retry: false });
  const { fence } = await hold(wire, key);
  const before = await ledger();
  expect(await other.refused('once.begin', { key, fingerprint: 'g' })).toMatchObject({
    code: 'MISMATCH',
    details: { attempts: 1 },
  });
  expect(await other.refused('once.finish', { key, fence, result: 1 })).toMatchObject({
    code: 'STALE_FENCE',
    details: { yours: fence, current: fence },
  });
  expect(await wire.refused('once.finish', { key, fence: fence - 1 })).toMatchObject({
    code: 'STALE_FENCE',
    details: { yours: fence - 1, current: fence },
  });
  expect(await wire.refused('once.fail', { key, fence: fence + 1, outcome: 'final' })).toMatchObject({
    code: 'STALE_FENCE',
  });
  expect(await wire.refused('once.finish', { key, fence, result: 'x'.repeat(1000) })).toMatchObject({
    code: 'TOO_LARGE',
    details: { bytes: 1002, max: 1000 },
  });
  const error = { message: 'm', data: 'x'.repeat(500) };
  expect(await wire.refused('once.fail', { key, fence, outcome: 'final', error })).toMatchObject({ code: 'TOO_LARGE' });
  const leases = [
    { lease: `once:${key}`, fence: fence - 1 },
    { lease: 'once:nobody', fence },
  ];
  const renewed = (await wire.call('lease.renew', { leases })).leases;
  expect(renewed.map(({ error }: Any) => error.code)).toEqual(['STALE_FENCE', 'NOT_FOUND']);
  expect(await ledger()).toEqual(before);
  await wire.call('once.finish', { key, fence, result: 1 });
  // The other word under the same fence.
  expect(await wire.refused('once.fail', { key, fence, outcome: 'final' })).toMatchObject({ code: 'STALE_FENCE' });
});

test('without a session one may look and nothing else; after its end nothing may be begun', async () => {
  const watcher = await daemon().wire();
  for (const [op, params] of [
    ['once.begin', begun],
    ['once.finish', { key: 'k', fence: 1 }],
    ['once.fail', { key: 'k', fence: 1, outcome: 'final' }],
  ] as [string, Any][])
    expect(await watcher.refused(op, params)).toMatchObject({ code: 'NO_SESSION' });
  expect(await watcher.refused('once.get', { key: 'never' })).toMatchObject({ code: 'NOT_FOUND' });
  const [wire, other] = [await daemon().session(), await daemon().session()];
  await other.call('lease.revoke', { lease: `session:${wire.opened.session}`, reason: 'r' });
  await wire.next(({ op }) => op === 'lost');
  expect(await wire.refused('once.begin', begun)).toMatchObject({ code: 'SESSION_LOST' });
});
