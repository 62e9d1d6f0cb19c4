import { describe, expect, test } from 'vitest';
import { type Any, fresh, limitOf, reserve, useWorld } from './support.js';

const { daemon } = useWorld();
const good = { kind: 'window', dimensions: { requests: { amount: 1, perMs: 1000 } } };

describe('limit.define', () => {
  const dimension = (value: Any): Any => ({ ...good, dimensions: { requests: value } });
  test.each([
    ['no kind', { dimensions: good.dimensions }, 'kind'],
    ['an unknown kind', { ...good, kind: 'leaky' }, 'kind'],
    ['no dimensions', { kind: 'window' }, 'dimensions'],
    ['none in dimensions', { kind: 'window', dimensions: {} }, 'dimensions'],
    ['dimensions as a list', { kind: 'window', dimensions: [] }, 'dimensions'],
    [
      'seventeen dimensions',
      {
        kind: 'budget',
        dimensions: Object.fromEntries(Array.from({ length: 17 }, (_, i) => [`d${i}`, { amount: 1 }])),
      },
      'dimensions',
    ],
    ['a dimension without amount', dimension({ perMs: 1 }), 'dimensions.requests.amount'],
    ['amount 0', dimension({ amount: 0, perMs: 1 }), 'dimensions.requests.amount'],
    ['amount -1', dimension({ amount: -1, perMs: 1 }), 'dimensions.requests.amount'],
    ['amount 1.5', dimension({ amount: 1.5, perMs: 1 }), 'dimensions.requests.amount'],
    ['amount too large', dimension({ amount: 1e15 + 1, perMs: 1 }), 'dimensions.requests.amount'],
    ['amount as text', dimension({ amount: '1', perMs: 1 }), 'dimensions.requests.amount'],
    ['perMs 0', dimension({ amount: 1, perMs: 0 }), 'dimensions.requests.perMs'],
    ['perMs of 367 days', dimension({ amount: 1, perMs: 367 * 86_400_000 }), 'dimensions.requests.perMs'],
    ['burst 0', dimension({ amount: 1, perMs: 1, burst: 0 }), 'dimensions.requests.burst'],
    ['an unknown field of a dimension', dimension({ amount: 1, perMs: 1, per: 1 }), 'dimensions.requests.per'],
    ['a share of 0', { ...good, whenDown: { share: 0 } }, 'whenDown.share'],
    ['a share above 1', { ...good, whenDown: { share: 1.1 } }, 'whenDown.share'],
    ['whenDown open', { ...good, whenDown: 'open' }, 'whenDown'],
    ['change as text', { ...good, change: 'yes' }, 'change'],
    ['an unknown field', { ...good, name2: 1 }, 'name2'],
    [
      'targetMs 0',
      { ...good, kind: 'adaptive', adaptive: { dimension: 'requests', min: 1, max: 1, targetMs: 0 } },
      'adaptive.targetMs',
    ],
    [
      'min 0',
      { ...good, kind: 'adaptive', adaptive: { dimension: 'requests', min: 0, max: 1, targetMs: 1 } },
      'adaptive.min',
    ],
  ])('with %s is BAD_REQUEST', async (_, params, path) => {
    const wire = await daemon().session();
    const error = await wire.refused('limit.define', { name: fresh(), ...params });
    expect(error).toMatchObject({ code: 'BAD_REQUEST', retry: false });
    expect(error.path ?? '').toBe(path);
  });

  test.each([
    ['', 'empty'],
    ['a\u0000b', 'a control character'],
    ['x'.repeat(201), '201 bytes'],
    [7, 'a number'],
    [undefined, 'nothing'],
  ] as [unknown, string][])('with a name that is %j (%s) is BAD_REQUEST', async (name) => {
    const wire = await daemon().session();
    expect(await wire.refused('limit.define', { name, ...good })).toMatchObject({ code: 'BAD_REQUEST', path: 'name' });
  });

  test.each([
    ['a rate without perMs', { kind: 'window', dimensions: { requests: { amount: 1 } } }],
    ['concurrency with perMs', { kind: 'window', dimensions: { concurrency: { amount: 1, perMs: 1 } } }],
    ['burst in a window', { kind: 'window', dimensions: { requests: { amount: 1, perMs: 1, burst: 2 } } }],
    ['burst of concurrency', { kind: 'bucket', dimensions: { concurrency: { amount: 1, burst: 2 } } }],
    ['perMs in a budget', { kind: 'budget', dimensions: { usd: { amount: 1, perMs: 1 } } }],
    ['concurrency in a budget', { kind: 'budget', dimensions: { concurrency: { amount: 1 } } }],
    ['adaptive beside window', { ...good, adaptive: { dimension: 'requests', min: 1, max: 1, targetMs: 1 } }],
    ['adaptive without its bounds', { ...good, kind: 'adaptive' }],
    [
      'adaptive of no dimension',
      { ...good, kind: 'adaptive', adaptive: { dimension: 'x', min: 1, max: 1, targetMs: 1 } },
    ],
    [
      'adaptive of a word every object has',
      { ...good, kind: 'adaptive', adaptive: { dimension: 'toString', min: 1, max: 1, targetMs: 1 } },
    ],
    [
      'an amount below min',
      { ...good, kind: 'adaptive', adaptive: { dimension: 'requests', min: 2, max: 3, targetMs: 1 } },
    ],
  ])('with %s is INVALID', async (_, params) => {
    const wire = await daemon().session();
    expect((await wire.refused('limit.define', { name: fresh(), ...params })).code).toBe('INVALID');
  });
});

describe('limit.reserve', () => {
  test.each([
    ['no cost', {}, 'cost'],
    ['an empty cost', { cost: {} }, 'cost'],
    ['a cost of 0', { cost: { requests: 0 } }, 'cost.requests'],
    ['a negative cost', { cost: { requests: -1 } }, 'cost.requests'],
    ['half a request', { cost: { requests: 0.5 } }, 'cost.requests'],
    ['a cost as text', { cost: { requests: '1' } }, 'cost.requests'],
    ['weight 0', { cost: { requests: 1 }, weight: 0 }, 'weight'],
    ['a negative weight', { cost: { requests: 1 }, weight: -1 }, 'weight'],
    ['a weight beyond all', { cost: { requests: 1 }, weight: 1001 }, 'weight'],
    ['a negative wait', { cost: { requests: 1 }, waitMs: -1 }, 'waitMs'],
    ['half a millisecond', { cost: { requests: 1 }, waitMs: 0.5 }, 'waitMs'],
    ['leaseMs 0', { cost: { requests: 1 }, leaseMs: 0 }, 'leaseMs'],
    ['a lease of 367 days', { cost: { requests: 1 }, leaseMs: 367 * 86_400_000 }, 'leaseMs'],
    ['an empty reservation', { cost: { requests: 1 }, reservation: '' }, 'reservation'],
    ['an unknown field', { cost: { requests: 1 }, priority: 1 }, 'priority'],
  ])('with %s is BAD_REQUEST and charges nothing', async (_, params, path) => {
    const wire = await daemon().session();
    const name = await limitOf(wire, 'window', { requests: { amount: 1, perMs: 60_000 } });
    const error = await wire.refused('limit.reserve', { name, ...params });
    expect(error.code).toBe('BAD_REQUEST');
    expect(error.path ?? '').toBe(path);
    expect((await reserve(wire, name, { requests: 1 })).state).toBe('granted');
  });

  test('of a limit nobody has defined is NOT_FOUND', async () => {
    const wire = await daemon().session();
    expect((await wire.refused('limit.reserve', { name: fresh(), cost: { x: 1 } })).code).toBe('NOT_FOUND');
  });

  test('of a dimension the limit does not have is INVALID and charges nothing', async () => {
    const wire = await daemon().session();
    const name = await limitOf(wire, 'window', { requests: { amount: 1, perMs: 60_000 } });
    for (const other of ['tokens', '__proto__', 'toString']) {
      const cost = JSON.parse(`{"requests":1,"${other}":1}`);
      const error = await wire.refused('limit.reserve', { name, cost });
      expect(['INVALID', 'BAD_REQUEST']).toContain(error.code);
    }
    expect((await reserve(wire, name, { requests: 1 })).state).toBe('granted');
  });

  test('[L26] [A2] of more than there ever is is NEVER_FITS at once, even where it could wait', async () => {
    const wire = await daemon().session();
    const name = await limitOf(wire, 'window', { tokens: { amount: 100, perMs: 60_000 }, concurrency: { amount: 2 } });
    const error = await wire.refused('limit.reserve', { name, cost: { tokens: 101 }, waitMs: 60_000 });
    expect(error).toMatchObject({ code: 'NEVER_FITS', retry: false, details: { dimension: 'tokens', most: 100 } });
    expect((await wire.refused('limit.reserve', { name, cost: { concurrency: 3 } })).code).toBe('NEVER_FITS');
  });

  test('without a session, or after it has ended, is refused', async () => {
    const wire = await daemon().session();
    const name = await limitOf(wire, 'window', { requests: { amount: 1, perMs: 60_000 } });
    const bare = await daemon().wire();
    expect((await bare.refused('limit.reserve', { name, cost: { requests: 1 } })).code).toBe('NO_SESSION');
    await wire.call('session.close', {});
    expect((await wire.refused('limit.reserve', { name, cost: { requests: 1 } })).code).toBe('NO_SESSION');
  });
});

describe('limit.settle', () => {
  test.each([
    ['no reservation', {}, 'reservation'],
    ['a negative amount', { reservation: 'r', actual: { requests: -1 } }, 'actual.requests'],
    ['half an amount', { reservation: 'r', actual: { requests: 0.5 } }, 'actual.requests'],
    ['an unknown field', { reservation: 'r', cost: {} }, 'cost'],
  ])('with %s is BAD_REQUEST', async (_, params, path) => {
    const wire = await daemon().session();
    const error = await wire.refused('limit.settle', params);
    expect(error.code).toBe('BAD_REQUEST');
    expect(error.path ?? '').toBe(path);
  });

  test('of an unknown reservation is NOT_FOUND', async () => {
    const wire = await daemon().session();
    expect((await wire.refused('limit.settle', { reservation: fresh() })).code).toBe('NOT_FOUND');
  });

  test('of a dimension the limit does not have, or of concurrency, is INVALID and settles nothing', async () => {
    const wire = await daemon().session();
    const name = await limitOf(wire, 'window', { requests: { amount: 5, perMs: 60_000 }, concurrency: { amount: 1 } });
    const { reservation } = await reserve(wire, name, { requests: 1, concurrency: 1 });
    for (const actual of [{ tokens: 1 }, { concurrency: 1 }])
      expect((await wire.refused('limit.settle', { reservation, actual })).code).toBe('INVALID');
    expect((await wire.call('limit.get', { name })).usage.concurrency.reserved).toBe(1);
    await wire.call('limit.settle', { reservation });
  });
});

describe('limit.get and limit.list', () => {
  test('of an unknown name are NOT_FOUND and empty', async () => {
    const wire = await daemon().wire();
    expect((await wire.refused('limit.get', { name: fresh() })).code).toBe('NOT_FOUND');
    expect(await wire.call('limit.list', { prefix: fresh('none') })).toEqual({ limits: [] });
  });

  test.each([
    ['limit.get', {}, 'name'],
    ['limit.get', { name: 'n', more: 1 }, 'more'],
    ['limit.list', { limit: 0 }, 'limit'],
    ['limit.list', { limit: 1001 }, 'limit'],
    ['limit.list', { prefix: '' }, 'prefix'],
    ['limit.list', { cursor: 7 }, 'cursor'],
  ])('%s with %j is BAD_REQUEST', async (op, params, path) => {
    const wire = await daemon().wire();
    const error = await wire.refused(op, params);
    expect(error.code).toBe('BAD_REQUEST');
    expect(error.path ?? '').toBe(path);
  });
});

test('names of any bytes are names: they come back as they were given and never meet', async () => {
  const wire = await daemon().session();
  const names = [
    'a:b',
    'a',
    'b}{',
    '{x}',
    '*',
    'ü🙂',
    '[a',
    '(a',
    '\u{10ffff}',
    'with space',
    '"quoted"',
    '%s',
    'a\\b',
  ];
  for (const [i, name] of names.entries()) {
    await wire.call('limit.define', { name, kind: 'budget', dimensions: { [name]: { amount: i + 1 } } });
  }
  for (const [i, name] of names.entries()) {
    const { reservation, remaining } = await reserve(wire, name, { [name]: i + 1 }, { reservation: `r ${name}` });
    expect(remaining).toEqual({ [name]: 0 });
    expect(await wire.call('limit.settle', { reservation, actual: { [name]: 0 } })).toEqual({
      remaining: { [name]: i + 1 },
    });
    expect((await wire.call('limit.get', { name })).name).toBe(name);
  }
});
