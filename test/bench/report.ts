import type { Line, Row, Sample, Target } from './line.js';
import { type Name, rivals } from './side.js';
import { median, spread } from './stats.js';

/** A rival that is not installed has none. */
export type Samples = Readonly<Partial<Record<Name, readonly Sample[]>>>;

interface Figure {
  readonly median: number;
  readonly spread: number;
}

export interface Result extends Omit<Row, 'value'> {
  readonly line: string;
  readonly value: string;
  readonly beside: Name;
  /** Absent where the rival has no such thing, or is not installed. */
  readonly rival?: Figure;
  readonly installed: boolean;
  readonly signalbox: Figure;
  readonly ratio?: number;
  /** Absent where nothing is aimed at, or where what it is measured by was not measured. */
  readonly reached?: boolean;
  /** CPU in microseconds a task, by process. */
  readonly cpu?: Readonly<Partial<Record<Name, Readonly<Record<string, number>>>>>;
}

export function resultsOf(line: Line, samples: Samples, earlier: readonly Result[]): Result[] {
  const beside = rivals[line.subject];
  return line.rows.map((row) => {
    const figure = (name: Name, of: string = row.value): Figure | undefined => {
      const values = (samples[name] ?? []).flatMap(({ values }) => values[of] ?? []);
      return values.length === 0 ? undefined : { median: median(values), spread: spread(values) };
    };
    // Of this line, or of one that was measured before it.
    const base = (against: NonNullable<Row['against']>): Figure | undefined =>
      against.line === line.id
        ? figure('signalbox', against.value)
        : earlier.find((result) => result.line === against.line && result.value === against.value)?.signalbox;
    const signalbox = figure('signalbox');
    if (!signalbox) throw new Error(`the line ${line.id} measured no ${row.value} of Signalbox`);
    const rival = figure(beside);
    const ratio = row.against ? over(signalbox, base(row.against)) : over(signalbox, rival);
    const aim: Target | undefined = row.target ?? (row.against && { ratio: row.against.ratio, better: 'more' });
    const reached = aim && isReached(aim, signalbox, ratio);
    const cpu = samples.signalbox?.[0]?.cpu
      ? { [beside]: cpuOf(samples[beside]), signalbox: cpuOf(samples.signalbox) }
      : undefined;
    return {
      ...row,
      line: line.id,
      beside,
      installed: samples[beside] !== undefined,
      signalbox,
      ...(rival ? { rival } : {}),
      ...(ratio === undefined ? {} : { ratio }),
      ...(reached === undefined ? {} : { reached }),
      ...(cpu ? { cpu } : {}),
    };
  });
}

const over = (figure: Figure, base: Figure | undefined): number | undefined => base && figure.median / base.median;

function isReached(aim: Target, { median }: Figure, ratio: number | undefined): boolean | undefined {
  const [is, wanted] = 'ratio' in aim ? [ratio, aim.ratio] : [median, aim.amount];
  if (is === undefined) return undefined;
  return aim.better === 'more' ? is >= wanted : is <= wanted;
}

function cpuOf(samples: readonly Sample[] = []): Record<string, number> {
  const of = (process: 'client' | 'redis' | 'daemon'): number =>
    Number(median(samples.map(({ cpu, tasks }) => (cpu![process] / tasks!) * 1e6)).toFixed(1));
  return { client: of('client'), redis: of('redis'), daemon: of('daemon') };
}

const shown: Readonly<Record<Name, string>> = {
  signalbox: 'Signalbox',
  bullmq: 'BullMQ',
  redlock: 'redlock',
  'rate-limiter-flexible': 'rate-limiter-flexible',
  ws: 'raw ws',
};

const number = (value: number, unit: string): string =>
  unit === 'ms' || unit === 'trips' ? value.toFixed(2) : Math.round(value).toLocaleString('en-US');

const aimOf = ({ target, against, unit }: Result): string => {
  if (against) return `≥ ${against.ratio} of ${against.named}`;
  if (!target) return '';
  const sign = target.better === 'more' ? '≥' : '≤';
  return 'ratio' in target ? `${sign} ${target.ratio} ×` : `${sign} ${target.amount.toLocaleString('en-US')} ${unit}`;
};

function cells(result: Result): string[] {
  const { title, unit, beside, rival, installed, signalbox, ratio, reached, cpu } = result;
  const spent = (name: Name): string =>
    Object.values(cpu?.[name] ?? {})
      .map((us) => us.toFixed(0))
      .join(' ');
  return [
    title,
    rival ? number(rival.median, unit) : installed ? '' : 'not installed',
    rival || !installed ? shown[beside] : '',
    number(signalbox.median, unit),
    unit,
    ratio === undefined ? '' : ratio.toFixed(2),
    aimOf(result),
    reached === undefined ? '' : reached ? 'ok' : 'SHORT',
    [rival, signalbox].flatMap((figure) => (figure ? `${Math.round(figure.spread * 100)} %` : [])).join(' '),
    cpu ? `${spent(beside)} | ${spent('signalbox')}` : '',
  ];
}

export function table(results: readonly Result[]): string {
  const head = [
    '',
    'beside',
    '',
    'Signalbox',
    '',
    'ratio',
    'target',
    '',
    'spread',
    'µs CPU a task (client redis daemon)',
  ];
  const rows = results.map(cells);
  const all = [head, ...rows];
  const widths = head.map((_, i) => Math.max(...all.map((row) => row[i]!.length)));
  const isNumber = (i: number): boolean => i === 1 || i === 3 || i === 5;
  return all
    .map((row) =>
      row
        .map((cell, i) => (isNumber(i) ? cell.padStart(widths[i]!) : cell.padEnd(widths[i]!)))
        .join('  ')
        .trimEnd(),
    )
    .join('\n');
}
