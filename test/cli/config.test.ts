import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { documents } from '../../src/cli/documents.js';
import { makeProgram } from '../../src/cli/program.js';
import { commandTable } from '../../src/commands.js';
import { loadConfig } from '../../src/config.js';
import { errors } from '../../src/errors.js';
import { cli, json } from './cli.js';

const committed = (path: string): string =>
  readFileSync(fileURLToPath(new URL(`../../${path}`, import.meta.url)), 'utf8');

for (const [path, text] of Object.entries(documents())) {
  test(`${path} is what the code says; if not: npm run generate`, () => {
    expect(committed(path) === text).toBe(true);
  });
}

test('the documents hold every op, its params and every code', () => {
  const all = documents();
  const asyncapi = JSON.parse(all['docs/asyncapi.json']!);
  for (const { name } of commandTable.values()) {
    expect(asyncapi.operations[name].reply.messages).toHaveLength(2);
    expect(all['docs/commands.md']).toContain(`## ${name}\n`);
  }
  for (const code of Object.keys(errors)) expect(all['docs/errors.md']).toContain(`\`${code}\``);
});

test('every reference in asyncapi.json leads somewhere', () => {
  const document = JSON.parse(documents()['docs/asyncapi.json']!);
  const lost: string[] = [];
  const walk = (node: unknown): void => {
    if (typeof node !== 'object' || node === null) return;
    const { $ref } = node as { $ref?: string };
    if (typeof $ref === 'string') {
      const found = $ref
        .slice(2)
        .split('/')
        .reduce((at: Record<string, unknown> | undefined, key) => at?.[key] as never, document);
      if (found === undefined) lost.push($ref);
    }
    for (const child of Object.values(node)) walk(child);
  };
  walk(document);
  expect(lost).toEqual([]);
});

test('config check: fine, or every problem with its place', async () => {
  expect((await cli(['config', 'check'])).out).toBe('the configuration is fine\n');
  const { code, err } = await cli(['config', 'check', '--set', 'sesion.ttlMs=5', '--set', 'nothing']);
  expect([code, err]).toEqual([2, 'signalbox: --set "nothing" is no pair\n  write it like --set name=value\n']);
  const typo = await cli(['config', 'check', '--set', 'sesion.ttlMs=5'], { env: { SIGNALBOX_LOG_EVENTS_MAX: '-1' } });
  expect(typo.code).toBe(1);
  expect(typo.err).toContain('sesion.ttlMs (from the command line): expected a known setting, such as session.ttlMs');
});

test('config print: what is in force, as a file that can be read back; secrets stay out', async () => {
  const env = { SIGNALBOX_TOKEN: 'very-secret', REDIS_URL: 'redis://:pass@host:1/0', SIGNALBOX_SWEEP_EVERY_MS: '77' };
  const { out } = await cli(['config', 'print'], { env });
  expect(out).not.toMatch(/very-secret|pass/);
  expect(JSON.parse(out)).toMatchObject({ sweep: { everyMs: 77 }, gateway: { port: 7171 } });
});

test('config docs and env name every setting', async () => {
  const { settings } = await json(['config', 'docs']);
  expect(settings.length).toBeGreaterThan(40);
  const { out } = await cli(['config', 'env']);
  for (const { env } of settings) expect(out).toContain(`# ${env}=`);
  const lines = out.split('\n').flatMap((line) => (/^# (SIGNALBOX_\w+)=(.+)$/.exec(line)?.slice(1, 3) as never) ?? []);
  expect(lines.length).toBeGreaterThan(40);
  expect(loadConfig({ env: { HOME: '/h' } }).sweep.everyMs).toBe(1000);
});

test('every subcommand explains itself, and every one that prints takes --json', () => {
  const program = makeProgram({ code: 0 });
  const leaves = program.commands.flatMap((command) => (command.commands.length > 0 ? command.commands : [command]));
  expect(program.commands.map((command) => command.name())).toEqual([
    ...[
      'up',
      'demo',
      'enqueue',
      'work',
      'run',
      'lock',
      'limit',
      'who',
      'tail',
      'status',
      'tasks',
      'dead',
      'call',
      'redis-cli',
      'doctor',
      'config',
    ],
    'generate',
  ]);
  for (const leaf of leaves) {
    expect(leaf.description(), leaf.name()).not.toBe('');
    if (leaf.name() === 'demo' || leaf.name() === 'redis-cli') continue;
    expect(
      leaf.options.map((option) => option.long),
      leaf.name(),
    ).toContain('--json');
  }
});
