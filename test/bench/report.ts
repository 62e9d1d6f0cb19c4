import type { Name } from './contestant.js';
import type { Line, Row, Sample } from './lines.js';
import { median, spread } from './stats.js';

export type Samples = Readonly<Record<Name, readonly Sample[]>>;

interface Figure {
  readonly median: number;
  readonly spread: number;
}

export interface Result extends Omit<Row, 'value'> {
  readonly line: string;
  readonly value: string;
  readonly bullmq: Figure;
  readonly signalbox: Figure;
  readonly ratio: number;
  /** Absent where nothing is aimed at. */
  readonly reached?: boolean;
  /** CPU in microseconds a task, by process. */
  readonly cpu?: Readonly<Record<Name, Readonly<Record<string, number>>>>;
}

export function resultsOf(line: Line, samples: Samples, earlier: readonly Result[]): Result[] {
  return line.rows.map((row) => {
    const figure = (name: Name): Figure => {
      const values = samples[name].map(({ values }) => values[row.value]!);
      return { median: median(values), spread: spread(values) };
    };
    const [bullmq, signalbox] = [figure('bullmq'), figure('signalbox')];
    const base = earlier.find(({ line, value }) => line === row.against?.line && value === row.against.value);
    const ratio = row.against
      ? signalbox.median / (base?.signalbox.median ?? Number.NaN)
      : signalbox.median / bullmq.median;
    const cpu = samples.signalbox[0]?.cpu
      ? { bullmq: cpuOf(samples.bullmq), signalbox: cpuOf(samples.signalbox) }
      : undefined;
    const aim = row.target ?? (row.against && { ratio: row.against.ratio, better: 'more' as const });
    const reached = aim && (aim.better === 'more' ? ratio >= aim.ratio : ratio <= aim.ratio);
    return {
      ...row,
      line: line.id,
      bullmq,
      signalbox,
      ratio,
      ...(reached === undefined ? {} : { reached }),
      ...(cpu ? { cpu } : {}),
    };
  });
}

function cpuOf(samples: readonly Sample[]): Record<string, number> {
  const of = (process: 'client' | 'redis' | 'daemon'): number =>
    Number(median(samples.map(({ cpu, tasks }) => (cpu![process] / tasks!) * 1e6)).toFixed(1));
  return { client: of('client'), redis: of('redis'), daemon: of('daemon') };
}

const number = (value: number, unit: string): string =>
  unit === 'ms' ? value.toFixed(2) : Math.round(value).toLocaleString('en-US');

export function table(results: readonly Result[]): string {
  const head = ['', 'BullMQ', 'Signalbox', '', 'ratio', 'target', '', 'spread', 'µs CPU a task (client redis daemon)'];
  const rows = results.map((result) => {
    const { title, unit, bullmq, signalbox, ratio, target, against, reached, cpu } = result;
    const aim = target
      ? `${target.better === 'more' ? '≥' : '≤'} ${target.ratio}`
      : against
        ? `≥ ${against.ratio} of 10 k`
        : '';
    const spent = (name: Name): string =>
      Object.values(cpu?.[name] ?? {})
        .map((us) => us.toFixed(0))
        .join(' ');
    return [
      title,
      number(bullmq.median, unit),
      number(signalbox.median, unit),
      unit,
      Number.isNaN(ratio) ? '' : ratio.toFixed(2),
      aim,
      reached === undefined ? '' : reached ? 'ok' : 'SHORT',
      `${Math.round(bullmq.spread * 100)} % ${Math.round(signalbox.spread * 100)} %`,
      cpu ? `${spent('bullmq')} | ${spent('signalbox')}` : '',
    ];
  });
  const all = [head, ...rows];
  const widths = head.map((_, i) => Math.max(...all.map((row) => row[i]!.length)));
  const isNumber = (i: number): boolean => i === 1 || i === 2 || i === 4;
  return all
    .map((row) =>
      row
        .map((cell, i) => (isNumber(i) ? cell.padStart(widths[i]!) : cell.padEnd(widths[i]!)))
        .join('  ')
        .trimEnd(),
    )
    .join('\n');
}
