import { Subject, type Subscription } from 'rxjs';
import { type Floor, floors$, type Sample } from '../../streams/backpressure.js';
import type { Namespace } from '../redis/namespace.js';
import { lua } from '../redis/script.js';
import { parseAdmission } from './admission.js';

const namesScript = lua(import.meta.url, './names.lua', ['after', 'limit']);
const gaugeScript = lua(import.meta.url, './gauge.lua');
/** Queues a script looks at. */
const pageMax = 50;

type Row = [
  queue: string,
  level: number,
  depth: number,
  oldestMs: string,
  rate: string,
  active: number,
  credit: string,
  admission: string,
];

export interface GaugePorts {
  /** Credit of the workers of a queue on this daemon. */
  credit(queue: string): number;
  /** How far behind this daemon is in reading the log. */
  lagMs(): number;
  readonly onError: (error: unknown) => void;
}

/** Once a sweep: tells Redis what this daemon knows of queues with admission, and derives from what comes back. */
export class Gauges {
  readonly #namespace: Namespace;
  readonly #ports: GaugePorts;
  readonly #samples = new Subject<readonly Sample[]>();
  readonly #floors = new Map<string, Floor>();
  readonly #subscription: Subscription;

  constructor(namespace: Namespace, ports: GaugePorts) {
    this.#namespace = namespace;
    this.#ports = ports;
    this.#subscription = floors$(this.#samples).subscribe({
      next: (floors) => {
        this.#floors.clear();
        for (const floor of floors) this.#floors.set(floor.queue, floor);
      },
      error: ports.onError,
    });
  }

  async runOnce(): Promise<undefined> {
    const samples: Sample[] = [];
    for (let after = ''; ; ) {
      const names = await this.#namespace.read<string[]>(namesScript, [after, pageMax]);
      if (names.length > 0) samples.push(...(await this.#look(names)));
      if (names.length < pageMax) break;
      after = names.at(-1)!;
    }
    this.#samples.next(samples);
    return undefined;
  }

  stop(): void {
    this.#subscription.unsubscribe();
  }

  async #look(names: readonly string[]): Promise<Sample[]> {
    const args = names.flatMap((queue) => {
      const { level = 0, why = 'depth', seen = -1 } = this.#floors.get(queue) ?? {};
      return [queue, this.#ports.credit(queue), level, why, seen];
    });
    const [now, rows] = await this.#namespace.call<[string, Row[]]>(gaugeScript, args);
    const lagMs = this.#ports.lagMs();
    return rows.map(([queue, level, depth, oldestMs, rate, active, credit, admission]) => ({
      queue,
      at: Number(now),
      level,
      depth,
      oldestMs: Number(oldestMs),
      rate: Number(rate) / 1000,
      utilisation: Number(credit) > 0 ? active / Number(credit) : 0,
      lagMs,
      bounds: parseAdmission(admission),
    }));
  }
}
