import type { Budget } from './budget.js';
import { Joiner } from './joiner.js';
import type { Pressure } from './options.js';
import { Pace } from './pace.js';
import type { Requests } from './requests.js';

/** The verbs that are joined: enqueue by queue, publish, and the three that end an attempt. */
export class Batches {
  readonly complete: Joiner;
  readonly fail: Joiner;
  readonly release: Joiner;
  readonly publish: Joiner;
  private readonly enqueues = new Map<string, Joiner>();
  private readonly make: (op: string, head: string, lane: 'control' | 'bulk', answered?: JoinerAnswered) => Joiner;
  private readonly pace: Pace;
  private readonly onPressure: (pressure: Pressure) => void;

  constructor(requests: Requests, budget: Budget, timeoutMs: number, onPressure: (pressure: Pressure) => void) {
    this.onPressure = onPressure;
    this.pace = new Pace(() => requests.arm());
    this.make = (op, head, lane, answered) =>
      new Joiner(
        {
          op,
          head,
          lane,
          timeoutMs,
          list: op === 'feed.publish' ? 'events' : 'tasks',
          ...(answered ? { answered } : {}),
        },
        requests,
        budget,
      );
    this.complete = this.make('queue.complete', '{"tasks":[', 'control');
    this.fail = this.make('queue.fail', '{"tasks":[', 'control');
    this.release = this.make('queue.release', '{"tasks":[', 'control');
    this.publish = this.make('feed.publish', '{"events":[', 'bulk');
  }

  enqueue(queue: string): Joiner {
    let joiner = this.enqueues.get(queue);
    if (!joiner) {
      joiner = this.make('queue.enqueue', `{"queue":${JSON.stringify(queue)},"tasks":[`, 'bulk', (ok) => {
        const pressure = ok.pressure as Omit<Pressure, 'queue'> | undefined;
        if (!pressure) return;
        this.pace.set({ queue, ...pressure });
        if (pressure.level > 0) this.onPressure({ queue, ...pressure });
      });
      this.enqueues.set(queue, joiner);
    }
    return joiner;
  }

  /** The daemon says how a queue is: by a push, or in the answer to a call by hand. */
  pressed(pressure: Pressure): void {
    this.pace.set(pressure);
  }

  /**
   * Everything of this turn becomes requests, but for queues that asked for a pause. Queues are forgotten: their names may
   * be without end.
   */
  flush(): void {
    this.complete.flush();
    this.fail.flush();
    this.release.flush();
    this.publish.flush();
    if (this.enqueues.size === 0) return;
    const due = [...this.enqueues].filter(([queue]) => this.pace.allows(queue));
    for (const [queue] of due) this.enqueues.delete(queue);
    for (const [, joiner] of due) joiner.flush();
  }
}

type JoinerAnswered = (ok: Record<string, unknown>) => void;
