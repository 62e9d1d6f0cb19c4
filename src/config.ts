import { homedir, tmpdir } from 'node:os';
import { join } from 'node:path';
import { z } from 'zod';
import { newId } from './lib/ids.js';
import { type DeepReadonly, deepFreeze } from './lib/readonly.js';
import { ConfigError } from './lib/settings/config-error.js';
import { describe, type SettingRow } from './lib/settings/rows.js';
import { resolve, type Source } from './lib/settings/sources.js';

/**
 * Every setting, once: default, bounds, unit and sentence. The printed docs, the JSON schema, the names in the
 * environment and the errors all come from here. A new setting is one line; nothing else needs to know its name.
 * Lower bounds of durations are 1 ms so that a test can shrink any of them; `timer` ones are bounded by a day because
 * they end up in setTimeout, which turns anything beyond 24.8 days into an instant.
 */
const dayMs = 86_400_000;
const KiB = 1024;
const MiB = 1024 * KiB;

const whole = (unit: string, value: number, min: number, max: number, description: string) =>
  z.int().min(min).max(max).default(value).meta({ description, unit });
const timer = (value: number, description: string, min = 1) => whole('ms', value, min, dayMs, description);
const age = (value: number, description: string) => whole('ms', value, 1, 366 * dayMs, description);
const bytes = (value: number, description: string, min = 1, max = 1024 * MiB) =>
  whole('bytes', value, min, max, description);
const count = (value: number, description: string, max = 1_000_000_000, min = 1) =>
  whole('count', value, min, max, description);
const text = (description: string, secret = false) =>
  z
    .string()
    .min(1)
    .max(4096)
    .optional()
    .meta({ description, unit: 'text', ...(secret ? { secret } : {}) });
const list = (description: string) =>
  z.array(z.string().min(1)).max(1000).default([]).meta({ description, unit: 'list' });
const passed = (description: string) =>
  z.record(z.string(), z.unknown()).default({}).meta({ description, unit: 'object', secret: true });
const yes = (value: boolean, description: string) => z.boolean().default(value).meta({ description, unit: 'boolean' });
const word = <const T extends readonly [string, ...string[]]>(words: T, value: T[number], description: string) =>
  z
    .enum(words)
    .default(value as never)
    .meta({ description, unit: 'word' });
const group = <T extends z.core.$ZodLooseShape>(description: string, shape: T) =>
  z
    .strictObject(shape)
    .prefault({} as never)
    .meta({ description });

const session = group('Sessions: how long an agent may be silent.', {
  ttlMs: timer(15_000, 'Time to live of a session that asks for none.'),
  ttlMinMs: timer(1_000, 'Shortest time to live a session may ask for.'),
  ttlMaxMs: timer(600_000, 'Longest time to live a session may ask for.'),
  graceMs: timer(5_000, 'How long the work of a session whose socket broke waits for it to resume.'),
  receiptMs: timer(5_000, 'How long a pushed task may stay without a sign that it was received.'),
});

const gateway = group('The WebSocket and HTTP side.', {
  port: whole('port', 7171, 0, 65_535, 'TCP port for WebSocket and HTTP; 0 takes a free one.'),
  host: z
    .string()
    .min(1)
    .max(255)
    .default('127.0.0.1')
    .meta({ description: 'Address to listen on; anything but loopback needs gateway.token.', unit: 'text' }),
  token: text('Token every client has to present; without it no client is asked for one.', true),
  authMs: timer(5_000, 'How long a connection may stay without credentials where they are required.'),
  pingMs: timer(0, 'Interval of socket pings; 0 takes the smaller of 25 s and a third of the time to live.', 0),
  heartbeatMs: timer(25_000, 'Silence on a subscribed connection after which a heartbeat line is sent.'),
  stallMs: timer(30_000, 'How long a socket with bytes pending may drain none before it is closed (4508).'),
  positionEvery: count(256, 'Unmatched log entries after which a tail is told its position.'),
  outboxBytes: bytes(2 * MiB, 'Most bytes waiting in memory for one socket.'),
  lineBytes: bytes(MiB, 'Most bytes of a line and of a message, both ways.', KiB, 64 * MiB),
  connectionsMax: count(10_000, 'Most connections at once.', 1_000_000),
  connectionsPerAddressMax: count(100, 'Most connections from one address; loopback is exempt.', 1_000_000),
  drainMs: timer(5_000, 'Window over which a stopping daemon spreads the closing of its connections.', 0),
  allowedOrigins: list('Origins a browser may connect from, exact; a client that sends none is always allowed.'),
  allowedHosts: list('Host names clients may address beside loopback and gateway.host; * is any.'),
});

const sweep = group('Work by the clock.', {
  everyMs: timer(1_000, 'Interval of the sweeps that promote, expire and collect.'),
});

const log = group('The event log of a namespace; whichever bound is reached first trims it.', {
  eventsMax: count(1_000_000, 'Most events kept.'),
  ageMaxMs: age(dayMs, 'Longest time an event is kept.'),
  bytesMax: bytes(256 * MiB, 'Most bytes of events kept.', 1, 1024 * 1024 * MiB),
  readBlockMs: timer(2_000, 'Longest wait of one blocking read of the log.'),
  publishWindowMs: age(600_000, 'How long source and id of a published event are remembered against repeats.'),
  publishedBytes: bytes(64 * KiB, 'Most bytes of the data of a published event.'),
});

const queue = group('Queues.', {
  payloadBytes: bytes(256 * KiB, 'Most bytes of the payload of a task.'),
  resultBytes: bytes(256 * KiB, 'Most bytes of the result of a task.'),
  progressBytes: bytes(16 * KiB, 'Most bytes each of progress, error, saved state and metadata of a task.'),
  completedAgeMs: age(3_600_000, 'How long completed and cancelled tasks are kept.'),
  completedCount: count(10_000, 'Most completed and cancelled tasks kept a queue.', 10_000_000, 0),
  deadAgeMs: age(7 * dayMs, 'How long the dead letter is kept.'),
  deadCount: count(10_000, 'Most tasks kept in the dead letter of a queue.', 10_000_000, 0),
  refundsMax: count(10, 'Most refunded attempts of a task; further ones are charged.', 1_000_000, 0),
  kindsMax: count(64, 'Most kinds in use in a queue.', 64),
  cancelGraceMs: timer(5_000, 'Time an active task gets to end after a cancel or its deadline.', 0),
});

const lock = group('Locks.', {
  waitersMax: count(10_000, 'Most requests that wait for one lock; further ones are HELD at once.', 1_000_000),
});

const limit = group('Limits.', {
  waitersMax: count(10_000, 'Most reservations that wait for one limit; further ones are refused.', 1_000_000),
  rampMs: timer(60_000, 'Longest time at half the rate after a pause; another such time to the whole of it.'),
  adaptEveryMs: timer(1_000, 'Shortest time between two changes of an adaptive limit.'),
  adaptSamples: count(10, 'Fewest reports that an adaptive limit is changed by.', 1_000_000),
});

const managed = group('The Redis the daemon starts itself when none is configured.', {
  binary: text('Program to start instead of redis-server or valkey-server found in PATH.'),
  memoryBytes: bytes(0, 'Its maxmemory; 0 takes the smaller of 1 GiB and a quarter of the RAM.', 0, 1024 * 1024 * MiB),
  appendFsync: word(['everysec', 'always'], 'everysec', 'When its append-only file is forced to disk.'),
  startMs: timer(120_000, 'How long it may take to start, loading its file included.'),
  stopMs: timer(10_000, 'How long it may take to stop before it is killed.'),
  restartMaxMs: timer(5_000, 'Longest pause between attempts to start it again after it died.'),
});

const redis = group('The Redis behind the daemon.', {
  url: text('URL of the Redis to use (redis://, rediss:// or unix://); without one a managed Redis is started.', true),
  options: passed('Further options of ioredis, for Sentinel: sentinels, name, sentinelPassword and so on.'),
  clusterNodes: list('Addresses host:port of some nodes of a Redis Cluster; not empty means Cluster.'),
  clusterOptions: passed('Further options of the Cluster client of ioredis.'),
  commandTimeoutMs: timer(2_000, 'How long a command may stay without a reply.'),
  allowEviction: yes(false, 'Go on, with a warning, on a Redis whose maxmemory-policy may evict keys.'),
  managed,
});

const ops = group('Operation.', {
  logLevel: word(
    ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'],
    'info',
    'Least important level that is logged.',
  ),
});

// A loopback address needs no token: whoever can connect to it could as well attach to the daemon's process.
const loopback = /^(localhost|127(\.\d{1,3}){3}|::1|\[::1\])$/;
// Ids, names, state and twenty rows of history around the values of a task.
const taskOverheadBytes = 40 * KiB;

export const configSchema = z
  .strictObject({
    session,
    gateway,
    sweep,
    log,
    queue,
    lock,
    limit,
    redis,
    namespacesMax: count(64, 'Most namespaces in use.', 10_000),
    stateDir: text(
      'Directory for the managed Redis; else $STATE_DIRECTORY (systemd), $XDG_STATE_HOME/signalbox or ~/.local/state/signalbox.',
    ),
    ephemeral: yes(false, 'Keep nothing: the managed Redis writes no file and ends with the daemon.'),
    ops,
  })
  .superRefine((config, context) => {
    const refuse = (path: string, message: string) =>
      context.addIssue({ code: 'custom', path: path.split('.'), message });
    const { session, gateway, queue, log } = config;
    if (session.ttlMs < session.ttlMinMs || session.ttlMs > session.ttlMaxMs)
      refuse('session.ttlMs', `from session.ttlMinMs (${session.ttlMinMs}) to session.ttlMaxMs (${session.ttlMaxMs})`);
    if (!loopback.test(gateway.host) && gateway.token === undefined)
      refuse('gateway.token', `a token, because gateway.host ${gateway.host} is not loopback`);
    if (gateway.outboxBytes < gateway.lineBytes)
      refuse('gateway.outboxBytes', `at least gateway.lineBytes (${gateway.lineBytes}), so that any line can be sent`);
    const taskBytes = queue.payloadBytes + queue.resultBytes + 4 * queue.progressBytes + taskOverheadBytes;
    if (taskBytes > gateway.lineBytes)
      refuse('gateway.lineBytes', `at least ${taskBytes}, so that a task within the bounds of queue.* fits a line`);
    if (log.publishedBytes + 4 * KiB > gateway.lineBytes)
      refuse('log.publishedBytes', `at most gateway.lineBytes (${gateway.lineBytes}) less 4096`);
    if (config.ephemeral && !usesManagedRedis(config))
      refuse('ephemeral', 'false, because the configured Redis is not ours to empty');
  });

type Parsed = z.output<typeof configSchema>;
export type Config = DeepReadonly<Omit<Parsed, 'stateDir'>> & { readonly stateDir: string };

/** Names that stand beside the path of a setting: in the environment and as flags of the command line. */
const aliases: Record<string, { env?: string; flag?: string }> = {
  'gateway.port': { env: 'SIGNALBOX_PORT', flag: 'port' },
  'gateway.host': { env: 'SIGNALBOX_HOST', flag: 'host' },
  'gateway.token': { env: 'SIGNALBOX_TOKEN' },
  'redis.url': { env: 'REDIS_URL', flag: 'redisUrl' },
  stateDir: { flag: 'stateDir' },
  ephemeral: { flag: 'ephemeral' },
};

// Names of ours that are no settings: the file to read, and where the CLI finds a daemon.
const otherEnv = ['SIGNALBOX_CONFIG', 'SIGNALBOX_URL'];

const jsonSchema = () => z.toJSONSchema(configSchema, { io: 'input' }) as Record<string, unknown>;

export interface ConfigSources {
  /** A JSON file; else the one $SIGNALBOX_CONFIG names; else none. */
  file?: string | undefined;
  env?: NodeJS.ProcessEnv;
  /** By flag (`port`, `stateDir`) or by path (`session.ttlMs`); undefined values count as not given. */
  flags?: Record<string, unknown>;
}

/** Defaults < file < environment < flags. Throws a ConfigError that names every wrong setting. */
export function loadConfig({ file, env = {}, flags = {} }: ConfigSources = {}): Config {
  const { value, sources } = resolve({ schema: jsonSchema(), prefix: 'SIGNALBOX_', aliases, otherEnv }, [
    { kind: 'file', file: file ?? env.SIGNALBOX_CONFIG },
    { kind: 'env', env },
    { kind: 'flags', flags },
  ] satisfies Source[]);
  const parsed = configSchema.safeParse(value);
  if (!parsed.success) throw ConfigError.of(parsed.error.issues, describeConfig(), sources);
  const stateDir =
    parsed.data.stateDir ??
    (parsed.data.ephemeral ? join(tmpdir(), `signalbox-${process.pid}-${newId()}`) : defaultStateDir(env));
  return deepFreeze({ ...parsed.data, stateDir }) as Config;
}

/** True when no other Redis is configured, so that the daemon starts its own. */
export function usesManagedRedis({ redis }: { readonly redis: Config['redis'] }): boolean {
  const { url, clusterNodes, options } = redis;
  return url === undefined && clusterNodes.length === 0 && !['sentinels', 'host', 'path'].some((key) => key in options);
}

/** One row a setting, in the order of the schema, for docs and `--help`. */
export function describeConfig(): SettingRow[] {
  return describe({ schema: jsonSchema(), prefix: 'SIGNALBOX_', aliases });
}

/** The text of config/schema.json. Editors check config files against it, so `$schema` itself has to be allowed. */
export function configJsonSchema(): string {
  const schema = jsonSchema();
  const properties = { $schema: { type: 'string' }, ...(schema.properties as object) };
  return `${JSON.stringify({ ...schema, title: 'Signalbox configuration', properties }, null, 2)}\n`;
}

/** The text of config/default.json. */
export function configDefaults(): string {
  return `${JSON.stringify({ $schema: './schema.json', ...configSchema.parse({}) }, null, 2)}\n`;
}

/** Where state is kept when no setting says so: what systemd prepared, else the XDG place of the user. */
function defaultStateDir(env: NodeJS.ProcessEnv): string {
  const [prepared] = (env.STATE_DIRECTORY ?? '').split(':');
  return prepared || join(env.XDG_STATE_HOME || join(env.HOME || homedir(), '.local', 'state'), 'signalbox');
}

export { ConfigError };
