import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { Random } from '../simulation/random.js';
import { Model, type Request, type Want } from './model.js';
import { type Any, leftovers, type Session, startWorld, type Wire, type World, watcherOf } from './support.js';

const seed = Number(process.env.SEED ?? Date.now() % 1_000_000_000);
const steps = Number(process.env.STEPS ?? 250);
const capacities = new Map([
  ['sem-2', 2],
  ['sem-5', 5],
]);

let world: World;
let sessions: Session[];
let watcher: Wire;
beforeAll(async () => {
  world = await startWorld();
  sessions = await Promise.all(['a', 'b', 'c'].map((agent) => world.daemon.session({ agent })));
  watcher = await watcherOf(world.daemon);
  for (const [name, capacity] of capacities) await sessions[0]!.call('lock.define', { name, capacity });
});
afterAll(() => world.stop());

/** A few names in a few directories, so that they meet; the longer ones are rarer. */
function pathsOf(random: Random): string[] {
  const paths = ['path:**', 'path:/**', 'path:a', 'path:ab'];
  while (paths.length < 24) {
    const depth = 1 + Math.floor(random.next() * random.next() * 5);
    const path = Array.from({ length: depth }, () => random.pick(['a', 'b', 'ab', 'é'])).join('/');
    paths.push(`path:${random.chance(0.2) ? '/' : ''}${path}${random.chance(0.3) ? '/**' : ''}`);
  }
  return paths;
}

function wantOf(random: Random, names: readonly string[]): Want {
  const name = random.pick(names);
  const capacity = capacities.get(name);
  return { name, shared: capacity === undefined && random.chance(0.5), permits: capacity && random.int(1, capacity) };
}

function wantsOf(random: Random, names: readonly string[], most: number): Want[] {
  const wants = Array.from({ length: random.int(1, most) }, () => wantOf(random, names));
  // One lock twice is refused, and so are `a` and `a/**`, which are one.
  const keyOf = ({ name }: Want): string => name.replace(/\/?\*\*$/, '');
  return wants.filter((want, i) => wants.findIndex((other) => keyOf(other) === keyOf(want)) === i);
}

const paramsOf = ({ grant, wants }: Request, waits: boolean): Any => ({
  grant,
  owner: grant,
  waitMs: waits ? 600_000 : 0,
  locks: wants.map(({ name, shared, permits }) =>
    permits ? { name, permits } : { name, mode: shared ? 'shared' : 'exclusive' },
  ),
});

/** What the daemon says of one step, and whom the feed says it granted by it. */
async function step(session: Session, op: string, params: Any): Promise<string> {
  const reply = await session.call(op, params).catch((failure) => failure);
  return reply.state ?? (reply.code === 'HELD' ? 'refused' : reply.message);
}

/** Grants that the log tells from `from` on, in its order; made by waits only. */
const grantedSince = (from: number): string[] => [
  ...new Set(
    watcher.lines
      .slice(from)
      .filter(
        (line) => line.op === 'event' && line.event.type === 'lock.granted' && line.event.data.waitedMs !== undefined,
      )
      .map((line) => line.event.data.grant as string),
  ),
];

async function play(random: Random, names: readonly string[], most: number, steps: number): Promise<void> {
  const model = new Model(capacities);
  const run = random.int(1, 1_000_000);
  for (let i = 0; i < steps; i++) {
    const from = watcher.lines.length;
    const open = [...model.holders, ...model.waiters];
    let expected: string[] = [];
    let said: string;
    let should: string;
    if (open.length > 0 && random.chance(0.45 + open.length / 100)) {
      const { grant, session } = random.pick(open);
      should = model.holders.some((one) => one.grant === grant) ? 'released' : 'cancelled';
      expected = model.end(grant);
      said = await step(sessions.find(({ opened }) => opened.session === session)!, 'lock.release', { grant });
    } else {
      const session = random.pick(sessions);
      const request: Request = {
        grant: `r${run}-${i}`,
        session: session.opened.session,
        wants: wantsOf(random, names, most),
      };
      const waits = random.chance(0.8);
      should = model.acquire(request, waits);
      said = await step(session, 'lock.acquire', paramsOf(request, waits));
    }
    expect(said, `seed ${seed}, step ${i}`).toBe(should);
    // The mark is behind everything the step caused.
    const { position } = (
      await sessions[0]!.call('feed.publish', { events: [{ type: 'mark.set', data: i, id: `${run}-${i}` }] })
    ).events[0];
    await watcher.next((line) => line.op === 'event' && line.event.id === `${run}-${i}`, 10_000, from);
    expect(grantedSince(from).sort(), `seed ${seed}, step ${i} (${position})`).toEqual(expected.sort());
  }
  const rest = [...model.holders, ...model.waiters];
  for (const { grant, session } of rest) {
    await sessions.find(({ opened }) => opened.session === session)!.call('lock.release', { grant });
  }
}

describe(`seed ${seed}`, () => {
  beforeAll(async () => {
    await watcher.call('feed.subscribe', { types: ['mark.set'] });
  });

  test('path locks are granted as a search through all pairs of paths would grant them', async () => {
    const random = new Random(seed);
    await play(random, pathsOf(random), 2, steps);
  });

  test('locks of all kinds, several at once, are granted in turn as the simple model grants them', async () => {
    await play(new Random(seed + 1), ['x', 'y', 'z', 'sem-2', 'sem-5', 'path:a', 'path:a/b', 'path:c/**'], 3, steps);
  });

  test('at the end nothing is left but the definitions', async () => {
    const left = (await leftovers(world)).filter((key) => !/:published(At)?$/.test(key));
    expect(left.sort()).toEqual(['sb:{default}:lock:sem-2', 'sb:{default}:lock:sem-5', 'sb:{default}:locks']);
  });
});
