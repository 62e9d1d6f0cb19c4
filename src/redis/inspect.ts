import { Cluster, type Redis } from 'ioredis';
import { checkVersion } from './server-binary.js';

/**
 * Whether a Redis can carry Signalbox, and how well. `error` means that the daemon must not start on it, `warn` that
 * it works with less than it could promise. `signalbox doctor` prints the same list on a live system.
 */
export interface Finding {
  readonly id: 'version' | 'role' | 'eviction' | 'persistence' | 'memory' | 'latency';
  readonly level: 'ok' | 'warn' | 'error';
  readonly message: string;
  /** What to do about it; empty when there is nothing to do. */
  readonly advice: string;
}

/** What the findings are made of, so that a server nobody has here can be judged in a test. */
export interface RedisFacts {
  /** Fields of INFO. */
  readonly info: Readonly<Record<string, string>>;
  /** Absent where the server forbids CONFIG, as hosted ones do. */
  readonly appendFsync?: string;
  readonly latencyMs: number;
}

export async function inspectRedis(
  client: Redis | Cluster,
  { allowEviction }: { allowEviction: boolean },
): Promise<Finding[]> {
  const nodes = client instanceof Cluster ? client.nodes('master') : [client];
  const all = await Promise.all(nodes.map(async (node) => judge(await readFacts(node), { allowEviction })));
  if (nodes.length === 1) return all.flat();
  return all.flatMap((findings, index) => {
    const { host, port } = nodes[index]?.options ?? {};
    return findings.map((finding) => ({ ...finding, message: `${host}:${port}: ${finding.message}` }));
  });
}

async function readFacts(node: Redis): Promise<RedisFacts> {
  const text = await node.info();
  const info = Object.fromEntries(
    text.split(/\r?\n/).flatMap((line) => {
      const colon = line.indexOf(':');
      return colon > 0 && !line.startsWith('#') ? [[line.slice(0, colon), line.slice(colon + 1)] as const] : [];
    }),
  );
  const config = (await node.config('GET', 'appendfsync').catch(() => [])) as string[];
  const latencies: number[] = [];
  for (let i = 0; i < 5; i++) {
    const sentAt = performance.now();
    await node.ping();
    latencies.push(performance.now() - sentAt);
  }
  latencies.sort((a, b) => a - b);
  return { info, latencyMs: latencies[2] ?? 0, ...(config[1] === undefined ? {} : { appendFsync: config[1] }) };
}

/** One finding each, in a fixed order. */
export function judge(facts: RedisFacts, { allowEviction }: { allowEviction: boolean }): Finding[] {
  return [
    version(facts),
    role(facts),
    eviction(facts, allowEviction),
    persistence(facts),
    memory(facts),
    latency(facts),
  ];
}

function version({ info }: RedisFacts): Finding {
  const [product, number] =
    info.valkey_version === undefined
      ? (['Redis', info.redis_version ?? '0.0.0'] as const)
      : (['Valkey', info.valkey_version] as const);
  try {
    checkVersion(product, number);
    return { id: 'version', level: 'ok', message: `${product} ${number}`, advice: '' };
  } catch (error) {
    return { id: 'version', level: 'error', message: (error as Error).message, advice: 'Upgrade the server.' };
  }
}

function role({ info }: RedisFacts): Finding {
  if (info.role === undefined || info.role === 'master')
    return { id: 'role', level: 'ok', message: `primary with ${info.connected_slaves ?? 0} replicas`, advice: '' };
  return {
    id: 'role',
    level: 'error',
    message: 'this is a replica, which takes no writes',
    advice: `Connect to the primary (${info.master_host ?? '?'}:${info.master_port ?? '?'}), or through Sentinel.`,
  };
}

function eviction({ info }: RedisFacts, allowed: boolean): Finding {
  const policy = info.maxmemory_policy ?? 'unknown';
  if (policy === 'noeviction')
    return { id: 'eviction', level: 'ok', message: 'maxmemory-policy noeviction', advice: '' };
  return {
    id: 'eviction',
    level: allowed ? 'warn' : 'error',
    message: `maxmemory-policy is ${policy}: under memory pressure Redis would silently delete tasks, locks and events`,
    advice: allowed
      ? 'Data can be lost at any time. Set maxmemory-policy noeviction and take redis.allowEviction away.'
      : 'Set it: CONFIG SET maxmemory-policy noeviction (or redis.allowEviction, to lose data knowingly).',
  };
}

function persistence({ info, appendFsync }: RedisFacts): Finding {
  const id = 'persistence';
  if (info.aof_enabled !== '1') {
    const message = `no append-only file: a crash of Redis loses everything since the last snapshot (${snapshotAge(info)})`;
    return { id, level: 'warn', message, advice: 'Set appendonly yes and appendfsync everysec.' };
  }
  if (info.aof_last_write_status !== 'ok' || info.aof_last_bgrewrite_status !== 'ok') {
    const message = 'Redis could not write its append-only file';
    return {
      id,
      level: 'warn',
      message,
      advice: 'Look at the free space and the rights of its directory, and at its log.',
    };
  }
  if (appendFsync === 'no') {
    const message = 'append-only file that is never forced to disk: a crash of the machine may lose half a minute';
    return { id, level: 'warn', message, advice: 'Set appendfsync everysec, or always.' };
  }
  return { id, level: 'ok', message: `append-only file, appendfsync ${appendFsync ?? 'unknown'}`, advice: '' };
}

function snapshotAge(info: RedisFacts['info']): string {
  const savedAt = Number(info.rdb_last_save_time ?? 0);
  return savedAt === 0 ? 'never made' : `made ${new Date(savedAt * 1000).toISOString()}`;
}

function memory({ info }: RedisFacts): Finding {
  const used = Number(info.used_memory ?? 0);
  const max = Number(info.maxmemory ?? 0);
  const mib = (bytes: number) => `${Math.round(bytes / 1024 ** 2)} MiB`;
  if (max === 0) {
    const message = `${mib(used)} in use, without maxmemory: the kernel would end a Redis that takes too much`;
    return { id: 'memory', level: 'warn', message, advice: 'Set maxmemory to what the machine can spare.' };
  }
  const percent = Math.round((100 * used) / max);
  const message = `${mib(used)} of ${mib(max)} in use (${percent} %)`;
  if (percent < 80) return { id: 'memory', level: 'ok', message, advice: '' };
  const advice =
    'At its end new tasks are refused while running ones finish. Raise maxmemory, or lower log.bytesMax and queue.completedCount.';
  return { id: 'memory', level: 'warn', message, advice };
}

function latency({ latencyMs }: RedisFacts): Finding {
  const message = `${latencyMs.toFixed(2)} ms for a PING`;
  if (latencyMs < 10) return { id: 'latency', level: 'ok', message, advice: '' };
  const advice =
    'Every operation waits at least as long: bring daemon and Redis closer, or look for slow commands (SLOWLOG GET).';
  return { id: 'latency', level: 'warn', message, advice };
}
