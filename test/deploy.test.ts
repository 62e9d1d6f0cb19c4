import { execFile, execFileSync, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';
import { loadConfig } from '../src/config.js';
import { readYaml } from './support/yaml.js';

// No container engine runs these files here: what can be read off them is checked.
const path = (name: string) => fileURLToPath(new URL(`../${name}`, import.meta.url));
const read = (name: string) => readFileSync(path(name), 'utf8');
const { scripts } = JSON.parse(read('package.json')) as { scripts: Record<string, string> };

describe('Dockerfile', () => {
  const lines = read('Dockerfile')
    .replace(/\\\n/g, ' ')
    .split('\n')
    .filter((line) => /^[A-Z]+ /.test(line));
  const last = lines.slice(lines.findLastIndex((line) => line.startsWith('FROM ')));
  const inLast = (word: string) => last.filter((line) => line.startsWith(`${word} `));

  test('is multi-stage; every stage that is copied from exists, and the last one takes only what runs', () => {
    const stages = lines.flatMap((line) => /^FROM \S+ AS (\S+)/.exec(line)?.[1] ?? []);
    const copied = lines.flatMap((line) => /^COPY --from=(\S+)/.exec(line)?.[1] ?? []);
    expect(stages.length).toBeGreaterThan(0);
    for (const stage of copied) expect(stages).toContain(stage);
    expect(last.join('\n')).not.toMatch(/COPY (src|streams|test)|npm ci/);
  });

  test('everything copied exists and is let through by .dockerignore', () => {
    const allowed = read('.dockerignore')
      .split('\n')
      .flatMap((line) => (line.startsWith('!') ? [line.slice(1)] : []));
    expect(read('.dockerignore').split('\n')).toContain('*');
    for (const line of lines.filter((line) => /^COPY (?!--from)/.test(line))) {
      for (const source of line.split(/\s+/).slice(1, -1)) {
        expect(existsSync(path(source)), source).toBe(true);
        expect(allowed, source).toContain(source);
      }
    }
  });

  test('npm scripts and files it names exist', () => {
    for (const [, script] of read('Dockerfile').matchAll(/npm run (\w+)/g)) expect(scripts).toHaveProperty(script!);
    for (const [, file] of read('Dockerfile').matchAll(/"((?:bin|config)\/[^"]+)"/g))
      expect(existsSync(path(file!)), file).toBe(true);
  });

  test('runs as nobody special, stops by SIGTERM, and says how it is', () => {
    expect(inLast('USER')).toEqual(['USER node']);
    expect(inLast('STOPSIGNAL')).toEqual(['STOPSIGNAL SIGTERM']);
    const [health] = inLast('HEALTHCHECK');
    for (const option of ['--interval=30s', '--retries=3', '--start-period=']) expect(health).toContain(option);
    // As a list: with a shell in between the signal would not arrive.
    for (const word of ['ENTRYPOINT', 'CMD']) expect(inLast(word)[0]).toMatch(/^\w+ \["/);
  });

  test('its environment is a configuration, once a token is given', () => {
    const env = Object.fromEntries(
      inLast('ENV').flatMap((line) => [...line.matchAll(/(\w+)=(\S+)/g)].map(([, k, v]) => [k, v])),
    );
    expect(() => loadConfig({ env })).toThrow('gateway.token: expected a token');
    const config = loadConfig({ env: { ...env, SIGNALBOX_TOKEN: 't' }, file: path('config/production.json') });
    expect(config).toMatchObject({ gateway: { host: '0.0.0.0', port: 7171 }, stateDir: '/var/lib/signalbox' });
  });
});

describe('bin/healthcheck.js', () => {
  const check = (port: number) =>
    new Promise<{ code: unknown; said: string }>((resolve) => {
      const env = { ...process.env, SIGNALBOX_PORT: String(port) };
      execFile(process.execPath, [path('bin/healthcheck.js')], { env }, (error, stdout) =>
        resolve({ code: error?.code ?? 0, said: stdout.trim() }),
      );
    });

  test('0 for 200, 1 for anything else', async () => {
    let status = 200;
    const server = createServer((request, response) => {
      response.writeHead(request.url === '/healthz' ? status : 404).end('said');
    }).listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    expect(await check(port)).toEqual({ code: 0, said: '200 said' });
    status = 503;
    expect(await check(port)).toEqual({ code: 1, said: '503 said' });
    const closed = once(server, 'close');
    server.close();
    server.closeAllConnections();
    await closed;
    expect(await check(port)).toEqual({ code: 1, said: `no answer on port ${port}: ECONNREFUSED` });
  });
});

describe('deploy/compose.yaml', () => {
  interface Service {
    healthcheck: { test: string[] };
    deploy: { resources: { limits: unknown } };
    logging: unknown;
    restart: string;
    stop_grace_period: string;
    volumes: string[];
    command: string[];
    environment: Record<string, string>;
    depends_on: unknown;
    build: { context: string };
  }
  const compose = readYaml(read('deploy/compose.yaml')) as unknown as {
    services: Record<string, Service>;
    volumes: Record<string, unknown>;
  };

  test.each(Object.keys(compose.services))('%s: health check, limits, rotated log, restart, time to stop', (name) => {
    const service = compose.services[name]!;
    expect(service.healthcheck).toMatchObject({ test: expect.any(Array), interval: expect.any(String), retries: 3 });
    expect(service.deploy.resources.limits).toEqual({ cpus: expect.any(String), memory: expect.any(String) });
    expect(service.logging).toEqual({ driver: 'json-file', options: { 'max-size': '10m', 'max-file': '5' } });
    expect(service.restart).toBe('unless-stopped');
    expect(Number.parseInt(service.stop_grace_period, 10) * 1000).toBeGreaterThan(loadConfig().gateway.drainMs);
    for (const volume of service.volumes) expect(compose.volumes).toHaveProperty(volume.split(':')[0]!);
  });

  test('the daemon waits for a healthy Redis that evicts nothing and keeps an append-only file', () => {
    const { redis, signalbox } = compose.services as { redis: Service; signalbox: Service };
    expect(signalbox.depends_on).toEqual({ redis: { condition: 'service_healthy' } });
    expect(redis.command.join(' ')).toContain('--maxmemory-policy noeviction');
    expect(redis.command.join(' ')).toContain('--appendonly yes');
    const env = { ...signalbox.environment, SIGNALBOX_TOKEN: 't' };
    expect(loadConfig({ env }).redis.url).toBe('redis://redis:6379');
    expect(existsSync(path(`deploy/${signalbox.build.context}/Dockerfile`))).toBe(true);
    expect(signalbox.healthcheck.test.at(-1)).toBe('bin/healthcheck.js');
  });
});

describe('deploy/signalbox.service', () => {
  const unit = read('deploy/signalbox.service');
  const value = (key: string) => new RegExp(`^${key}=(.*)$`, 'm').exec(unit)?.[1];

  test('starts what exists, stops the daemon first, and leaves it time', () => {
    expect(value('Type')).toBe('exec');
    expect(value('KillMode')).toBe('mixed');
    expect(value('Restart')).toBe('on-failure');
    expect(value('StateDirectory')).toBe('signalbox');
    const { gateway, redis } = loadConfig();
    expect(Number(value('TimeoutStopSec')) * 1000).toBeGreaterThan(gateway.drainMs + redis.managed.stopMs + 10_000);
    const program = /\/opt\/signalbox\/(\S+)/.exec(value('ExecStart') ?? '')?.[1];
    expect(existsSync(path(program!))).toBe(true);
  });

  const hasAnalyze = spawnSync('systemd-analyze', ['--version']).status === 0;
  test.runIf(hasAnalyze)('systemd finds nothing wrong with it', () => {
    const { output } = spawnSync('systemd-analyze', ['verify', path('deploy/signalbox.service')], { encoding: 'utf8' });
    // Where Node is elsewhere on this machine, that alone may be said.
    const complaints = output
      .join('')
      .split('\n')
      .filter((line) => line !== '' && !line.includes('/usr/bin/node'));
    expect(complaints).toEqual([]);
  });
});

test('.ci/run is an executable bash script without errors of syntax', () => {
  expect(() => execFileSync('bash', ['-n', path('.ci/run')])).not.toThrow();
  expect(() => execFileSync('test', ['-x', path('.ci/run')])).not.toThrow();
});
