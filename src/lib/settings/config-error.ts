import type { SettingRow } from './rows.js';

/** What was set, by path, with the value as the schema sees it and the place it came from. */
export type Sources = Map<string, { value: unknown; from: string }>;

export interface ConfigProblem {
  path: string;
  /** As given; undefined for unknown settings and secrets, whose value is not to be shown. */
  value: unknown;
  from: string;
  expected: string;
}

/** Ends the start. The message holds one line for each wrong setting, so that one attempt shows them all. */
export class ConfigError extends Error {
  override readonly name = 'ConfigError';
  readonly problems: readonly ConfigProblem[];

  constructor(problems: readonly ConfigProblem[]) {
    super(
      problems
        .map(({ path, value, from, expected }) => {
          const given = value === undefined ? '' : ` is ${JSON.stringify(value)}`;
          return `${path}${given}${from === '' ? '' : ` (from ${from})`}: expected ${expected}`;
        })
        .join('\n'),
    );
    this.problems = problems;
  }

  /** From what the schema found. Its own wording is dropped except for rules between settings (`custom`). */
  static of(
    issues: readonly { path: PropertyKey[]; code?: string; message: string }[],
    rows: readonly SettingRow[],
    sources: Sources,
  ): ConfigError {
    const problems = new Map<string, ConfigProblem>();
    for (const issue of issues) {
      const full = issue.path.map(String).join('.');
      const row = rows.find(({ path }) => full === path || full.startsWith(`${path}.`));
      const path = row?.path ?? full;
      const set = sources.get(path);
      const value = row?.secret ? undefined : set ? set.value : row?.default;
      const from = set?.from ?? (value === undefined ? '' : 'the default');
      const expected = issue.code === 'custom' ? issue.message : (row?.expected ?? issue.message);
      if (!problems.has(path)) problems.set(path, { path, value, from, expected });
    }
    return new ConfigError([...problems.values()]);
  }
}

/** Without the value: an unknown name may be a token under a misspelt one. */
export function unknownSetting(path: string, from: string, names: readonly string[]): ConfigProblem {
  const word = (name: string) => name.toLowerCase().replace(/[^a-z0-9]/g, '');
  const near = names.find((name) => distanceAtMostTwo(word(name), word(path)));
  return { path, value: undefined, from, expected: near ? `a known setting, such as ${near}` : 'a known setting' };
}

/** Good enough to find a typing error: equal but for at most two characters in one place. */
function distanceAtMostTwo(a: string, b: string): boolean {
  if (Math.abs(a.length - b.length) > 2) return false;
  let start = 0;
  while (start < a.length && a[start] === b[start]) start++;
  let end = 0;
  while (end < Math.min(a.length, b.length) - start && a.at(-1 - end) === b.at(-1 - end)) end++;
  return Math.max(a.length, b.length) - start - end <= 2;
}
