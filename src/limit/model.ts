import { z } from 'zod';
import { Refusal } from '../errors.js';
import { Ms, Name } from '../protocol/primitives.js';

export const LimitName = Name;
export const ReservationId = Name;

/** Integers, money in micro-units: what is given back is exactly what was taken. */
export const amountMax = 1_000_000_000_000_000;
export const Amount = z.int().min(1).max(amountMax);
export const AmountOrZero = z.int().min(0).max(amountMax);
export const dimensionsMax = 16;

const few = <T extends z.ZodType>(value: T) =>
  z
    .record(Name, value)
    .refine(
      (record) => Object.keys(record).length >= 1 && Object.keys(record).length <= dimensionsMax,
      `expected 1 to ${dimensionsMax} dimensions`,
    );

export const Cost = few(Amount);
/** What a call really took may be nothing. */
export const Actual = z
  .record(Name, AmountOrZero)
  .refine((record) => Object.keys(record).length <= dimensionsMax, `expected at most ${dimensionsMax} dimensions`);

export const Kind = z.enum(['window', 'bucket', 'adaptive', 'budget']);
export const Dimension = z.strictObject({ amount: Amount, perMs: Ms.optional(), burst: Amount.optional() });
export const Dimensions = few(Dimension);
export const Adaptive = z.strictObject({ dimension: Name, min: Amount, max: Amount, targetMs: Ms });
/** What holds while Redis is away: nothing is granted, or each daemon grants this share of the limit by itself. */
export const WhenDown = z.union([z.literal('closed'), z.strictObject({ share: z.number().gt(0).max(1) })]);

export const definition = {
  kind: Kind,
  dimensions: Dimensions,
  adaptive: Adaptive.optional(),
  whenDown: WhenDown.default('closed'),
};
const Definition = z.object({ name: LimitName, ...definition });
export type Definition = z.output<typeof Definition>;
export { Definition };

/** How a dimension counts: the words of redis/lua/limit-dims.lua. */
export type Mode = 'window' | 'bucket' | 'sum' | 'held';

export function modeOf(kind: z.output<typeof Kind>, perMs: number | undefined): Mode {
  if (kind === 'budget') return 'sum';
  if (perMs === undefined) return 'held';
  return kind === 'bucket' ? 'bucket' : 'window';
}

/** Refuses what the schema lets through and the fields together do not allow. */
export function checkDefinition({ kind, dimensions, adaptive }: Omit<Definition, 'name'>): void {
  for (const [name, { perMs, burst }] of Object.entries(dimensions)) {
    const wrong = wrongOf(kind, name, perMs, burst);
    if (wrong !== undefined)
      throw new Refusal('INVALID', `dimension ${name}: ${wrong}`, { details: { dimension: name } });
  }
  if ((kind === 'adaptive') !== (adaptive !== undefined)) {
    throw new Refusal('INVALID', 'adaptive goes with the kind adaptive, and the kind with it');
  }
  if (!adaptive) return;
  const adapted = Object.hasOwn(dimensions, adaptive.dimension) ? dimensions[adaptive.dimension] : undefined;
  if (!adapted)
    throw new Refusal('INVALID', `adaptive names ${adaptive.dimension}, which is no dimension of the limit`);
  if (adaptive.min > adapted.amount || adapted.amount > adaptive.max) {
    throw new Refusal(
      'INVALID',
      `the amount of ${adaptive.dimension} is ${adapted.amount}; it must lie between min ${adaptive.min} and max ${adaptive.max}`,
    );
  }
}

function wrongOf(kind: string, name: string, perMs: number | undefined, burst: number | undefined): string | undefined {
  if (burst !== undefined && kind !== 'bucket') return `burst goes with the kind bucket, and this is ${kind}`;
  if (name === 'concurrency') {
    if (perMs !== undefined || burst !== undefined) return 'it is held until it is settled; leave perMs and burst out';
    return kind === 'budget' ? 'a budget has no concurrency; give that a limit of its own' : undefined;
  }
  if (kind === 'budget') return perMs === undefined ? undefined : 'a budget has no refill; leave perMs out';
  return perMs === undefined ? 'perMs says over which time the amount counts' : undefined;
}

const sorted = <T>(record: Readonly<Record<string, T>>): [string, T][] =>
  Object.entries(record).sort(([a], [b]) => (a < b ? -1 : 1));

/** The same text for the same definition, however it was written: what two definitions are compared by, and shown from. */
export function definitionText({ kind, dimensions, adaptive, whenDown }: Omit<Definition, 'name'>): string {
  const rows = sorted(dimensions).map(([name, { amount, perMs, burst }]) => {
    const fullBurst = kind === 'bucket' && perMs !== undefined ? { burst: burst ?? amount } : {};
    return [name, { amount, ...(perMs === undefined ? {} : { perMs }), ...fullBurst }] as const;
  });
  const shown = { kind, dimensions: Object.fromEntries(rows), ...(adaptive ? { adaptive: ordered(adaptive) } : {}) };
  return JSON.stringify({ ...shown, whenDown });
}

const ordered = ({ dimension, min, max, targetMs }: z.output<typeof Adaptive>) => ({ dimension, min, max, targetMs });

export const Usage = z.object({
  amount: z.int(),
  /** Gone and not coming back by a settle. */
  used: z.int(),
  /** Taken by reservations that are not settled yet. */
  reserved: z.int(),
  /** Below zero it is a debt. */
  remaining: z.int(),
});

export const Limit = z.object({
  name: LimitName,
  ...definition,
  usage: z.record(z.string(), Usage),
  waiting: z.int(),
  blockedUntilAt: z.string().optional(),
});
export type Limit = z.input<typeof Limit>;

/** name, definition text, waiting, blockedUntil or '', rows of dimension, amount, used, reserved, remaining. */
export type LimitRow = [string, string, string, string, [string, string, string, string, string][]];

export function limitOf([name, text, waiting, blockedUntil, rows]: LimitRow): Limit {
  const usage = rows.map(([dimension, ...numbers]) => {
    const [amount, used, reserved, remaining] = numbers.map(Number) as [number, number, number, number];
    return [dimension, { amount, used, reserved, remaining }] as const;
  });
  return {
    name,
    ...(JSON.parse(text) as Omit<Definition, 'name'>),
    usage: Object.fromEntries(usage),
    waiting: Number(waiting),
    ...(blockedUntil === '' ? {} : { blockedUntilAt: new Date(Number(blockedUntil)).toISOString() }),
  };
}
