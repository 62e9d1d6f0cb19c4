import { expect, test } from 'vitest';
import { Grants, type NewsRow } from '../../src/lock/grants.js';
import { lockHandlers } from '../../src/lock/pushes.js';

const row = (session: string, fence: number): NewsRow => [session, `grant-${fence}`, String(fence), '15000', ''];
const granted = (session: string, fence: number) => ({
  session,
  grant: `grant-${fence}`,
  fence,
  validMs: 15000,
  epoch: 'epoch',
});
const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/** Grants with two sessions, each on a socket here; the lines that went to them, as `session fence`. */
function daemon() {
  const sockets = new Map<string, object>([
    ['a', {}],
    ['b', {}],
  ]);
  const lines: string[] = [];
  const push = (session: string, line: string): boolean => {
    lines.push(`${session} ${(JSON.parse(line) as { fence: number }).fence}`);
    return true;
  };
  const grants = new Grants({ bySession: (session) => sockets.get(session), push }, () => 'aof');
  return { grants, sockets, lines };
}

test('a grant is told from the reply, and not again from the log', async () => {
  const { grants, lines } = daemon();
  grants.begin()([row('a', 1), row('b', 2)], 'epoch');
  await turn();
  expect(lines).toEqual(['a 1', 'b 2']);
  grants.fromLog(granted('a', 1));
  grants.fromLog(granted('b', 2));
  await turn();
  expect(lines).toEqual(['a 1', 'b 2']);
});

test('the answers that the same reply sets off are written before the grants in it', async () => {
  const { grants, lines } = daemon();
  const reply = Promise.resolve();
  const told = reply.then(() => grants.begin()([row('a', 1)], 'epoch'));
  // As deep as an answer is behind its reply: joiner, command, pipeline.
  const answer = reply
    .then(() => {})
    .then(() => {})
    .then(() => {})
    .then(() => {})
    .then(() => lines.push('answer'));
  await Promise.all([told, answer]);
  await turn();
  expect(lines).toEqual(['answer', 'a 1']);
});

test('a log that is faster than the reply tells it, and the reply does not', async () => {
  const { grants, lines } = daemon();
  const reply = grants.begin();
  grants.fromLog(granted('a', 1));
  reply([row('a', 1), row('b', 2)], 'epoch');
  await turn();
  expect(lines).toEqual(['a 1', 'b 2']);
});

test('a lost reply, a script of another daemon, a gap in the log: the log tells whatever no reply has told', async () => {
  const { grants, lines } = daemon();
  grants.begin()([], '');
  grants.fromLog(granted('a', 1));
  grants.begin()([row('a', 2)], 'epoch');
  await turn();
  // What was told of fence 2 fell into a gap.
  grants.fromLog(granted('b', 3));
  grants.fromLog(granted('a', 4));
  await turn();
  expect(lines).toEqual(['a 1', 'a 2', 'b 3', 'a 4']);
});

test('a session that has come back on another socket hears it there, from the log; one without a socket does not', async () => {
  const { grants, sockets, lines } = daemon();
  sockets.delete('b');
  grants.begin()([row('a', 1), row('b', 2)], 'epoch');
  await turn();
  sockets.set('a', {});
  grants.fromLog(granted('a', 1));
  grants.fromLog(granted('b', 2));
  await turn();
  expect(lines).toEqual(['a 1', 'a 1']);
});

test('a reply that comes late tells nothing that the log has told, though nobody was there to hear it', async () => {
  const { grants, sockets, lines } = daemon();
  const reply = grants.begin();
  const socket = sockets.get('a')!;
  sockets.delete('a');
  grants.fromLog(granted('a', 1));
  sockets.set('a', socket);
  reply([row('a', 1)], 'epoch');
  await turn();
  expect(lines).toEqual([]);
});

test('a reply that took long tells nothing: what has come of its grants since stands behind them in the log', async () => {
  const { grants, lines } = daemon();
  const reply = grants.begin();
  const until = performance.now() + 25;
  while (performance.now() < until);
  reply([row('a', 1)], 'epoch');
  await turn();
  expect(lines).toEqual([]);
  grants.fromLog(granted('a', 1));
  await turn();
  expect(lines).toEqual(['a 1']);
});

test('everything about one grant is told in the order of the log, which is read in one go', () => {
  const lines: string[] = [];
  const push = (_: string, line: string): boolean => lines.push(JSON.parse(line).op as string) > 0;
  const sessions = { bySession: () => ({}), push };
  const handlers = lockHandlers(new Grants(sessions, () => 'aof'), sessions, () => {});
  const [one, two] = [granted('a', 1), granted('a', 2)];
  handlers.lockGranted({ kind: 'lockGranted', ...one });
  handlers.lockLost({ kind: 'lockLost', session: 'a', name: 'm', grant: one.grant, fence: 1, reason: 'broken' });
  handlers.lockWaitEnded({ kind: 'lockWaitEnded', session: 'a', grant: 'other', reason: 'timeout' });
  handlers.lockGranted({ kind: 'lockGranted', ...two });
  expect(lines).toEqual(['granted', 'lost', 'waitEnded', 'granted']);
});
