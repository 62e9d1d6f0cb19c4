import { expect, test } from 'vitest';
import type { ConnectOptions, Signalbox } from '../../src/client/index.js';
import { until } from '../support/until.js';
import { type Any, refuse, silence } from './fake-daemon.js';
import { BrokenLink } from './link.js';
import { client, open, useDaemon, world } from './real.js';
import { client as clientOf, fakeDaemon, rejection, useRig } from './rig.js';

useDaemon();
useRig();

let names = 0;
const fresh = (): string => `given-up-${++names}`;
const never = (): never => {
  throw new Error('the handler ran');
};

async function behind(options: ConnectOptions): Promise<{ sb: Signalbox; link: BrokenLink }> {
  const link = await BrokenLink.to(world.daemon.url);
  open.push(link);
  return { sb: await client({ ...options, url: link.url }), link };
}

const recipes = [
  {
    what: 'a lock',
    run: (sb: Signalbox, name: string) => sb.lock(name, never),
    isHeld: async (other: Signalbox, name: string) => ((await other.lock.get({ name })) as Any).holders.length > 0,
  },
  {
    what: 'a reservation',
    run: (sb: Signalbox, name: string) => sb.limit(name, { concurrency: 1 }, never),
    isHeld: async (other: Signalbox, name: string) =>
      (await other.limit.get({ name })).usage.concurrency?.reserved === 1,
  },
  {
    what: 'a once key',
    run: (sb: Signalbox, name: string) => sb.once(name, 1, never),
    isHeld: async (other: Signalbox, key: string) => {
      const { state } = await other.once.get({ key }).catch(() => ({ state: 'new' }));
      expect(state).not.toBe('unknown');
      return state === 'inProgress';
    },
  },
];

// The story: the request was carried out, its answer and the giving back were lost, and the session that lived on held
// what nobody knew of for as long as it lived.
test.each(recipes)(
  'L19: $what whose answer and whose return are lost is given back when the link is well again',
  async (its) => {
    const { sb, link } = await behind({ ttlMs: 60_000, timeoutMs: 500 });
    const other = await client({ agent: 'other' });
    const name = fresh();
    await other.limit.define({ name, kind: 'window', dimensions: { concurrency: { amount: 1 } } });
    link.deafen();
    const given = rejection(its.run(sb, name));
    await until(() => its.isHeld(other, name));
    link.silence();
    expect(await given).toMatchObject({ code: 'TIMEOUT' });
    expect(await its.isHeld(other, name)).toBe(true);
    const { identity } = sb;
    link.heal();
    await sb.ping();
    await until(async () => !(await its.isHeld(other, name)));
    expect(sb.identity).toEqual(identity);
  },
);

const words = [
  {
    what: 'a lock',
    run: (sb: Signalbox) => sb.lock('n', () => 'ran'),
    ask: 'lock.acquire',
    held: ({ grant }: Any) => ({ grant, state: 'held', fence: 7, validMs: 15_000, epoch: 'e1' }),
    back: 'lock.release',
    id: ({ grant }: Any) => grant,
  },
  {
    what: 'a reservation',
    run: (sb: Signalbox) => sb.limit('n', { n: 1 }, () => 'ran'),
    ask: 'limit.reserve',
    held: ({ reservation }: Any) => ({ reservation, state: 'granted', fence: 7 }),
    back: 'limit.settle',
    id: ({ reservation }: Any) => reservation,
  },
];

test.each(words)(
  'L19: $what that may have been given when the link to Redis broke is given back until the daemon has answered',
  async (its) => {
    const daemon = await fakeDaemon();
    const sb = await clientOf(daemon);
    daemon.on[its.ask] = () => refuse('TIMEOUT', { retry: true });
    daemon.on[its.back] = () => refuse('UNAVAILABLE', { retry: true });
    expect(await rejection(its.run(sb))).toMatchObject({ code: 'TIMEOUT' });
    const { params } = await daemon.asked(its.ask);
    expect(its.id((await daemon.asked(its.back)).params)).toBe(its.id(params));
    daemon.on[its.back] = () => ({});
    await daemon.asked(its.back);
    const asked = daemon.all(its.back).length;
    // It was answered: neither a grant that comes late nor a resume sends it again.
    daemon.peer.send({ op: 'granted', ...its.held(params) });
    daemon.peer.cut();
    await sb.ping();
    expect(daemon.all(its.back)).toHaveLength(asked);
  },
);

test.each(words)(
  '$what that was refused while Redis is away was not given, unless it had been sent before',
  async (its) => {
    const daemon = await fakeDaemon();
    const sb = await clientOf(daemon);
    daemon.on[its.back] = () => ({});
    daemon.on[its.ask] = () => refuse('UNAVAILABLE', { retry: true });
    expect(await rejection(its.run(sb))).toMatchObject({ code: 'UNAVAILABLE' });
    await sb.ping();
    expect(daemon.all(its.back)).toEqual([]);
    daemon.on[its.ask] = ({ peer }) => {
      if (peer.number > 0) return refuse('UNAVAILABLE', { retry: true });
      peer.cut();
      return silence;
    };
    expect(await rejection(its.run(sb))).toMatchObject({ code: 'UNAVAILABLE', details: { again: true } });
    const asked = daemon.all(its.ask).map(({ params }) => its.id(params));
    expect(its.id((await daemon.asked(its.back)).params)).toBe(asked.at(-1));
  },
);

test.each(words)(
  '$what that waited is given back when it is asked for again and refused: it may have come meanwhile',
  async (its) => {
    const daemon = await fakeDaemon();
    const sb = await clientOf(daemon);
    daemon.on[its.back] = () => ({});
    daemon.on[its.ask] = ({ params, peer }) =>
      peer.number > 0 ? refuse('UNAVAILABLE', { retry: true }) : { ...params, state: 'waiting', place: 1 };
    const ended = rejection(its.run(sb));
    const { params } = await daemon.asked(its.ask);
    await sb.ping();
    daemon.peer.cut(); // and the holdings of the resume do not show it waiting any more
    expect(await ended).toMatchObject({ code: 'UNAVAILABLE' });
    expect(its.id((await daemon.asked(its.back)).params)).toBe(its.id(params));
  },
);

test.each(words)('L19: $what whose handler has ended is given back again after a resume', async (its) => {
  const daemon = await fakeDaemon();
  const sb = await clientOf(daemon);
  daemon.on[its.ask] = ({ params }) => its.held(params);
  daemon.on[its.back] = () => refuse('INTERNAL');
  expect(await its.run(sb)).toBe('ran');
  const { params } = await daemon.asked(its.back);
  daemon.on[its.back] = () => ({});
  daemon.peer.cut();
  expect(its.id((await daemon.asked(its.back, ({ peer }) => peer.number === 1)).params)).toBe(its.id(params));
});

test('what was asked for by hand is nobody else’s to give back', async () => {
  const daemon = await fakeDaemon();
  const sb = await clientOf(daemon);
  daemon.on['lock.acquire'] = ({ params: { grant } }) => ({ grant, state: 'waiting', place: 1, held: {} });
  daemon.on['limit.reserve'] = ({ params: { reservation } }) => ({ reservation, state: 'waiting', place: 1 });
  await sb.lock.acquire({ name: 'n', grant: 'mine', waitMs: 60_000 });
  await sb.limit.reserve({ name: 'n', reservation: 'mine', cost: { n: 1 }, waitMs: 60_000 });
  daemon.peer.send(
    { op: 'granted', grant: 'mine', state: 'held', fence: 7, validMs: 15_000, epoch: 'e1' },
    { op: 'granted', reservation: 'mine', name: 'n', fence: 8, validMs: 15_000 },
  );
  await sb.ping();
  daemon.peer.cut();
  await sb.ping();
  await sb.ping();
  expect([...daemon.all('lock.release'), ...daemon.all('limit.settle')]).toEqual([]);
});
