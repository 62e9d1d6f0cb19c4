import type { CommandEvent } from '../gateway/probes.js';

/** Upper bounds in seconds. An op that waits (queue.claim, queue.result) fills the last ones. */
const bounds = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10];

interface Row {
  readonly codes: Map<string, number>;
  readonly buckets: number[];
  sumMicros: number;
  count: number;
}

interface Value {
  readonly labels: Record<string, string | number>;
  readonly value: number;
  readonly metricName?: string;
}

/**
 * Counts requests. Every request passes here, so it costs two look-ups and no object; prom-client's own counters hash
 * their labels each time. Op and code come from the registry and the catalogue: their number is bounded.
 */
export class Tally {
  readonly #rows = new Map<string, Row>();

  count({ name, code, micros }: CommandEvent): void {
    const op = name === '' ? 'unknown' : name;
    let row = this.#rows.get(op);
    if (!row) {
      row = { codes: new Map(), buckets: bounds.map(() => 0), sumMicros: 0, count: 0 };
      this.#rows.set(op, row);
    }
    row.codes.set(code, (row.codes.get(code) ?? 0) + 1);
    row.sumMicros += micros;
    row.count++;
    const at = bounds.findIndex((bound) => micros <= bound * 1e6);
    if (at >= 0) row.buckets[at]!++;
  }

  /** As prom-client's registry reads it. */
  requests(): Value[] {
    return [...this.#rows].flatMap(([op, { codes }]) =>
      [...codes].map(([code, value]) => ({ labels: { op, code }, value })),
    );
  }

  /** A histogram of the time from line to answer, in seconds. */
  durations(name: string): Value[] {
    return [...this.#rows].flatMap(([op, { buckets, sumMicros, count }]) => {
      let sum = 0;
      const below = buckets.map((value, at) => {
        sum += value;
        return { metricName: `${name}_bucket`, labels: { le: bounds[at]!, op }, value: sum };
      });
      return [
        ...below,
        { metricName: `${name}_bucket`, labels: { le: '+Inf', op }, value: count },
        { metricName: `${name}_sum`, labels: { op }, value: sumMicros / 1e6 },
        { metricName: `${name}_count`, labels: { op }, value: count },
      ];
    });
  }
}
