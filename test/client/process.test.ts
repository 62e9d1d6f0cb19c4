import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { expect, test } from 'vitest';
import { deferred } from './fake-daemon.js';
import { client, open, useDaemon, world } from './real.js';

useDaemon();

interface Child {
  readonly process: ChildProcess;
  readonly exit: Promise<unknown>;
  /** The next line it prints that begins with this word. */
  says(word: string): Promise<string>;
}

/** A worker in a process of its own that can be frozen and killed: `body` is the handler's. */
function child(queue: string, ttlMs: number, body: string): Child {
  const script = `
    import { setTimeout as sleep } from 'node:timers/promises';
    import { connect } from ${JSON.stringify(new URL('../../dist/src/client/index.js', import.meta.url).href)};
    const say = (text) => process.stdout.write(text + '\\n');
    const sb = await connect({ url: ${JSON.stringify(world.daemon.url)}, agent: 'child', ttlMs: ${ttlMs} });
    const worker = sb.work(${JSON.stringify(queue)}, {}, async (task, { signal, progress }) => { ${body} });
    await worker.ready;
    say('ready');
  `;
  const process_ = spawn(process.execPath, ['--input-type=module', '-e', script], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const exit = once(process_, 'close'); // behind its last line
  const lines: string[] = [];
  const waiters = new Set<() => void>();
  createInterface({ input: process_.stdout! }).on('line', (line) => {
    lines.push(line);
    for (const look of [...waiters]) look();
  });
  open.push({
    close: async () => {
      process_.kill('SIGKILL');
      await exit;
    },
  });
  const says = (word: string): Promise<string> =>
    new Promise((resolve, reject) => {
      void exit.then(() => setImmediate(reject, new Error(`the worker ended and never said ${word}`)));
      const look = (): void => {
        const at = lines.findIndex((line) => line.startsWith(word));
        if (at < 0) return;
        waiters.delete(look);
        resolve(lines.splice(at, 1)[0]!);
      };
      waiters.add(look);
      look();
    });
  return { process: process_, exit, says };
}

test('Q13, A13, L7: a process frozen for two leases: told before its first line after the thaw, and it writes nothing', async () => {
  const admin = await client();
  const a = child(
    'frozen',
    600,
    `
    say('started');
    for (;;) {
      const before = performance.now();
      await sleep(5);
      // The second half: the freeze may have come just before the line above.
      if (performance.now() - before < 500 && !signal.aborted) continue;
      say('thawed ' + signal.aborted + ' ' + signal.reason?.reason);
      await progress(1).catch((error) => say('progress ' + error.name));
      return 'A';
    }
  `,
  );
  await a.says('ready');
  const completed: string[] = [];
  await admin.subscribe({ types: ['task.completed'], where: { queue: 'frozen' } }, ({ event }) =>
    completed.push(event?.subject ?? ''),
  );
  const { task } = await admin.enqueue('frozen', 1);
  await a.says('started');
  a.process.kill('SIGSTOP');
  const worker = admin.work('frozen', {}, () => 'B');
  expect(await admin.result(task)).toEqual({ state: 'completed', result: 'B' });
  await worker.stop();
  await new Promise((resolve) => setTimeout(resolve, 600));
  a.process.kill('SIGCONT');
  expect(await a.says('thawed')).toBe('thawed true cannotRenew');
  expect(await a.says('progress')).toBe('progress Ended');
  // It is well again: with a new session it takes the next task.
  const next = await admin.enqueue('frozen', 2);
  await a.says('started');
  const { result, history, attempt } = await admin.queue.get({ task });
  expect([result, attempt]).toEqual(['B', 2]);
  expect(history?.map(({ outcome }) => outcome)).toEqual(['sessionLost', 'completed']);
  expect(completed).toEqual([task]);
  await admin.queue.cancel({ task: next.task });
});

test('Q10: a task that kills its worker runs three times, and what still waits is untouched', async () => {
  const admin = await client();
  const body = `say('started ' + task.attempt); if (task.payload === 'poison') process.kill(process.pid, 'SIGKILL'); return task.attempt;`;
  const { task } = await admin.enqueue('poisoned', 'poison', { maxAttempts: 3, priority: 100 });
  const innocents = await Promise.all(Array.from({ length: 9 }, (_, n) => admin.enqueue('poisoned', n)));
  let back = deferred();
  await admin.subscribe({ types: ['task.retried', 'task.dead'], where: { task } }, () => back.resolve());
  for (let attempt = 1; attempt <= 3; attempt++) {
    const a = child('poisoned', 600, body);
    expect(await a.says('started')).toBe(`started ${attempt}`);
    await a.exit;
    // Until it is back another worker would be given what waits behind it.
    await back.promise;
    back = deferred();
    const { task: waiting } = innocents[0]!;
    expect(await admin.queue.get({ task: waiting })).toMatchObject({ attempt: 0 });
    if (attempt < 3) continue;
    expect(await admin.result(task)).toMatchObject({ state: 'dead', error: { code: 'WORKER_LOST' } });
  }
  child('poisoned', 600, body);
  for (const innocent of innocents)
    expect(await admin.result(innocent.task)).toEqual({ state: 'completed', result: 1 });
});

test('a daemon that drains, and one that is killed: session, work and feed go on at the next one', async () => {
  const [one, two] = [await world.another(), await world.another()];
  const publisher = await client({ agent: 'p' });
  const states: string[] = [];
  const sb = await client({
    url: [one.url, two.url, world.daemon.url],
    onStatus: (status) => states.push(status.state),
  });
  const session = sb.identity?.session;
  const got: number[] = [];
  const ends = deferred();
  await sb.subscribe({ types: ['moved.x'] }, ({ event }) => {
    if (event && got.push((event.data as { n: number }).n) === 300) ends.resolve();
  });
  const gate = deferred();
  const started = deferred();
  let wasAborted = false;
  const worker = sb.work('moving', {}, async (_task, { signal }) => {
    signal.addEventListener('abort', () => (wasAborted = true));
    started.resolve();
    await gate.promise;
    return 'kept';
  });
  await worker.ready;
  const { task } = await publisher.enqueue('moving', 1);
  await started.promise;
  for (let n = 0; n < 300; n++) {
    await publisher.publish('moved.x', { n });
    if (n === 100) await one.stop();
    if (n === 200) await two.kill();
  }
  await ends.promise;
  gate.resolve();
  expect(await publisher.result(task)).toEqual({ state: 'completed', result: 'kept' });
  expect(got).toEqual(Array.from({ length: 300 }, (_, n) => n));
  expect(sb.identity?.session).toBe(session);
  expect(wasAborted).toBe(false);
  expect(states.filter((state) => state === 'open').length).toBeGreaterThanOrEqual(3);
});
