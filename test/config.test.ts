import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, describe, expect, test } from 'vitest';
import {
  type Config,
  ConfigError,
  configDefaults,
  configJsonSchema,
  configSchema,
  describeConfig,
  loadConfig,
  usesManagedRedis,
} from '../src/config.js';

const dir = mkdtempSync(join(tmpdir(), 'sb-config-'));
afterAll(() => rmSync(dir, { recursive: true, force: true }));

function file(content: unknown): string {
  const path = join(dir, 'config.json');
  writeFileSync(path, typeof content === 'string' ? content : JSON.stringify(content));
  return path;
}

function failure(load: () => unknown): ConfigError {
  try {
    load();
  } catch (error) {
    if (error instanceof ConfigError) return error;
    throw error;
  }
  throw new Error('expected a ConfigError');
}

function at(config: Config, path: string): unknown {
  return path.split('.').reduce((value, key) => (value as Record<string, unknown>)[key], config as unknown);
}

describe('where a setting comes from', () => {
  test('defaults < file < environment < flags', () => {
    const inFile = file({ gateway: { port: 1001 }, session: { ttlMs: 2001, graceMs: 2002 } });
    const env = { SIGNALBOX_SESSION_TTL_MS: '3001', SIGNALBOX_PORT: '3002' };
    const config = loadConfig({ file: inFile, env, flags: { port: '4001' } });
    expect(config.gateway.port).toBe(4001);
    expect(config.session.ttlMs).toBe(3001);
    expect(config.session.graceMs).toBe(2002);
    expect(config.session.receiptMs).toBe(5000);
  });

  test('every setting has a name in the environment: its path in capitals, underscores at dots and humps', () => {
    const rows = describeConfig();
    expect(rows.find(({ path }) => path === 'session.ttlMs')?.env).toBe('SIGNALBOX_SESSION_TTL_MS');
    expect(rows.find(({ path }) => path === 'gateway.connectionsPerAddressMax')?.env).toBe(
      'SIGNALBOX_GATEWAY_CONNECTIONS_PER_ADDRESS_MAX',
    );
    expect(new Set(rows.map(({ env }) => env)).size).toBe(rows.length);
    const samples: Record<string, string> = { boolean: 'true', list: 'a, b', object: '{"a":1}', text: 'localhost' };
    for (const { path, env, default: preset, unit, expected } of rows) {
      const value = samples[unit] ?? (unit === 'word' ? expected.split(' ').at(-1)! : String(preset));
      const config = loadConfig({ env: { [env]: value } });
      expect(JSON.stringify(at(config, path)).replaceAll('"', '')).toBe(
        unit === 'list' ? '[a,b]' : unit === 'object' ? '{a:1}' : value,
      );
    }
  });

  test('the short names', () => {
    const config = loadConfig({
      env: {
        SIGNALBOX_PORT: '1',
        SIGNALBOX_HOST: '::1',
        SIGNALBOX_TOKEN: 'secret',
        SIGNALBOX_STATE_DIR: '/s',
        REDIS_URL: 'redis://r',
      },
    });
    expect(config.gateway).toMatchObject({ port: 1, host: '::1', token: 'secret' });
    expect(config).toMatchObject({ stateDir: '/s', redis: { url: 'redis://r' } });
    expect(loadConfig({ flags: { host: 'localhost', stateDir: '/t', ephemeral: true } })).toMatchObject({
      gateway: { host: 'localhost' },
      stateDir: '/t',
      ephemeral: true,
    });
  });

  test('a file may be named by the environment, and an empty variable is not set', () => {
    const env = { SIGNALBOX_CONFIG: file({ gateway: { port: 5 } }), SIGNALBOX_HOST: '' };
    expect(loadConfig({ env }).gateway).toMatchObject({ port: 5, host: '127.0.0.1' });
  });

  test('the state directory: systemd, XDG, home; a new one for each ephemeral daemon', () => {
    expect(loadConfig({ env: { STATE_DIRECTORY: '/var/lib/signalbox', HOME: '/h' } }).stateDir).toBe(
      '/var/lib/signalbox',
    );
    expect(loadConfig({ env: { XDG_STATE_HOME: '/x', HOME: '/h' } }).stateDir).toBe('/x/signalbox');
    expect(loadConfig({ env: { HOME: '/h' } }).stateDir).toBe('/h/.local/state/signalbox');
    const ephemeral = () => loadConfig({ env: { HOME: '/h' }, flags: { ephemeral: true } }).stateDir;
    expect(ephemeral()).toContain(tmpdir());
    expect(ephemeral()).not.toBe(ephemeral());
  });

  test('the result cannot be changed', () => {
    const config = loadConfig();
    expect(() => Object.assign(config.session, { ttlMs: 1 })).toThrow(TypeError);
    expect(() => (config.gateway.allowedHosts as string[]).push('x')).toThrow(TypeError);
  });
});

describe('a wrong setting ends the start', () => {
  test.each([
    [
      { flags: { port: 'http' } },
      'gateway.port is "http" (from the command line): expected a whole number from 0 to 65535',
    ],
    [{ env: { SIGNALBOX_PORT: '65536' } }, 'gateway.port is 65536 (from SIGNALBOX_PORT): expected a whole number'],
    [{ env: { SIGNALBOX_PORT: '1e3' } }, 'gateway.port is "1e3" (from SIGNALBOX_PORT)'],
    [{ env: { SIGNALBOX_EPHEMERAL: 'yes' } }, 'ephemeral is "yes" (from SIGNALBOX_EPHEMERAL): expected true or false'],
    [
      { env: { SIGNALBOX_OPS_LOG_LEVEL: 'loud' } },
      'ops.logLevel is "loud" (from SIGNALBOX_OPS_LOG_LEVEL): expected one of trace, ',
    ],
    [{ env: { SIGNALBOX_REDIS_OPTIONS: '{' } }, 'redis.options (from SIGNALBOX_REDIS_OPTIONS): expected an object'],
    [{ env: { SIGNALBOX_GATEWAY_ALLOWED_HOSTS: 'a,,b' } }, 'gateway.allowedHosts is ["a","","b"]'],
    [
      { flags: { 'session.ttlMs': 1.5 } },
      'session.ttlMs is 1.5 (from the command line): expected a whole number from 1 to 86400000 (ms)',
    ],
    [{ flags: { 'session.graceMs': null } }, 'session.graceMs is null'],
    [{ flags: { 'sweep.everyMs': 0 } }, 'sweep.everyMs is 0'],
    [{ flags: { 'log.ageMaxMs': 367 * 86_400_000 } }, 'log.ageMaxMs is 31708800000'],
  ])('%j', (sources, message) => {
    expect(failure(() => loadConfig(sources)).message).toContain(message);
  });

  test.each([
    [
      { flags: { 'session.ttlMs': 600 } },
      'session.ttlMs is 600 (from the command line): expected from session.ttlMinMs (1000)',
    ],
    [
      { flags: { 'session.ttlMaxMs': 2000 } },
      'session.ttlMs is 15000 (from the default): expected from session.ttlMinMs',
    ],
    [{ flags: { host: '0.0.0.0' } }, 'gateway.token: expected a token, because gateway.host 0.0.0.0 is not loopback'],
    [{ flags: { host: '127.0.0.1.evil.example' } }, 'is not loopback'],
    [
      { flags: { 'queue.payloadBytes': 1048576 } },
      'gateway.lineBytes is 1048576 (from the default): expected at least',
    ],
    [{ flags: { 'gateway.outboxBytes': 1000 } }, 'gateway.outboxBytes is 1000'],
    [
      { flags: { ephemeral: true, redisUrl: 'redis://r' } },
      'ephemeral is true (from the command line): expected false',
    ],
  ])('settings that contradict each other: %j', (sources, message) => {
    expect(failure(() => loadConfig(sources)).message).toContain(message);
  });

  test('unknown names, everywhere, with the one that was probably meant', () => {
    expect(failure(() => loadConfig({ file: file({ session: { ttlMS: 1 } }) })).message).toMatch(
      /^session\.ttlMS \(from .*config\.json\): expected a known setting, such as session\.ttlMs$/,
    );
    expect(failure(() => loadConfig({ file: file({ sessions: {} }) })).message).toContain('sessions (from ');
    expect(failure(() => loadConfig({ file: file('{"__proto__":{"ephemeral":true}}') })).message).toContain(
      '__proto__',
    );
    expect(failure(() => loadConfig({ env: { SIGNALBOX_PROT: '1' } })).message).toContain('such as SIGNALBOX_PORT');
    expect(failure(() => loadConfig({ flags: { 'gateway.prt': 1 } })).message).toContain('gateway.prt');
    expect(loadConfig({ env: { SIGNALBOX_URL: 'ws://elsewhere' } }).gateway.port).toBe(7171);
  });

  test('a file that is missing, is not JSON or has another shape', () => {
    expect(failure(() => loadConfig({ file: join(dir, 'absent.json') })).message).toContain(
      'absent.json: expected a readable JSON',
    );
    expect(failure(() => loadConfig({ file: file('{') })).message).toContain('a readable JSON file');
    expect(failure(() => loadConfig({ file: file([]) })).message).toContain('an object of settings');
    expect(failure(() => loadConfig({ file: file({ session: 5 }) })).message).toContain('session (from ');
  });

  test('all wrong settings are reported at once', () => {
    const error = failure(() => loadConfig({ file: file({ session: { ttlMs: 'x' }, gateway: { port: -1 } }) }));
    expect(error.problems.map(({ path }) => path)).toEqual(['session.ttlMs', 'gateway.port']);
    expect(error.message.split('\n')).toHaveLength(2);
  });

  test('two names of one setting with different values', () => {
    const env = { SIGNALBOX_PORT: '1', SIGNALBOX_GATEWAY_PORT: '2' };
    expect(failure(() => loadConfig({ env })).message).toContain('SIGNALBOX_GATEWAY_PORT and SIGNALBOX_PORT');
    expect(loadConfig({ env: { SIGNALBOX_PORT: '2', SIGNALBOX_GATEWAY_PORT: '2' } }).gateway.port).toBe(2);
  });

  test('secrets are never printed, not even under a misspelt name', () => {
    for (const sources of [
      { flags: { 'gateway.token': ['hunter2'] } },
      { env: { SIGNALBOX_TOKEM: 'hunter2' } },
      { file: file({ gateway: { tokem: 'hunter2' } }) },
      { env: { SIGNALBOX_REDIS_OPTIONS: '{"password":"hunter2"' } },
      { flags: { 'redis.url': 'x'.repeat(5000) + 'hunter2' } },
      { env: { SIGNALBOX_TOKEN: 'hunter2', SIGNALBOX_GATEWAY_TOKEN: 'other' } },
      { file: file({ redis: { options: 'hunter2' } }) },
    ]) {
      expect(failure(() => loadConfig(sources)).message).not.toContain('hunter2');
    }
  });
});

describe('the files in config/', () => {
  const read = (name: string) => readFileSync(new URL(`../config/${name}`, import.meta.url), 'utf8');

  test('default.json holds the defaults of the schema, schema.json the schema (npm run generate)', () => {
    expect(JSON.parse(read('default.json'))).toEqual(JSON.parse(configDefaults()));
    expect(read('schema.json')).toBe(configJsonSchema());
  });

  test.each(readdirSync(new URL('../config', import.meta.url)).filter((name) => name !== 'schema.json'))(
    '%s is accepted',
    (name) => {
      const path = fileURLToPath(new URL(`../config/${name}`, import.meta.url));
      expect(() => loadConfig({ file: path, env: { SIGNALBOX_TOKEN: 't' } })).not.toThrow();
    },
  );
});

test('every setting has a default or is optional, a unit and one sentence', () => {
  for (const row of describeConfig()) {
    expect(row.sentence, row.path).toMatch(/^[A-Z$].{8,160}\.$/);
    expect(row.unit, row.path).not.toBe('');
  }
  expect(configSchema.parse({})).toMatchObject({ session: { ttlMs: 15_000 }, namespacesMax: 64 });
});

test('the managed Redis is used unless another one is configured', () => {
  expect(usesManagedRedis(loadConfig())).toBe(true);
  expect(usesManagedRedis(loadConfig({ env: { REDIS_URL: 'redis://r' } }))).toBe(false);
  expect(usesManagedRedis(loadConfig({ flags: { 'redis.clusterNodes': 'a:1,b:2' } }))).toBe(false);
  expect(usesManagedRedis(loadConfig({ flags: { 'redis.options': { sentinels: [] } } }))).toBe(false);
});
