import type { Command } from 'commander';
import { type Config, usesManagedRedis } from '../config.js';
import type { Client } from '../redis/connection.js';
import { type ConnectionFlags, connected, daemonUrl, httpUrl, withClient } from './connection.js';
import { exit, failureOf, type Outcome } from './exit.js';
import { counted, print, printJson } from './output.js';
import { configured, type SettingFlags, settingsFrom } from './settings.js';

/** One thing that was looked at. `error` keeps Signalbox from working, `warn` from keeping all it promises. */
interface Check {
  readonly area: 'settings' | 'redis' | 'data' | 'daemon' | 'queues';
  readonly id: string;
  readonly level: 'ok' | 'warn' | 'error';
  readonly message: string;
  readonly advice: string;
}

type Flags = ConnectionFlags & SettingFlags;

export function doctorCommand(program: Command, outcome: Outcome): void {
  configured(connected(program.command('doctor')))
    .description('look at Redis, the daemon and the queues, and say what to do about each finding')
    .action(async (flags: Flags) => {
      const checks = await examine(flags);
      if (flags.json) await printJson({ checks });
      else for (const check of checks) await show(check);
      outcome.code = checks.some(({ level }) => level === 'error') ? exit.failure : exit.ok;
    });
}

async function show({ area, level, message, advice }: Check): Promise<void> {
  const mark = { ok: 'ok   ', warn: 'WARN ', error: 'ERROR' }[level];
  await print(`${mark}  ${area.padEnd(8)}  ${message}`);
  if (advice !== '') await print(`${' '.repeat(17)}${advice}`);
}

async function examine(flags: Flags): Promise<Check[]> {
  const checks: Check[] = [];
  try {
    const config = settingsFrom(flags);
    checks.push({ area: 'settings', id: 'settings', level: 'ok', message: 'the settings are fine', advice: '' });
    checks.push(...(await examineRedis(config)));
  } catch (error) {
    const { message, advice = '' } = failureOf(error);
    checks.push({ area: 'settings', id: 'settings', level: 'error', message, advice });
  }
  return [...checks, ...(await examineDaemon(flags))];
}

/** Needs no daemon: the Redis of a state directory is found by its record. */
async function examineRedis(config: Config): Promise<Check[]> {
  const { openRedis } = await import('../redis/connection.js');
  const { inspectRedis } = await import('../redis/inspect.js');
  const { findManagedRedis } = await import('../redis/managed-record.js');
  const { configuredTarget } = await import('../redis/target.js');
  const managed = usesManagedRedis(config) ? findManagedRedis(config.stateDir) : undefined;
  const target = configuredTarget(config) ?? (managed && ({ kind: 'socket', path: managed.path } as const));
  if (!target) return [await examineBinary(config)];
  const client = openRedis(target, 'commands', config.redis.commandTimeoutMs);
  client.on('error', () => undefined);
  try {
    await client.connect();
    const findings = await inspectRedis(client, { allowEviction: config.redis.allowEviction });
    return [...findings.map((finding): Check => ({ area: 'redis', ...finding })), ...(await examineData(client))];
  } catch (error) {
    const where = managed?.path ?? 'the configured address';
    const message = `Redis does not answer at ${where}: ${(error as Error).message}`;
    return [
      { area: 'redis', id: 'connect', level: 'error', message, advice: 'Is it running, and is redis.url right?' },
    ];
  } finally {
    client.disconnect();
  }
}

/** What must always hold, held against what is stored, namespace by namespace. Only reads. */
async function examineData(client: Client): Promise<Check[]> {
  const { namespacesKey } = await import('../redis/keys.js');
  const { checkInvariants } = await import('../ops/invariants.js');
  const checks: Check[] = [];
  for (const namespace of await client.zrange(namespacesKey, '0', '-1')) {
    const check = (id: string, level: Check['level'], message: string, advice = ''): void =>
      void checks.push({ area: 'data', id, level, message: `namespace ${namespace}: ${message}`, advice });
    try {
      const { findings, looked, skipped } = await checkInvariants(client, namespace);
      for (const { id, level, message, advice } of findings) check(id, level, message, advice);
      if (findings.length > 0) continue;
      const left = skipped.length > 0 ? `; not looked at: ${skipped.join(', ')}` : '';
      const { queues, rows, keys, entries } = looked;
      const seen = [counted(queues, 'queue'), counted(rows, 'row'), counted(keys, 'key')];
      const logged = counted(entries, 'log entry', 'log entries');
      check('invariants', 'ok', `no contradiction in ${seen.join(', ')}, ${logged}${left}`);
    } catch (error) {
      check(
        'invariants',
        'warn',
        `could not be examined: ${(error as Error).message}`,
        'Try again; report it if it stays.',
      );
    }
  }
  return checks;
}

/** The managed Redis runs while its daemon does; without one, what counts is whether it could be started. */
async function examineBinary({ stateDir, redis }: Config): Promise<Check> {
  const { findServerBinary } = await import('../redis/server-binary.js');
  try {
    const { product, version } = await findServerBinary(redis.managed.binary);
    const message = `no managed Redis runs on ${stateDir}; ${product} ${version} is there to be started`;
    return { area: 'redis', id: 'managed', level: 'warn', message, advice: '`signalbox up` starts it.' };
  } catch (error) {
    return { area: 'redis', id: 'binary', level: 'error', message: (error as Error).message, advice: '' };
  }
}

async function examineDaemon(flags: Flags): Promise<Check[]> {
  const url = daemonUrl(flags);
  const health = await ask(httpUrl(url, '/healthz'));
  if (!health) {
    const message = `no daemon answers at ${url.href}`;
    return [
      {
        area: 'daemon',
        id: 'healthz',
        level: 'error',
        message,
        advice: 'Start one with `signalbox up`, or say by --url where it is.',
      },
    ];
  }
  const ready = await ask(httpUrl(url, '/readyz'));
  const checks = [
    judge('healthz', health, 'healthy', 'Restart the daemon; it loses nothing. Its log may say what happened.'),
    ...(ready ? [judge('readyz', ready, 'ready', 'It is ready as soon as the reason is gone.')] : []),
  ];
  return [...checks, ...(await examineQueues(flags))];
}

interface Report {
  readonly ok: boolean;
  readonly reasons: readonly string[];
}

async function ask(url: string): Promise<Report | undefined> {
  try {
    const response = await fetch(url, { signal: AbortSignal.timeout(5000) });
    const { reasons = [] } = (await response.json()) as { reasons?: string[] };
    return { ok: response.ok, reasons };
  } catch {
    return undefined;
  }
}

function judge(id: string, { ok, reasons }: Report, good: string, advice: string): Check {
  if (ok) return { area: 'daemon', id, level: 'ok', message: `the daemon is ${good}`, advice: '' };
  return { area: 'daemon', id, level: 'error', message: `the daemon is not ${good}: ${reasons.join('; ')}`, advice };
}

const pings = 5;

/** As a client: the way through the WebSocket, and queues somebody should look at. */
async function examineQueues(flags: Flags): Promise<Check[]> {
  try {
    return await withClient(flags, { session: false }, async (client) => {
      const times: number[] = [];
      for (let i = 0; i < pings; i++) {
        const sentAt = performance.now();
        await client.ping();
        times.push(performance.now() - sentAt);
      }
      const ms = times.sort((a, b) => a - b)[pings >> 1]!;
      const slow = ms > 50;
      const { queues } = await client.queue.stats({});
      return [
        {
          area: 'daemon',
          id: 'latency',
          level: slow ? 'warn' : 'ok',
          message: `${ms.toFixed(2)} ms for a ping through the daemon`,
          advice: slow
            ? 'Compare it with the latency of Redis: the rest is the network or a daemon that is too busy.'
            : '',
        },
        ...queues.flatMap((queue) => judgeQueue(queue)),
      ] satisfies Check[];
    });
  } catch (error) {
    const { message, advice = '' } = failureOf(error);
    return [{ area: 'daemon', id: 'connect', level: 'error', message, advice }];
  }
}

interface QueueNumbers {
  readonly queue: string;
  readonly states: Readonly<Record<string, number>>;
  readonly overloaded: boolean;
}

function judgeQueue({ queue, states, overloaded }: QueueNumbers): Check[] {
  const warn = (id: string, message: string, advice: string): Check => ({
    area: 'queues',
    id,
    level: 'warn',
    message,
    advice,
  });
  const dead = (states.dead ?? 0) + (states.expired ?? 0);
  return [
    ...(overloaded
      ? [warn('overloaded', `${queue} is full and refuses new tasks`, 'Add workers, or raise its maxDepth.')]
      : []),
    ...(dead > 0
      ? [
          warn(
            'dead',
            `the dead letter of ${queue} holds ${counted(dead, 'task')}`,
            `\`signalbox dead ls ${queue}\` says why, \`dead redrive\` brings them back.`,
          ),
        ]
      : []),
  ];
}
