import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Any, fresh, granted, queueUp, type Session, startWorld, take, type World, watcherOf } from './support.js';

let world: World;
let x: Session;
let y: Session;
let z: Session;
beforeAll(async () => {
  world = await startWorld();
  [x, y, z] = (await Promise.all(['x', 'y', 'z'].map((agent) => world.daemon.session({ agent })))) as [
    Session,
    Session,
    Session,
  ];
});
afterAll(() => world.stop());

const release = (wire: Session, { grant }: Any): Promise<Any> => wire.call('lock.release', { grant });
const deadlocked = async (wire: Session, name: string, more: Any = {}): Promise<Any> => {
  const error = await wire.refused('lock.acquire', { name, waitMs: 60_000, ...more });
  expect(error.code).toBe('DEADLOCK');
  return error.details.cycle.map(({ agent, owner, lock }: Any) =>
    owner ? `${agent}/${owner}:${lock}` : `${agent}:${lock}`,
  );
};

test('two owners that wait for each other: the second is refused with the circle, and can try again once it has let go', async () => {
  const [m, n] = [fresh(), fresh()];
  const [first, second] = [await take(x, m), await take(y, n)];
  const wait = await queueUp(x, n);
  const watcher = await watcherOf(world.daemon, ['lock.refused']);
  expect(await deadlocked(y, m)).toEqual([`y:${m}`, `x:${n}`]);
  const { event } = await watcher.event('lock.refused', m);
  expect(event).toMatchObject({ subject: m, data: { lock: m, code: 'DEADLOCK', agent: 'y' } });
  expect(event.data.cycle.map(({ agent, lock }: Any) => `${agent}:${lock}`)).toEqual([`y:${m}`, `x:${n}`]);
  // A try that does not wait is no deadlock.
  expect((await y.refused('lock.acquire', { name: m })).code).toBe('HELD');
  await release(y, second);
  await granted(x, wait.grant);
  await release(x, wait);
  await release(x, first);
});

test('a circle of three is named in order', async () => {
  const [m, n, o] = [fresh(), fresh(), fresh()];
  const held = [await take(x, m), await take(y, n), await take(z, o)];
  const waits = [await queueUp(x, n), await queueUp(y, o)];
  expect(await deadlocked(z, m)).toEqual([`z:${m}`, `x:${n}`, `y:${o}`]);
  await release(z, held[2]);
  await granted(y, waits[1].grant);
  await release(y, waits[1]);
  await release(y, held[1]);
  await granted(x, waits[0].grant);
  await release(x, waits[0]);
  await release(x, held[0]);
});

test('a circle through a queue: X holds m, Y waits for n and m, X asks for n, which nobody holds', async () => {
  const [m, n] = [fresh(), fresh()];
  const held = await take(x, m);
  const both = await y.call('lock.acquire', { locks: [{ name: n }, { name: m }], waitMs: 60_000 });
  expect(await deadlocked(x, n)).toEqual([`x:${n}`, `y:${m}`]);
  await release(x, held);
  await granted(y, both.grant);
  await release(y, both);
});

test('owners are told apart within a session, and nested calls of one owner are found out', async () => {
  const [m, n] = [fresh(), fresh()];
  const held = [await take(x, m, { owner: 'one' }), await take(x, n, { owner: 'two' })];
  const wait = await queueUp(x, n, { owner: 'one' });
  expect(await deadlocked(x, m, { owner: 'two' })).toEqual([`x/two:${m}`, `x/one:${n}`]);
  expect(await deadlocked(x, m, { owner: 'one' })).toEqual([`x/one:${m}`]);
  // The same name in another session is another owner.
  const stranger = await queueUp(y, m, { owner: 'one' });
  await release(x, held[1]);
  await granted(x, wait.grant);
  await release(x, wait);
  await release(x, held[0]);
  await granted(y, stranger.grant);
  await release(y, stranger);
});

test('two readers that both want to write wait for each other', async () => {
  const name = fresh();
  const [first, second] = [
    await take(x, name, { mode: 'shared', owner: 'a' }),
    await take(y, name, { mode: 'shared', owner: 'b' }),
  ];
  const wait = await queueUp(x, name, { owner: 'c' });
  expect(await deadlocked(y, name, { owner: 'b' })).toContain(`y/b:${name}`);
  await release(x, first);
  await release(y, second);
  await granted(x, wait.grant);
  await release(x, wait);
});

test('a semaphore with permits to come back is no deadlock; one whose holders all wait is', async () => {
  const name = fresh();
  await x.call('lock.define', { name, capacity: 2 });
  const held = [await take(x, name, { owner: 'a' }), await take(y, name, { owner: 'b' })];
  // y runs and will give its permit back.
  const wait = await queueUp(x, name, { owner: 'a' });
  expect(await deadlocked(y, name, { owner: 'b' })).toEqual(expect.arrayContaining([`y/b:${name}`]));
  await release(y, held[1]);
  await granted(x, wait.grant);
  await release(x, wait);
  await release(x, held[0]);
  await x.call('lock.define', { name, change: true });
});

test('paths: a directory and a file in it are one thing to wait for', async () => {
  const [m, n] = [fresh('path:dir'), fresh('path:dir')];
  const held = [await take(x, `${m}/file`), await take(y, `${n}/**`)];
  const wait = await queueUp(x, `${n}/deep/file`);
  expect(await deadlocked(y, `${m}/**`)).toHaveLength(2);
  await release(y, held[1]);
  await granted(x, wait.grant);
  await release(x, wait);
  await release(x, held[0]);
});

test('who waits behind a circle of others is not refused for it', async () => {
  const [m, n] = [fresh(), fresh()];
  const held = [await take(x, m), await take(y, n)];
  const wait = await queueUp(x, n);
  const own = await take(z, fresh());
  const behind = await queueUp(z, m);
  await release(y, held[1]);
  await granted(x, wait.grant);
  await release(x, wait);
  await release(x, held[0]);
  await granted(z, behind.grant);
  await release(z, behind);
  await release(z, own);
});
