import { once } from 'node:events';

/** What came from elsewhere must not move the cursor or colour the terminal. */
export const visible = (text: string): string =>
  text.replace(/[\u0000-\u001f\u007f-\u009f]/g, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`);

/** Waits when the reader is slower than we are: a pipe is no place to keep a log in. */
export async function print(line: string): Promise<void> {
  if (!process.stdout.write(`${line}\n`)) await once(process.stdout, 'drain');
}

export const printJson = (value: unknown): Promise<void> => print(JSON.stringify(value));

export function say(line: string): void {
  process.stderr.write(`${line}\n`);
}

/** Columns as wide as their widest cell; numbers to the right. */
export async function printTable(heads: readonly string[], rows: readonly (readonly unknown[])[]): Promise<void> {
  const cells = rows.map((row) => row.map((cell) => (cell === undefined ? '-' : visible(String(cell)))));
  const widths = heads.map((head, i) => Math.max(head.length, ...cells.map((row) => row[i]?.length ?? 0)));
  const isNumber = heads.map((_, i) => rows.every((row) => row[i] === undefined || typeof row[i] === 'number'));
  const lineOf = (row: readonly string[]): string =>
    row.map((cell, i) => (isNumber[i] ? cell.padStart(widths[i]!) : cell.padEnd(widths[i]!))).join('  ');
  for (const row of [heads, ...cells]) await print(lineOf(row).trimEnd());
}

/** `1 session`, `2 sessions`; a plural that takes more than an s is given. */
export const counted = (count: number, one: string, many = `${one}s`): string => `${count} ${count === 1 ? one : many}`;

/** `90 s`, `5 min`: an age for people. */
export function ageOf(ms: number): string {
  const units = [
    [86_400_000, 'd'],
    [3_600_000, 'h'],
    [60_000, 'min'],
    [1000, 's'],
  ] as const;
  const [size, name] = units.find(([least]) => ms >= 2 * least) ?? [1, 'ms'];
  return `${Math.round(ms / size)} ${name}`;
}

/** A reader that goes away (`tail | head`) ends the command, quietly: whoever has read enough is no failure. */
export function endWithReader(): void {
  if (process.stdout.listeners('error').includes(leave)) return;
  process.stdout.on('error', leave);
}

function leave(error: NodeJS.ErrnoException): void {
  if (error.code === 'EPIPE') process.exit(0);
  throw error;
}
