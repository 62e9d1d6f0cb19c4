import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';
import { commandTable } from '../src/commands.js';
import { errors } from '../src/errors.js';
import { events } from '../src/events.js';

/** What ARCHITECTURE.md says, held against the sources: the page is read here, so that it cannot go stale. */
const root = fileURLToPath(new URL('..', import.meta.url));
const read = (path: string): string => readFileSync(join(root, path), 'utf8');
const filesIn = (folder: string, ending: string): string[] =>
  readdirSync(join(root, folder), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && entry.name.endsWith(ending))
    .map((entry) => join(entry.parentPath, entry.name).slice(root.length))
    .sort();

const page = read('ARCHITECTURE.md');
const sources = [...filesIn('src', '.ts'), ...filesIn('streams', '.ts')];
const scripts = filesIn('src', '.lua');

/** The cells of the table under a heading, without its head. */
function tableUnder(heading: string): string[][] {
  const start = page.indexOf(`\n## ${heading}\n`);
  expect(start, `ARCHITECTURE.md has no section "${heading}"`).toBeGreaterThan(0);
  const end = page.indexOf('\n## ', start + 4);
  return rowsOf(page.slice(start, end < 0 ? undefined : end)).slice(2);
}
const rowsOf = (text: string): string[][] =>
  text
    .split('\n')
    .filter((line) => line.startsWith('|'))
    .map((line) =>
      line
        .slice(1, -1)
        .split('|')
        .map((cell) => cell.trim()),
    );

interface Import {
  readonly target: string;
  readonly type: boolean;
}

function importsOf(path: string): Import[] {
  const found: Import[] = [];
  for (const match of read(path).matchAll(
    /^(?:import|export)(\s+type)?\b[^;'"]*?\bfrom\s+'([^']+)'|^import\s+'([^']+)'|\bimport\('([^']+)'\)/gms,
  )) {
    found.push({ target: match[2] ?? match[3] ?? match[4] ?? '', type: match[1] !== undefined });
  }
  return found;
}

/** `src/queue/claim.ts` is part `queue`, `src/app.ts` part `app.ts`, everything of streams/ part `streams`. */
function partOf(path: string): string {
  const [top, first = '', ...rest] = path.split('/');
  return top === 'streams' || rest.length > 0 ? (top === 'streams' ? top : first) : first;
}
const resolve = (from: string, target: string): string =>
  normalize(join(dirname(from), target)).replace(/\.js$/, '.ts');

describe('who may import whom', () => {
  const rows = tableUnder('Who may import whom');
  const words = (cell = ''): string[] =>
    cell
      .replaceAll('`', '')
      .split(/[\s,]+/)
      .filter((word) => word !== '' && word !== '–');
  const table = new Map(
    rows.map(([part, values, types, packages]) => [
      words(part)[0]!,
      { values: words(values), types: words(types), packages: words(packages) },
    ]),
  );

  test.each(sources)('%s', (path) => {
    const part = partOf(path);
    const may = table.get(part);
    expect(may, `${part} stands in the table`).toBeDefined();
    for (const { target, type } of importsOf(path)) {
      if (target.startsWith('node:')) continue;
      const name = target.startsWith('.') ? partOf(resolve(path, target)) : target.split('/')[0]!;
      if (name === part) continue;
      const allowed = target.startsWith('.')
        ? may!.values.includes('all') || may!.values.includes(name) || (type && may!.types.includes(name))
        : may!.packages.includes(name) || (type && may!.packages.includes(`type:${name}`));
      expect(allowed, `${path} may not import ${type ? 'types of ' : ''}${name}`).toBe(true);
    }
  });

  test('every part in the table exists', () => {
    const parts = new Set(sources.map(partOf));
    expect([...table.keys()].filter((part) => !parts.has(part))).toEqual([]);
  });
});

describe('tidiness', () => {
  test.each([...sources, ...scripts])('%s has at most 300 lines', (path) => {
    expect(read(path).trimEnd().split('\n').length).toBeLessThanOrEqual(300);
  });

  test('no file is dead: every source is reached from where the program or a user begins', () => {
    const reached = new Set<string>();
    const visit = (path: string): void => {
      if (reached.has(path) || !existsSync(join(root, path))) return;
      reached.add(path);
      // Any path in quotes: files are also imported late, or started as a process of their own.
      for (const [, target] of read(path).matchAll(/'(\.{1,2}\/[\w./-]+\.js)'/g)) visit(resolve(path, target!));
      for (const [, file = ''] of read(path).matchAll(/lua\(import\.meta\.url,\s*'([^']+)'/g))
        visitScript(resolve(path, file));
    };
    const visitScript = (path: string): void => {
      reached.add(path);
      for (const [, name] of read(path).matchAll(/^-- *@include (\S+)$/gm)) visitScript(`src/redis/lua/${name}.lua`);
    };
    for (const start of ['src/cli/main.ts', 'src/client/index.ts']) visit(start);
    expect([...sources, ...scripts].filter((path) => !reached.has(path))).toEqual([]);
  });

  test.each(filesIn('streams', '.ts'))('%s is pure', (path) => {
    const code = read(path).replace(/\/\*[\s\S]*?\*\/|\/\/.*$/gm, '');
    for (const word of [
      'subscribe',
      'Subject',
      'new Date',
      'Date.now',
      'performance',
      'setTimeout',
      'setInterval',
      'Math.random',
      'process.',
      'await ',
    ]) {
      expect(code.includes(word), `${path} uses ${word}`).toBe(false);
    }
    for (const { target, type } of importsOf(path)) {
      if (!target.startsWith('.')) expect(target).toMatch(/^rxjs/);
      else if (!resolve(path, target).startsWith('streams/'))
        expect(type, `${path} imports more than types of ${target}`).toBe(true);
    }
  });
});

/** A script with everything it includes. */
function closure(path: string, seen = new Set<string>()): Set<string> {
  if (seen.has(path)) return seen;
  seen.add(path);
  for (const [, name] of read(path).matchAll(/^-- *@include (\S+)$/gm)) closure(`src/redis/lua/${name}.lua`, seen);
  return seen;
}
const bare = (path: string): string =>
  read(path)
    .replace(/^\s*--.*$/gm, '')
    .replace(/\s--\s.*$/gm, '');

describe('tests', () => {
  // Files share a worker and its modules: a hook that a helper registers when it is loaded serves the first file only.
  test('no helper registers a hook by being loaded', () => {
    const helpers = filesIn('test', '.ts').filter((file) => !file.endsWith('.test.ts'));
    expect(helpers.length).toBeGreaterThan(20);
    expect(helpers.filter((file) => /^(before|after)(All|Each)\(/m.test(read(file)))).toEqual([]);
  });
});

describe('commands', () => {
  test('the registry is complete: every command that is defined can be called', () => {
    const defined = sources.flatMap((path) =>
      [...read(path).matchAll(/defineCommand\(\{\s*name: '([^']+)'/g)].map(([, name]) => name!),
    );
    expect(defined.length).toBeGreaterThan(25);
    expect([...commandTable.keys()].sort()).toEqual(defined.sort());
  });

  test('a command is named by its domain and says what it does in one sentence', () => {
    for (const [name, { about, fails }] of commandTable) {
      expect(name).toMatch(/^[a-z]+(\.[a-z]+)?$/);
      expect(about, name).toMatch(/^[A-Z].*\.$/s);
      for (const code of fails) expect(Object.keys(errors), name).toContain(code);
    }
  });

  // Codes that any op can meet: of the gates, of Redis being away, of a session that is gone.
  const common = new Set(['BAD_REQUEST', 'UNAVAILABLE', 'TIMEOUT', 'INTERNAL']);
  /** The command a script works for: the file beside it, or the one whose verb its name begins with. */
  const commandOf = (path: string): string | undefined => {
    const [, domain, file = ''] = /^src\/([a-z]+)\/([\w-]+)\.lua$/.exec(path) ?? [];
    const beside = `src/${domain}/${file}.ts`;
    const named = existsSync(join(root, beside)) ? /name: '([^']+)'/.exec(read(beside))?.[1] : undefined;
    if (named) return named;
    for (const other of filesIn(`src/${domain}`, '.ts')) {
      const text = read(other);
      if (text.includes(`'./${file}.lua'`) && text.includes('defineCommand')) return /name: '([^']+)'/.exec(text)?.[1];
    }
    return commandTable.has(`${domain}.${file.split('-')[0]}`) ? `${domain}.${file.split('-')[0]}` : undefined;
  };

  test.each(scripts.filter((path) => /^src\/(queue|lease|feed|lock|limit|once)\//.test(path)))(
    '%s refuses with what its command declares',
    (path) => {
      const codes = new Set<string>();
      for (const file of closure(path)) {
        for (const [, code] of bare(file).matchAll(/refuse\('([A-Z_]+)'|'!([A-Z_]+)/g)) if (code) codes.add(code);
        for (const [, code] of bare(file).matchAll(/'!([A-Z_]+)/g)) codes.add(code!);
      }
      for (const code of codes) expect(Object.keys(errors)).toContain(code);
      // Passages that complete a task speak for whoever completes: a script that only hands out meets none of them.
      const name = commandOf(path);
      const wanted = [...codes].filter((code) => !common.has(code));
      if (wanted.length === 0) return;
      expect(name, `${path} refuses, and no command is its own`).toBeDefined();
      expect(commandTable.get(name!)!.fails, `${name} by ${path}`).toEqual(expect.arrayContaining(wanted));
    },
  );

  test.each(sources.filter((path) => /defineCommand\(\{/.test(read(path))))('%s throws what it declares', (path) => {
    const text = read(path);
    const command = commandTable.get(/name: '([^']+)'/.exec(text)![1]!)!;
    const codes = [...text.matchAll(/new Refusal\(\s*'([A-Z_]+)'/g)]
      .map(([, code]) => code!)
      .filter((code) => !common.has(code));
    expect(command.fails, command.name).toEqual(expect.arrayContaining(codes));
  });
});

describe('scripts', () => {
  const writes =
    /call\('(SET|MSET|HSET|HDEL|HINCRBY|DEL|ZADD|ZREM|ZINCRBY|ZPOPMIN|SADD|SREM|XADD|XTRIM|INCR|PUBLISH|EXPIRE|ZREMRANGE\w+)'/;
  /** Parts that emit for whoever includes them. */
  const telling = new Set(
    ['finish', 'done', 'put', 'claim', 'ending', 'published', 'lock-wait', 'lock-grant', 'limit-wait', 'once'].map(
      (name) => `src/redis/lua/${name}.lua`,
    ),
  );
  const own = scripts.filter((path) => !path.startsWith('src/redis/lua/'));

  test.each(own)('%s emits what it changes, or says why it is silent, or only reads', (path) => {
    const files = [...closure(path)];
    const silent = /^-- silent: .{10,}/m.test(read(path));
    const emits = files.some((file) => telling.has(file)) || /\b(emit|tell)\(/.test(bare(path));
    const changes = files.some((file) => writes.test(bare(file)));
    expect(changes && !emits && !silent, `${path} changes something and says nothing`).toBe(false);
    expect(emits && silent && !files.some((file) => telling.has(file)), `${path} says it is silent and emits`).toBe(
      false,
    );
  });

  test.each(own)('%s says what it does in its head', (path) => {
    expect(read(path)).toMatch(/^(#!lua flags=[\w,-]+\n)?(-- silent: .*\n)?-- [A-Z`]/);
  });

  test.each(own.filter((path) => closure(path).has('src/redis/lua/turn.lua')))(
    '%s closes its turn on every way out',
    (path) => {
      for (const [line] of bare(path).matchAll(/^(?:return|.*\bthen return\b.*)$/gm)) {
        if (/^\s*(local )?function|^\s{2,}/.test(line)) continue;
        expect(line).toMatch(/turn\.close\(|refuse\(|return result/);
      }
    },
  );

  test('every event type a script names is declared, and every one that is declared is emitted', () => {
    const states = ['completed', 'dead', 'cancelled', 'expired'].map((state) => `task.${state}`);
    const named = new Set(states);
    for (const path of scripts) {
      for (const [, type] of bare(path).matchAll(
        /'((?:task|session|lease|queue|lock|limit|once|pressure|ingress|daemon|clock|epoch)\.[a-zA-Z]+)'/g,
      ))
        named.add(type!);
    }
    expect([...named].sort()).toEqual(Object.keys(events).sort());
  });
});

describe('errors', () => {
  const documented = rowsOf(read('docs/errors.md')).map((cells) => cells.join(' | '));
  test.each(Object.entries(errors))('%s is documented with its advice', (code, { about, retry }) => {
    expect(about).toMatch(/^[A-Z].*\.$/);
    expect(documented).toContain(`\`${code}\` | ${retry ? 'yes' : 'no'} | ${about}`);
  });
});

describe('the ownership table', () => {
  test('every row is a test that names it, and every row that a test names is in the table', () => {
    const rows = tableUnder('Ownership').map(([id]) => id!.replaceAll('`', ''));
    const named = new Set<string>();
    for (const path of filesIn('test/lease', '.test.ts')) {
      for (const [, title] of read(path).matchAll(/['"`]((?:\[\d+[a-z]?\] ?)+)/g)) {
        for (const [, id] of title!.matchAll(/\[(\w+)\]/g)) named.add(id!);
      }
    }
    expect([...named].sort()).toEqual([...new Set(rows)].sort());
    expect(new Set(rows).size).toBe(rows.length);
  });
});
