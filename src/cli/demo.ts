import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { connect, type Signalbox } from '../client/index.js';
import { newId } from '../lib/ids.js';
import { Cast } from './demo/cast.js';
import { findDocuments, type Reading, read } from './demo/corpus.js';
import { Cut } from './demo/cut.js';
import { differences, failures, type Report, rowsOf } from './demo/verdict.js';
import { types, Watcher } from './demo/watch.js';
import { printJson, printTable, say } from './output.js';

const agentsCount = 10;
/** Short, so that the frozen agent's work moves on while one watches. */
const ttlMs = 2000;
/** It takes some twenty seconds; whatever hangs, it ends. */
const limitMs = 110_000;
const packageRoot = fileURLToPath(new URL('../../../', import.meta.url));

interface Stage {
  readonly cast: Cast;
  readonly url: string;
  readonly queue: string;
  /** Arguments of `signalbox redis-cli` that lead to the daemon's Redis. */
  readonly redis: readonly string[];
  readonly token: string | undefined;
  readonly json: boolean;
}

/**
 * The main job on real input: documents go through a queue to agents in processes of their own, one is killed and one
 * frozen meanwhile, and what a watcher saw over a cut link is compared with the log. 0 only if everything held.
 */
export async function demo(argv: readonly string[]): Promise<number> {
  const { values } = parseArgs({
    args: [...argv],
    options: {
      documents: { type: 'string', default: '500' },
      url: { type: 'string' },
      token: { type: 'string' },
      'think-ms': { type: 'string', default: '120' },
      json: { type: 'boolean', default: false },
    },
  });
  const roots = [join(packageRoot, 'node_modules'), packageRoot, '/usr/share/doc', '/usr/share/common-licenses'];
  const documents = findDocuments(roots, Number(values.documents));
  const cast = new Cast();
  const stateDir = mkdtempSync(join(tmpdir(), 'signalbox-demo-'));
  const interrupt = (): void => process.exit(130); // The exit ends every process of the cast.
  const clean = (): void => rmSync(stateDir, { recursive: true, force: true });
  process.once('SIGINT', interrupt);
  process.once('SIGTERM', interrupt);
  process.once('exit', clean);
  try {
    const settings = {
      SIGNALBOX_SESSION_GRACE_MS: '1000',
      SIGNALBOX_OPS_LOG_LEVEL: 'fatal',
      SIGNALBOX_GATEWAY_DRAIN_MS: '100',
    };
    const url = values.url ?? (await cast.daemon(settings, stateDir)).url;
    const redis = values.url === undefined ? ['--state-dir', stateDir] : [];
    const stage = {
      cast,
      url,
      queue: `demo-${newId()}`,
      redis,
      token: values.token ?? process.env.SIGNALBOX_TOKEN,
      json: values.json,
    };
    const report = await within(limitMs, play(stage, documents, Number(values['think-ms'])));
    const failed = failures(report);
    if (values.json) await printJson({ ...report, failures: failed });
    else {
      await printTable(['what', 'count'], rowsOf(report));
      for (const text of failed) say(`does not hold: ${text}`);
    }
    return failed.length === 0 ? 0 : 1;
  } finally {
    await cast.endAll();
    process.off('SIGINT', interrupt);
    process.off('SIGTERM', interrupt);
    process.off('exit', clean);
    clean();
  }
}

async function play(stage: Stage, documents: readonly string[], thinkMs: number): Promise<Report> {
  const { hostname, port } = new URL(stage.url);
  const cut = new Cut(hostname, Number(port));
  const watcher = new Watcher();
  const options = stage.token === undefined ? {} : { token: stage.token };
  const sb = await connect({ url: stage.url, agent: 'demo', ...options });
  const display = setInterval(() => show(stage, watcher, documents.length), process.stderr.isTTY ? 100 : 2000);
  try {
    await watcher.start(`ws://127.0.0.1:${await cut.start()}/v1/ws`, stage.token);
    const startedAt = performance.now();
    await stage.cast.publish('signalbox:default:batch.started', { documents: documents.length }, stage.redis);
    const agents = startAgents(stage, thinkMs);
    const made = await Promise.all(documents.map((path) => sb.enqueue(stage.queue, { path }, { maxAttempts: 5 })));
    const chaos = disturb(agents, watcher, cut, documents.length);
    const results = await Promise.all(made.map(({ task }) => sb.result<Reading>(task, { waitMs: 90_000 })));
    const seconds = (performance.now() - startedAt) / 1000;
    const troubles = await chaos;
    await stage.cast.publish('signalbox:default:batch.finished', { seconds }, stage.redis);
    await Promise.all(agents.map(({ child }) => stage.cast.end(child)));
    await atMost(
      10_000,
      watcher.until(() => watcher.published.includes('batch.finished')),
    );
    const log = await settledLog(sb, watcher);
    const right = results.filter(({ state, result }, i) => state === 'completed' && isRight(result, documents[i]!));
    const completed = results.filter(({ state }) => state === 'completed').length;
    return {
      documents: documents.length,
      results: completed,
      wrong: completed - right.length,
      duplicates: watcher.duplicates,
      lost: documents.length - completed,
      redelivered: watcher.redelivered,
      redeliveredFromKilled: watcher.redeliveredFrom.get(troubles.killed) ?? 0,
      redeliveredFromFrozen: watcher.redeliveredFrom.get(troubles.frozen) ?? 0,
      eventsSeen: watcher.offsets.length,
      eventsInLog: log.length,
      eventsOff: differences(watcher.offsets, log) + watcher.gaps.length,
      published: watcher.published,
      ...troubles,
      watcherCuts: watcher.cuts,
      seconds,
    };
  } finally {
    clearInterval(display);
    if (process.stderr.isTTY && !stage.json) process.stderr.write('\r\u001b[K');
    await sb.close({ limitMs: 0 });
    await watcher.stop();
    cut.stop();
  }
}

function startAgents({ cast, url, queue, token }: Stage, thinkMs: number) {
  return Array.from({ length: agentsCount }, (_, i) => {
    const name = `reader-${i + 1}`;
    const env = {
      DEMO_URL: url,
      DEMO_AGENT: name,
      DEMO_QUEUE: queue,
      DEMO_THINK_MS: String(thinkMs),
      DEMO_TTL_MS: String(ttlMs),
    };
    return { name, child: cast.agent(token === undefined ? env : { ...env, SIGNALBOX_TOKEN: token }) };
  });
}

/** One agent is killed at work, one is frozen at work for longer than its session lives, the watcher's link is cut. */
async function disturb(agents: ReturnType<typeof startAgents>, watcher: Watcher, cut: Cut, documents: number) {
  const atWork = (name: string): boolean => (watcher.holding.get(name)?.size ?? 0) > 0;
  const [victim, sleeper] = [agents[2]!, agents[5]!];
  await watcher.until(() => watcher.completed >= documents * 0.1 && atWork(victim.name));
  victim.child.kill('SIGKILL');
  await watcher.until(() => watcher.completed >= documents * 0.2 && atWork(sleeper.name));
  sleeper.child.kill('SIGSTOP');
  await watcher.until(() => watcher.completed >= documents * 0.4);
  cut.break();
  await wait(300);
  cut.mend();
  await wait(ttlMs * 1.5);
  const { signalCode } = victim.child;
  const thawed = sleeper.child.kill('SIGCONT');
  return { killed: signalCode === 'SIGKILL' ? victim.name : '', frozen: thawed ? sleeper.name : '' };
}

/** What the agent handed in is what reading the document gives. */
function isRight(result: Reading | undefined, path: string): boolean {
  const { words, terms } = read(path);
  return result?.words === words && result.terms.join() === terms.join();
}

/** Offsets of the log from where the watch began, once the watcher has caught up with its head. */
async function settledLog(sb: Signalbox, watcher: Watcher): Promise<number[]> {
  const offsets: number[] = [];
  for (let from = watcher.from; ; ) {
    const page = (await sb.feed.read({ from, types, limit: 1000 })) as { events: { offset: number }[]; next: string };
    offsets.push(...page.events.map(({ offset }) => offset));
    if (page.next === from || page.events.length === 0) break;
    from = page.next;
  }
  const last = offsets.at(-1) ?? 0;
  await atMost(
    10_000,
    watcher.until(() => (watcher.offsets.at(-1) ?? 0) >= last),
  );
  // What came to the log after it was read is no part of the comparison.
  while ((watcher.offsets.at(-1) ?? 0) > last) watcher.offsets.pop();
  return offsets;
}

function show({ json }: Stage, watcher: Watcher, documents: number): void {
  if (json) return;
  const busy = [...watcher.holding.values()].filter((held) => held.size > 0).length;
  const text = `${watcher.completed}/${documents} read, ${busy} agents at work, ${watcher.redelivered} redelivered, ${watcher.offsets.length} events, ${watcher.cuts} cuts`;
  process.stderr.write(process.stderr.isTTY ? `\r\u001b[K${text}` : `${text}\n`);
}

/** A hard end: what is still waited for then did not hold. */
async function within<T>(limit: number, work: Promise<T>): Promise<T> {
  const timer = new AbortController();
  const over = wait(limit, undefined, { signal: timer.signal, ref: false }).then(() => {
    throw new Error(`the demo did not end within ${limit / 1000} s`);
  });
  over.catch(() => undefined);
  return await Promise.race([work, over]).finally(() => timer.abort());
}

async function atMost(limitMs: number, promise: Promise<void>): Promise<void> {
  const timer = new AbortController();
  await Promise.race([promise, wait(limitMs, undefined, { signal: timer.signal }).catch(() => undefined)]);
  timer.abort();
}
