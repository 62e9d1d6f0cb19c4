export type Amounts = Readonly<Record<string, number>>;

export interface Ask {
  readonly name: string;
  readonly cost: Amounts;
  readonly reservation: string;
  readonly waitMs: number;
  readonly leaseMs: number | undefined;
  readonly weight: number;
}

/** By name: the same amounts in another order are the same. */
export const flat = (amounts: Amounts): (string | number)[] =>
  Object.entries(amounts)
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .flat();
