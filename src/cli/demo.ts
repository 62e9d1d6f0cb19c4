import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { connect, type Signalbox } from '../client/index.js';
import { newId } from '../lib/ids.js';
import { playAlone } from './demo/alone.js';
import { Cast } from './demo/cast.js';
import { findDocuments, type Reading, read } from './demo/corpus.js';
import { agentsCount, disturb, type Stage, startAgents } from './demo/crew.js';
import { Cut } from './demo/cut.js';
import { completionOf, Llm } from './demo/llm.js';
import { Rate } from './demo/rate.js';
import { callRowsOf, differences, documentsLeast, failures, type Report, rowsOf } from './demo/verdict.js';
import { types, Watcher } from './demo/watch.js';
import { exit } from './exit.js';
import { counted, print, printJson, printTable, say } from './output.js';

/** It takes some eighty seconds; whatever hangs, it ends. */
const limitMs = 115_000;
/**
 * By how much the limit's minute is longer than the provider's. A call that was long on its way and a later one that was
 * short are closer together where they arrive than where they were granted; this much closer is still no 429.
 */
const slack = 0.05;
const usage = `signalbox demo [--documents n] [--think-ms n] [--rate n] [--minute-ms n] [--json]

At least ${documentsLeast} documents go through a queue to agents that ask a model about each; the model answers 429 beyond --rate
calls in --minute-ms, and takes --think-ms a call. With --url (and --token) it runs on a daemon that is there.`;
const packageRoot = fileURLToPath(new URL('../../../', import.meta.url));

/**
 * The main job on real input: documents go through a queue to agents in processes of their own, who ask a model with a
 * rate about each; one is killed and one frozen meanwhile, and what a watcher saw over a cut link is compared with the
 * log. Then the same without a limit on the calls. 0 only if everything held.
 */
export async function demo(argv: readonly string[]): Promise<number> {
  const { values } = parseArgs({
    args: [...argv],
    options: {
      documents: { type: 'string', default: '500' },
      url: { type: 'string' },
      token: { type: 'string' },
      'think-ms': { type: 'string', default: '120' },
      rate: { type: 'string', default: '60' },
      'minute-ms': { type: 'string', default: '4000' },
      json: { type: 'boolean', default: false },
      help: { type: 'boolean', default: false },
    },
  });
  if (values.help) {
    await print(usage);
    return exit.ok;
  }
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
      redis,
      token: values.token ?? process.env.SIGNALBOX_TOKEN,
      json: values.json,
      rate: Number(values.rate),
      minuteMs: Number(values['minute-ms']),
      thinkMs: Number(values['think-ms']),
    };
    const report = await within(limitMs, play(stage, documents));
    const failed = failures(report);
    if (values.json) await printJson({ ...report, failures: failed });
    else {
      await printTable(['what', 'count'], rowsOf(report));
      await print('');
      await printTable(['calls of the model', 'with the limit', 'without'], callRowsOf(report));
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

async function play(stage: Stage, documents: readonly string[]): Promise<Report> {
  const options = stage.token === undefined ? {} : { token: stage.token };
  const sb = await connect({ url: stage.url, agent: 'demo', ...options });
  try {
    const together = await playTogether(sb, stage, documents);
    return { ...together, ...(await playAlone(sb, stage, documents, (text) => show(stage, text))) };
  } finally {
    if (process.stderr.isTTY && !stage.json) process.stderr.write('\r\u001b[K');
    await sb.close({ limitMs: 0 });
  }
}

async function playTogether(sb: Signalbox, stage: Stage, documents: readonly string[]) {
  const { hostname, port } = new URL(stage.url);
  const cut = new Cut(hostname, Number(port));
  const watcher = new Watcher();
  const rate = new Rate(stage.rate, stage.minuteMs);
  const llm = new Llm(rate, stage.thinkMs);
  const progress = (): void => show(stage, progressOf(watcher, rate, documents.length));
  const display = setInterval(progress, process.stderr.isTTY ? 100 : 2000);
  try {
    await watcher.start(`ws://127.0.0.1:${await cut.start()}/v1/ws`, stage.token);
    const queue = `demo-${newId()}`;
    const limit = `${queue}-llm`;
    const perMs = Math.ceil(stage.minuteMs * (1 + slack));
    await sb.limit.define({ name: limit, kind: 'window', dimensions: { requests: { amount: stage.rate, perMs } } });
    const agents = startAgents(stage, queue, await llm.start(), limit);
    await llm.ready(agentsCount);
    const startedAt = performance.now();
    await stage.cast.publish('signalbox:default:batch.started', { documents: documents.length }, stage.redis);
    const made = await Promise.all(documents.map((path) => sb.enqueue(queue, { path }, { maxAttempts: 5 })));
    const chaos = disturb(agents, watcher, cut, documents.length);
    const results = await Promise.all(made.map(({ task }) => sb.result<Finding>(task, { waitMs: 90_000 })));
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
      served: rate.served,
      refused: rate.refused,
      share: rate.share,
    };
  } finally {
    clearInterval(display);
    await watcher.stop();
    cut.stop();
    llm.stop();
  }
}

type Finding = Reading & { readonly summary: string };

/** What the agent handed in is what reading the document gives, and what the model says of it. */
function isRight(result: Finding | undefined, path: string): boolean {
  const { words, terms } = read(path);
  const summary = completionOf(terms.join(' '));
  return result?.words === words && result.terms.join() === terms.join() && result.summary === summary;
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

function progressOf(watcher: Watcher, rate: Rate, documents: number): string {
  const busy = [...watcher.holding.values()].filter((held) => held.size > 0).length;
  const { completed, redelivered, offsets, cuts } = watcher;
  const counts = [
    `${completed}/${documents} read`,
    `${counted(busy, 'agent')} at work`,
    `${counted(rate.refused, 'time')} 429`,
    `${redelivered} redelivered`,
    counted(offsets.length, 'event'),
    counted(cuts, 'cut'),
  ];
  return counts.join(', ');
}

function show({ json }: Stage, text: string): void {
  if (!json) process.stderr.write(process.stderr.isTTY ? `\r\u001b[K${text}` : `${text}\n`);
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
