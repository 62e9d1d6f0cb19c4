import { expect, test } from 'vitest';
import { Defer, Fail, type TaskContext } from '../../src/client/index.js';
import { reported, type Step, working } from './at-work.js';
import { type Any, deferred, pushed, refuse, silence } from './fake-daemon.js';
import { useRig } from './rig.js';

useRig();

test('returning completes with the value, in one request for what ends in one turn', async () => {
  const { daemon, push } = await working((task) => (task.task === 't1' ? { done: task.payload.n } : undefined), {
    concurrency: 2,
  });
  push(pushed('t1', 11), pushed('t2', 12));
  expect(await reported(daemon, 'complete')).toEqual([
    { task: 't1', fence: 11, result: { done: 11 } },
    { task: 't2', fence: 12 },
  ]);
});

test.each<[string, Step, object]>([
  [
    'Defer',
    () => {
      throw new Defer({ afterMs: 10, reason: 'rateLimited', saved: { at: 3 } });
    },
    { reason: 'rateLimited', afterMs: 10, saved: { at: 3 } },
  ],
  ['defer()', (_task, { defer }) => defer({ afterMs: 5 }), { reason: 'deferred', afterMs: 5 }],
  ['release()', (_task, { release }) => release('not mine'), { reason: 'not mine' }],
])('A6: %s hands the task back', async (_, handler, expected) => {
  const { daemon, push } = await working(handler);
  push(pushed('t1', 1));
  expect(await reported(daemon, 'release')).toEqual([{ task: 't1', fence: 1, ...expected }]);
});

test('a result that is no JSON, or too large, fails the task for good instead of leaving it active', async () => {
  const { daemon, push } = await working(({ task }) => (task === 't1' ? { big: 1n } : 'x'));
  daemon.on['queue.complete'] = () => ({ tasks: [refuse('TOO_LARGE')] });
  push(pushed('t1', 1));
  expect(await reported(daemon, 'fail')).toMatchObject([{ task: 't1', retry: false }]);
  push(pushed('t2', 2));
  expect(await reported(daemon, 'fail')).toMatchObject([{ task: 't2', retry: false, error: { code: 'TOO_LARGE' } }]);
});

test('error data or a saved state that is too large is left out, or fails', async () => {
  const { daemon, push } = await working(({ task }) => {
    throw task === 't1' ? new Fail('f', { data: 'x' }) : new Defer({ saved: 'x' });
  });
  daemon.on['queue.fail'] = ({ params }) => ({
    tasks: params.tasks.map(({ error }: Any) => (error.data ? refuse('TOO_LARGE') : { state: 'dead' })),
  });
  daemon.on['queue.release'] = () => ({ tasks: [refuse('TOO_LARGE')] });
  push(pushed('t1', 1));
  await daemon.asked('queue.fail');
  expect(await reported(daemon, 'fail')).toEqual([{ task: 't1', fence: 1, error: { message: 'f' }, retry: false }]);
  push(pushed('t2', 2));
  expect(await reported(daemon, 'fail')).toMatchObject([{ task: 't2', error: { code: 'TOO_LARGE' } }]);
});

test('an outcome is reported until it is answered', async () => {
  const { daemon, worker, push } = await working(() => 1);
  let tries = 0;
  daemon.on['queue.complete'] = ({ params }) =>
    ++tries < 3 ? refuse('UNAVAILABLE') : { tasks: params.tasks.map(() => ({ state: 'completed' })) };
  push(pushed('t1', 1));
  await daemon.when(() => tries === 3);
  await worker.stop();
  expect(daemon.all('queue.complete').map(({ params }) => params)).toEqual(
    Array(3).fill({ tasks: [{ task: 't1', fence: 1, result: 1 }] }),
  );
});

test('an outcome that was on its way when the link was cut is repeated, whatever holdings say', async () => {
  const { daemon, worker, push } = await working(() => 'r');
  daemon.on['queue.complete'] = ({ peer }) => (peer.number === 0 ? silence : { tasks: [{ state: 'completed' }] });
  push(pushed('t1', 1));
  await daemon.asked('queue.complete');
  daemon.peer.cut();
  expect(await reported(daemon, 'complete')).toEqual([{ task: 't1', fence: 1, result: 'r' }]);
  await worker.stop();
  expect(daemon.all('queue.release')).toHaveLength(0);
});

test('progress: one report at a time, joined, the last one counts; a stale fence aborts', async () => {
  const gate = deferred();
  const context = deferred<TaskContext>();
  const { daemon, push } = await working(
    (_task, given) => {
      context.resolve(given);
      return gate.promise;
    },
    { progressEveryMs: 20 },
  );
  const answers: ((ok: object) => void)[] = [];
  daemon.on['queue.progress'] = () => new Promise((resolve) => answers.push(resolve));
  push(pushed('t1', 1));
  const { progress, signal } = await context.promise;
  const told = [progress(1), progress(2, { at: 2 }), progress(3)];
  expect((await daemon.asked('queue.progress')).params).toEqual({ task: 't1', fence: 1, progress: 1 });
  answers[0]?.({});
  await told[0];
  expect((await daemon.asked('queue.progress')).params).toEqual({
    task: 't1',
    fence: 1,
    progress: 3,
    saved: { at: 2 },
  });
  answers[1]?.(refuse('STALE_FENCE'));
  await expect(told[2]).rejects.toMatchObject({ code: 'STALE_FENCE' });
  expect(signal.reason).toMatchObject({ reason: 'staleFence' });
  await expect(progress(4)).rejects.toMatchObject({ reason: 'staleFence' });
  gate.resolve();
  expect(daemon.all('queue.progress')).toHaveLength(2);
});

test('A13: the zombie writes last: its outcome is refused, and nothing breaks', async () => {
  const { daemon, worker, push } = await working(() => 'A');
  daemon.on['queue.complete'] = () => ({ tasks: [refuse('STALE_FENCE', { details: { yours: 7, current: 8 } })] });
  push(pushed('t1', 7));
  await daemon.asked('queue.complete');
  await worker.stop();
  expect(daemon.all('queue.complete')).toHaveLength(1);
});
