import { text } from 'node:stream/consumers';
import { InvalidArgumentError } from 'commander';
import { wrongUsage } from './exit.js';

/** JSON from the command line, or from standard input for `-`. */
export async function readJson(given: string, what: string): Promise<unknown> {
  const source = given === '-' ? await text(process.stdin) : given;
  try {
    return JSON.parse(source);
  } catch (error) {
    const shown = source.length > 60 ? `${source.slice(0, 60)}…` : source;
    throw wrongUsage(
      `${what} ${JSON.stringify(shown)} is no JSON (${(error as Error).message})`,
      'a text needs its own quotes: \'"text"\'; - reads standard input',
    );
  }
}

export const whole =
  (least: number, most: number) =>
  (given: string): number => {
    const value = Number(given);
    if (/^\d+$/.test(given) && value >= least && value <= most) return value;
    throw new InvalidArgumentError(`expected a whole number from ${least} to ${most}`);
  };

const unitMs: Readonly<Record<string, number>> = {
  ms: 1,
  s: 1000,
  m: 60_000,
  min: 60_000,
  h: 3_600_000,
  d: 86_400_000,
};

/** `1500`, `1500ms`, `30s`, `10m`, `2h`, `1d`. */
export function durationMs(given: string): number {
  const [, number, unit = 'ms'] = /^(\d+(?:\.\d+)?)([a-z]+)?$/.exec(given) ?? [];
  const factor = Object.hasOwn(unitMs, unit) ? unitMs[unit] : undefined;
  if (number === undefined || factor === undefined)
    throw new InvalidArgumentError('expected a duration such as 1500, 30s, 10m, 2h or 1d');
  return Math.round(Number(number) * factor);
}

/** For options that are taken once: the last of two would win without a word. */
export const once = (value: string, before: string | undefined): string => {
  if (before === undefined) return value;
  throw new InvalidArgumentError(
    `it is given twice, ${JSON.stringify(before)} and ${JSON.stringify(value)}; one is taken`,
  );
};

/** For options that may be given several times. */
export const collect = (value: string, before: string[] = []): string[] => [...before, value];

/** `name=value` pairs; the value may hold further `=`. */
export function pairs(given: readonly string[] | undefined, what: string): Record<string, string> {
  return Object.fromEntries(
    (given ?? []).map((pair) => {
      const at = pair.indexOf('=');
      if (at < 1) throw wrongUsage(`${what} ${JSON.stringify(pair)} is no pair`, `write it like ${what} name=value`);
      return [pair.slice(0, at), pair.slice(at + 1)];
    }),
  );
}
