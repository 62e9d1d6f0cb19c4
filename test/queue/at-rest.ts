import { expect } from 'vitest';
import { type KeyRow, keyPage } from '../../src/redis/keys.js';
import type { TestRedis } from '../support/redis.js';
import type { Any } from '../support/wire.js';

/** Everything a namespace has, in one step: sets and hashes as they are, tasks cut, runs unpacked. */
const dumpScript = `
local out = {}
local function text(value)
  if type(value) == 'number' then return string.format('%.0f', value) end
  return value and tostring(value) or ''
end
for _, key in ipairs(redis.call('KEYS', ARGV[1] .. '*')) do
  local kind, value = redis.call('TYPE', key).ok, nil
  local name = string.sub(key, #ARGV[1] + 1)
  if kind == 'zset' then value = redis.call('ZRANGE', key, 0, -1, 'WITHSCORES')
  elseif kind == 'hash' then value = redis.call('HGETALL', key)
  elseif kind == 'string' and string.sub(name, 1, 4) == 'run:' then
    value = {}
    for i, field in ipairs(cmsgpack.unpack(redis.call('GET', key))) do value[i] = type(field) == 'table' and '[]' or text(field) end
  elseif kind == 'string' then
    value = {}
    local head, from = redis.call('GETRANGE', key, 0, 1500), 1
    for i = 1, 13 do
      local to = string.find(head, '\\0', from, true) or #head + 1
      value[i] = string.sub(head, from, to - 1)
      from = to + 1
    end
  elseif kind == 'stream' then
    value = {}
    for i, entry in ipairs(redis.call('XRANGE', key, '-', '+')) do value[i] = entry[2][#entry[2]] end
  end
  out[#out + 1] = { name, kind, value or {} }
end
return out`;

export interface Task {
  readonly id: string;
  readonly queue: string;
  readonly kind: string;
  readonly tenant: string;
  readonly priority: number;
  readonly key: string;
  readonly state: string;
  readonly run: readonly string[] | undefined;
}

export class Dump {
  readonly keys = new Map<string, { type: string; value: string[] }>();
  readonly tasks: Task[] = [];

  static async of(redis: TestRedis, namespace = 'default'): Promise<Dump> {
    const client = redis.client();
    const dump = new Dump();
    for (const [name, type, value] of (await client.eval(dumpScript, 0, `sb:{${namespace}}:`)) as [
      string,
      string,
      string[],
    ][]) {
      dump.keys.set(name, { type, value });
    }
    client.disconnect();
    for (const [name, { value }] of dump.keys) {
      if (!name.startsWith('task:')) continue;
      const [, , , queue, kind, tenant, priority, , , , , key] = value as string[];
      const run = dump.keys.get(`run:${name.slice(5)}`)?.value;
      const known = {
        id: name.slice(5),
        queue: queue!,
        kind: kind!,
        tenant: tenant!,
        priority: Number(priority),
        key: key!,
        run,
      };
      dump.tasks.push({ ...known, state: run?.[0] ?? 'ready' });
    }
    return dump;
  }

  /** A sorted set or a hash as an object of numbers or texts. */
  pairs(name: string): Record<string, string> {
    const { value } = this.keys.get(name) ?? { value: [] };
    const out: [string, string][] = [];
    for (let i = 0; i < value.length; i += 2) out.push([value[i]!, value[i + 1]!]);
    return Object.fromEntries(out.sort(([a], [b]) => (a < b ? -1 : 1)));
  }

  members(name: string): string[] {
    return Object.keys(this.pairs(name)).sort();
  }

  named(prefix: string): string[] {
    return [...this.keys.keys()].filter((name) => name.startsWith(prefix));
  }

  /** Own events of the log, in order. */
  events(): { type: string; subject: string; data: Any }[] {
    const rows = (this.keys.get('log')?.value ?? []).flatMap((text) => text.split('\n'));
    return rows
      .map((row) => row.split('\t'))
      .filter((columns) => columns.length === 3)
      .map(([type, subject, data]) => ({ type: type!, subject: JSON.parse(subject!), data: JSON.parse(data!) }));
  }
}

const BAND = (priority: number): string =>
  priority >= 100
    ? 'critical'
    : priority >= 75
      ? 'high'
      : priority >= 50
        ? 'normal'
        : priority >= 25
          ? 'low'
          : 'background';

function counted(tasks: readonly Task[], by: (task: Task) => string): Record<string, string> {
  const sums = new Map<string, number>();
  for (const task of tasks) sums.set(by(task), (sums.get(by(task)) ?? 0) + 1);
  return Object.fromEntries([...sums].sort(([a], [b]) => (a < b ? -1 : 1)).map(([name, sum]) => [name, String(sum)]));
}
const ids = (tasks: readonly Task[]): string[] => tasks.map(({ id }) => id).sort();
const finished = new Set(['completed', 'dead', 'cancelled', 'expired']);

/**
 * Holds all sets, counters, timers and events of the namespace against an enumeration of its tasks. Nothing may be on
 * its way meanwhile; what a sweep does in between is caught by looking again.
 */
export async function checkAtRest(redis: TestRedis, namespace = 'default'): Promise<Dump> {
  for (let attempt = 0; ; attempt++) {
    const dump = await Dump.of(redis, namespace);
    try {
      checkDump(dump);
      return dump;
    } catch (error) {
      if (attempt === 3) throw error;
      await new Promise((resolve) => setTimeout(resolve, 150));
    }
  }
}

export function checkDump(dump: Dump): void {
  const queues = new Set(dump.tasks.map(({ queue }) => queue));
  for (const name of dump.keys.keys()) {
    const found =
      /^(?:waiting|scheduled|active|completed|windowed|cancelled|dead|expired|keys|lanes|share|busy|counts|vtime):(.*)$/s.exec(
        name,
      );
    if (found) queues.add(found[1]!);
  }
  for (const queue of queues) checkQueue(dump, queue);
  checkHeld(dump);
  checkTimers(dump);
  checkPage(dump);
  checkStory(dump);
}

function checkQueue(dump: Dump, queue: string): void {
  const tasks = dump.tasks.filter((task) => task.queue === queue);
  const of = (state: string): Task[] => tasks.filter((task) => task.state === state);
  const ready = of('ready');
  const active = of('active');
  const at = `queue ${JSON.stringify(queue)}`;
  expect(dump.members(`waiting:${queue}`), `${at} waiting`).toEqual(ids(ready));
  expect(dump.members(`active:${queue}`), `${at} active`).toEqual(ids(active));
  expect(
    dump
      .members(`scheduled:${queue}`)
      .map((member) => member.slice(16))
      .sort(),
    `${at} scheduled`,
  ).toEqual(ids(of('scheduled')));
  expect(
    [...dump.members(`completed:${queue}`), ...dump.members(`windowed:${queue}`)].sort(),
    `${at} completed`,
  ).toEqual(ids(of('completed')));
  for (const state of ['dead', 'cancelled', 'expired'])
    expect(dump.members(`${state}:${queue}`), `${at} ${state}`).toEqual(ids(of(state)));
  expect(dump.pairs(`lanes:${queue}`), `${at} lanes`).toEqual(
    counted(
      tasks.filter(({ state }) => !finished.has(state)),
      ({ kind }) => kind,
    ),
  );
  expect(dump.pairs(`share:${queue}`), `${at} share`).toEqual(counted(ready, ({ tenant }) => tenant));
  expect(dump.pairs(`busy:${queue}`), `${at} busy`).toEqual(counted(active, ({ tenant }) => tenant));
  const counts = Object.entries(dump.pairs(`counts:${queue}`)).filter(([field]) => !/^r[ecf]:\d+$/.test(field));
  const expected = {
    ...counted(active, ({ kind }) => `a:${kind}`),
    ...counted(ready, ({ priority }) => `b:${BAND(priority)}`),
    ...counted(ready, ({ kind }) => `w:${kind}`),
  };
  expect(Object.fromEntries(counts), `${at} counts`).toEqual(expected);
  checkLanes(dump, queue, ready);
  const windowed = new Set(dump.members(`windowed:${queue}`));
  const owners = tasks.filter((task) => task.key !== '' && (!finished.has(task.state) || windowed.has(task.id)));
  expect(dump.pairs(`keys:${queue}`), `${at} keys`).toEqual(
    Object.fromEntries(owners.map(({ key, id }) => [key, id]).sort(([a], [b]) => (a! < b! ? -1 : 1))),
  );
  expect(dump.pairs('wake')[queue] !== undefined || of('scheduled').length === 0, `${at} wakes for what is due`).toBe(
    true,
  );
}

function checkLanes(dump: Dump, queue: string, ready: readonly Task[]): void {
  const bytes = (text: string): number => Buffer.byteLength(text);
  const lanes = group(ready, laneOf);
  for (const [lane, tasks] of lanes) expect(dump.members(lane), lane).toEqual(ids(tasks));
  const kinds = new Set(ready.map(({ kind }) => kind));
  const times = dump.pairs(`vtime:${queue}`);
  for (const kind of kinds) {
    const key = `tenants:${bytes(queue)}:${queue}:${kind}`;
    expect(dump.members(key), key).toEqual(
      [...new Set(ready.filter((task) => task.kind === kind).map(({ tenant }) => tenant))].sort(),
    );
    for (const [tenant, time] of Object.entries(dump.pairs(key)))
      expect(Number(time), `${key} ${tenant}`).toBeLessThanOrEqual(Number(times[tenant]));
  }
  if (ready.length === 0) expect(times, `vtime:${queue}`).toEqual({});
}
const laneOf = ({ queue, kind, tenant }: Task): string =>
  `lane:${Buffer.byteLength(queue)}:${Buffer.byteLength(kind)}:${queue}:${kind}:${tenant}`;
function group<T>(items: readonly T[], by: (item: T) => string): Map<string, T[]> {
  const groups = new Map<string, T[]>();
  for (const item of items) {
    const list = groups.get(by(item));
    if (list) list.push(item);
    else groups.set(by(item), [item]);
  }
  return groups;
}

/** Nothing runs without a living session, and a session holds exactly what it runs. */
function checkHeld(dump: Dump): void {
  const active = dump.tasks.filter(({ state }) => state === 'active');
  const holders = group(active, ({ run }) => run![2]!);
  const keys = new Map<string, string[]>();
  for (const name of dump.named('once:')) {
    const { state, session } = dump.pairs(name) as { state: string; session: string };
    if (state === 'inProgress') keys.set(session, [...(keys.get(session) ?? []), `o${name.slice(5)}`]);
  }
  expect(dump.members('onceDue'), 'clocks of once keys').toEqual(
    dump
      .named('once:')
      .map((name) => name.slice(5))
      .sort(),
  );
  for (const session of new Set([...holders.keys(), ...keys.keys()])) {
    const held = [...(holders.get(session) ?? []).map(({ id }) => `t${id}`), ...(keys.get(session) ?? [])];
    expect(dump.members(`held:${session}`), `held:${session}`).toEqual(held.sort());
    expect(dump.pairs('sessions')[session], `the session of ${held}`).toBeDefined();
  }
  expect(
    dump
      .named('held:')
      .map((name) => name.slice(5))
      .sort(),
  ).toEqual([...new Set([...holders.keys(), ...keys.keys()])].sort());
  expect(new Set(active.map(({ run }) => run![1])).size, 'fences of running tasks differ').toBe(active.length);
  // No lane or list of tenants of tasks that are not there.
  const lanes = new Set(dump.tasks.filter(({ state }) => state === 'ready').map(laneOf));
  expect(dump.named('lane:').filter((name) => !lanes.has(name))).toEqual([]);
}

function checkTimers(dump: Dump): void {
  const byId = new Map(dump.tasks.map((task) => [task.id, task]));
  const leases = new Set(dump.members('leases'));
  for (const [set, letters, states] of [
    ['timers', 'sd', ['ready', 'scheduled', 'active']],
    ['leases', 'ltg', ['active']],
  ] as const) {
    for (const member of dump.members(set)) {
      const task = byId.get(member.slice(1));
      if (!letters.includes(member[0]!) || !task || !(states as readonly string[]).includes(task.state))
        expect.fail(`${set} ${member} of ${task?.state}`);
    }
  }
  for (const { id, run, state } of dump.tasks) {
    if (state !== 'active') continue;
    for (const letter of 'ltg')
      if (leases.has(`${letter}${id}`) !== run![15]!.includes(letter)) expect.fail(`the timer ${letter} of ${id}`);
  }
}

const shapeOf = (key: string): RegExp =>
  new RegExp(`^${key.replace(/<#[^>]+>/g, '\\d+').replace(/<[^>]+>/g, '[^]*')}$`);
const patterns = keyPage.map((row: KeyRow) => ({ row, first: row.key.split(':')[0]!, shape: shapeOf(row.key) }));

/** Every key stands on the page of keys, with its type. */
export function checkPage(dump: Dump): void {
  for (const [name, { type }] of dump.keys) {
    const first = name.split(':', 1)[0]!;
    const rows = patterns.filter((pattern) => pattern.first === first && pattern.shape.test(name));
    if (rows.length === 0) expect.fail(`${name} does not stand on the page of keys`);
    if (!rows.some(({ row }) => row.type === type)) expect.fail(`${name} is a ${type}, not a ${rows[0]!.row.type}`);
  }
}

const ways: Record<string, readonly string[]> = {
  'task.ready': ['scheduled', 'blocked'],
  'task.claimed': ['ready'],
  'task.progressed': ['active'],
  'task.cancelRequested': ['active'],
  'task.completed': ['active'],
  'task.released': ['active'],
  'task.retried': ['active'],
  'task.dead': ['active'],
  'task.cancelled': ['active', 'ready', 'scheduled', 'blocked'],
  'task.expired': ['active', 'ready', 'scheduled', 'blocked'],
  'task.updated': ['active', 'ready', 'scheduled', 'blocked'],
  'task.redriven': ['dead', 'expired'],
  'task.removed': ['ready', 'scheduled', 'blocked', 'completed', 'dead', 'cancelled', 'expired'],
};

/** The events alone tell every task's state: each is a legal step, and the last one says where the task is now. */
function checkStory(dump: Dump): void {
  const states = new Map<string, string>();
  let fence = 0;
  for (const { type, subject, data } of dump.events()) {
    if (!type.startsWith('task.')) continue;
    const before = states.get(subject);
    const legal =
      type === 'task.enqueued' ? before === undefined : before !== undefined && ways[type]?.includes(before);
    if (!legal) expect.fail(`${subject}: ${type} from ${before}`);
    if (type === 'task.claimed') {
      if (!(data.fence > fence)) expect.fail(`${subject}: claimed under ${data.fence} after ${fence}`);
      fence = data.fence;
    }
    if (type === 'task.removed') states.delete(subject);
    else if (!['task.progressed', 'task.cancelRequested'].includes(type)) {
      states.set(subject, data.state ?? { 'task.ready': 'ready', 'task.claimed': 'active' }[type] ?? type.slice(5));
    }
  }
  const now = Object.fromEntries(dump.tasks.map(({ id, state }) => [id, state]));
  expect(Object.fromEntries(states), 'what the events tell').toEqual(now);
}
