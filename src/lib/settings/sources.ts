import { readFileSync } from 'node:fs';
import { ConfigError, type ConfigProblem, type Sources, unknownSetting } from './config-error.js';
import { describe, type Rules, type SettingRow } from './rows.js';

export type Source =
  | { kind: 'file'; file: string | undefined }
  | { kind: 'env'; env: NodeJS.ProcessEnv }
  | { kind: 'flags'; flags: Record<string, unknown> };

/** Brings the sources together, the later ones above the earlier; the values are still to be checked by the schema. */
export function resolve(rules: Rules, from: readonly Source[]): { value: Record<string, unknown>; sources: Sources } {
  const rows = describe(rules);
  const sources: Sources = new Map();
  const problems: ConfigProblem[] = [];
  for (const source of from) {
    if (source.kind === 'file') readFile(source.file, rows, sources, problems);
    if (source.kind === 'env') readEnv(source.env, rules, rows, sources, problems);
    if (source.kind === 'flags') readFlags(source.flags, rows, sources, problems);
  }
  if (problems.length > 0) throw new ConfigError(problems);
  const value: Record<string, unknown> = {};
  for (const [path, entry] of sources) put(value, path.split('.'), entry.value);
  return { value, sources };
}

function readFile(file: string | undefined, rows: SettingRow[], sources: Sources, problems: ConfigProblem[]): void {
  if (file === undefined || file === '') return;
  let content: unknown;
  try {
    content = JSON.parse(readFileSync(file, 'utf8'));
  } catch (error) {
    problems.push({ path: file, value: undefined, from: '', expected: `a readable JSON file (${reason(error)})` });
    return;
  }
  const walk = (value: unknown, path: string): void => {
    const row = rows.find((candidate) => candidate.path === path);
    if (row) {
      sources.set(path, { value, from: file });
    } else if (path !== '' && !rows.some((candidate) => candidate.path.startsWith(`${path}.`))) {
      if (path !== '$schema')
        problems.push(
          unknownSetting(
            path,
            file,
            rows.map((candidate) => candidate.path),
          ),
        );
    } else if (typeof value !== 'object' || value === null || Array.isArray(value)) {
      problems.push({
        path: path === '' ? file : path,
        value: undefined,
        from: file,
        expected: 'an object of settings',
      });
    } else {
      for (const [key, child] of Object.entries(value)) walk(child, path === '' ? key : `${path}.${key}`);
    }
  };
  walk(content, '');
}

function readEnv(
  env: NodeJS.ProcessEnv,
  { prefix, otherEnv = [] }: Rules,
  rows: SettingRow[],
  sources: Sources,
  problems: ConfigProblem[],
): void {
  const known = new Set(otherEnv);
  for (const row of rows) {
    // An empty variable is how compose files and shells say "not set".
    const names = [row.env, ...(row.alias ? [row.alias] : [])];
    for (const name of names) known.add(name);
    const [name, other] = names.filter((candidate) => env[candidate] !== undefined && env[candidate] !== '');
    if (name === undefined) continue;
    if (other !== undefined && env[name] !== env[other])
      problems.push({
        path: row.path,
        value: undefined,
        from: `${name} and ${other}`,
        expected: 'only one of the two',
      });
    sources.set(row.path, { value: parse(env[name] ?? '', row), from: name });
  }
  for (const name of Object.keys(env))
    if (name.startsWith(prefix) && !known.has(name)) problems.push(unknownSetting(name, 'the environment', [...known]));
}

function readFlags(
  flags: Record<string, unknown>,
  rows: SettingRow[],
  sources: Sources,
  problems: ConfigProblem[],
): void {
  for (const [key, value] of Object.entries(flags)) {
    if (value === undefined) continue;
    const row = rows.find(({ path, flag }) => flag === key || path === key);
    if (!row)
      problems.push(
        unknownSetting(
          key,
          'the command line',
          rows.flatMap(({ path, flag }) => [path, ...(flag ? [flag] : [])]),
        ),
      );
    else
      sources.set(row.path, { value: typeof value === 'string' ? parse(value, row) : value, from: 'the command line' });
  }
}

/** Text to the type of the setting. What does not fit stays text: the schema then refuses it as it was given. */
function parse(given: string, { unit, default: preset }: SettingRow): unknown {
  if (typeof preset === 'number') return /^-?\d{1,16}$/.test(given) ? Number(given) : given;
  if (unit === 'boolean')
    return given === 'true' || given === '1' ? true : given === 'false' || given === '0' ? false : given;
  if (unit === 'list') return given.split(',').map((item) => item.trim());
  if (unit === 'object') {
    try {
      return JSON.parse(given);
    } catch {
      return given;
    }
  }
  return given;
}

function put(target: Record<string, unknown>, [key = '', ...rest]: string[], value: unknown): void {
  if (rest.length === 0) target[key] = value;
  else {
    target[key] ??= {};
    put(target[key] as Record<string, unknown>, rest, value);
  }
}

function reason(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
