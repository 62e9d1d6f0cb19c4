import { spawn } from 'node:child_process';
import { accessSync, constants } from 'node:fs';
import { constants as os } from 'node:os';
import { delimiter, join } from 'node:path';
import type { Command } from 'commander';
import { usesManagedRedis } from '../config.js';
import { findManagedRedis } from '../redis/managed-record.js';
import { withoutPassword } from './banner.js';
import { CliError, type Outcome, wrongUsage } from './exit.js';
import { configured, type SettingFlags, settingsFrom } from './settings.js';

export function redisCliCommand(program: Command, outcome: Outcome): void {
  configured(program.command('redis-cli'))
    .description('run redis-cli (or valkey-cli) on the Redis of the daemon: signalbox redis-cli -- PUBLISH …')
    .argument('[args...]', 'for redis-cli, behind --')
    .passThroughOptions()
    .action(async (args: string[], flags: SettingFlags) => {
      const { connection, env } = target(flags);
      outcome.code = await become(findClient(), [...connection, ...args], env);
    });
}

interface Target {
  readonly connection: readonly string[];
  readonly env: NodeJS.ProcessEnv;
}

function target(flags: SettingFlags): Target {
  const config = settingsFrom(flags);
  const { redis, stateDir } = config;
  if (usesManagedRedis(config)) {
    const found = findManagedRedis(stateDir);
    if (found) return { connection: ['-s', found.path], env: {} };
    throw new CliError(`no managed Redis runs on ${stateDir}`, {
      advice: 'start the daemon with `signalbox up`, or say by --state-dir or $SIGNALBOX_STATE_DIR where its state is',
    });
  }
  const [node] = redis.clusterNodes;
  if (node !== undefined) {
    const colon = node.lastIndexOf(':');
    return { connection: ['-c', '-h', node.slice(0, colon), '-p', node.slice(colon + 1)], env: {} };
  }
  if (redis.url !== undefined) return ofUrl(redis.url);
  throw new CliError('redis.options names a Redis that redis-cli cannot be led to', {
    advice: 'call redis-cli yourself, with the address Sentinel gives',
  });
}

/** In pieces, because `redis-cli -u` would show the password to everyone who lists processes. */
function ofUrl(text: string): Target {
  const { unix, secure, user, password, host, port, db } = partsOf(text);
  const env = password === '' ? {} : { REDISCLI_AUTH: password };
  const where = unix ? ['-s', unix] : ['-h', host, '-p', port || '6379', ...(secure ? ['--tls'] : [])];
  const as = user === '' ? [] : ['--user', user];
  return { connection: [...where, ...as, ...(db === '' || db === '0' ? [] : ['-n', db])], env };
}

function partsOf(text: string) {
  // A user without a host is no URL to the parser, but what people write for a socket.
  const [, names = '', path] = /^(?:unix:\/\/([^/]*@)?)?(\/.*)$/.exec(text) ?? [];
  let url: URL;
  try {
    url = new URL(path === undefined ? text : `redis://${names}socket${path}`);
  } catch {
    throw wrongUsage(
      `${withoutPassword(text)} is no URL of a Redis`,
      'write it like redis://host:6379 or unix:///path',
    );
  }
  const [user, password] = [decodeURIComponent(url.username), decodeURIComponent(url.password)];
  const unix = path === undefined ? undefined : decodeURIComponent(url.pathname);
  const host = url.hostname.replace(/^\[|\]$/g, '');
  const db = (unix ? url.searchParams.get('db') : url.pathname.slice(1)) ?? '';
  return { unix, secure: url.protocol === 'rediss:', user, password, host, port: url.port, db };
}

/** The usual places too: the PATH of a service is short. */
function findClient(): string {
  const dirs = [...(process.env.PATH ?? '').split(delimiter), '/usr/local/bin', '/usr/bin', '/opt/homebrew/bin'];
  for (const name of ['redis-cli', 'valkey-cli']) {
    for (const dir of dirs.filter((dir) => dir !== '')) {
      try {
        accessSync(join(dir, name), constants.X_OK);
        return join(dir, name);
      } catch {
        // The next one.
      }
    }
  }
  throw new CliError('neither redis-cli nor valkey-cli is in the PATH', {
    advice: 'type: apt-get install redis-tools',
  });
}

/** With our terminal, and our signals: Ctrl-C belongs to the client, which knows what to do with it. */
function become(file: string, args: readonly string[], env: NodeJS.ProcessEnv): Promise<number> {
  return new Promise((resolve, reject) => {
    const child = spawn(file, args, { stdio: 'inherit', env: { ...process.env, ...env } });
    const leave = (): void => {};
    const pass = (signal: NodeJS.Signals): void => void child.kill(signal);
    process.on('SIGINT', leave);
    process.on('SIGTERM', pass);
    child.once('error', reject);
    child.once('exit', (code, signal) => {
      process.off('SIGINT', leave);
      process.off('SIGTERM', pass);
      resolve(code ?? 128 + (signal ? os.signals[signal] : 0));
    });
  });
}
