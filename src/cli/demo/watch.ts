import { connect, type Delivery, type Signalbox } from '../../client/index.js';

/** What the watcher looks at: every event of tasks and sessions, and what services publish about batches. */
export const types = ['task.>', 'session.>', 'batch.*'];

/** The watcher: its record of the feed, and what it counts from it for the display. */
export class Watcher {
  readonly offsets: number[] = [];
  readonly gaps: object[] = [];
  readonly published: string[] = [];
  readonly completions = new Map<string, number>();
  /** Tasks an agent holds now, as far as the feed tells. */
  readonly holding = new Map<string, Set<string>>();
  /** Attempts that were taken back, by the agent that had them. */
  readonly redeliveredFrom = new Map<string, number>();
  cuts = 0;
  #client: Signalbox | undefined;
  #from = '';
  readonly #waiting = new Set<() => void>();

  async start(url: string, token: string | undefined): Promise<void> {
    this.#client = await connect({
      url,
      ...(token === undefined ? {} : { token }),
      onStatus: ({ state }) => {
        if (state === 'reconnecting') this.cuts++;
      },
      onError: () => undefined,
    });
    await this.#client.subscribe({ types, from: 'new' }, (delivery) => this.#take(delivery));
    this.#from = this.#client.position!;
  }

  /** The first position that was not handled when the watch began. */
  get from(): string {
    return this.#from;
  }

  get completed(): number {
    return this.completions.size;
  }

  get redelivered(): number {
    return [...this.redeliveredFrom.values()].reduce((sum, count) => sum + count, 0);
  }

  get duplicates(): number {
    return [...this.completions.values()].filter((count) => count > 1).length;
  }

  /** Resolves as soon as `holds`; looked at after every event. */
  until(holds: () => boolean): Promise<void> {
    return new Promise((resolve) => {
      const look = (): void => {
        if (!holds()) return;
        this.#waiting.delete(look);
        resolve();
      };
      this.#waiting.add(look);
      look();
    });
  }

  async stop(): Promise<void> {
    await this.#client?.close({ limitMs: 0 });
  }

  #take(delivery: Delivery): void {
    if (delivery.gap) this.gaps.push(delivery.gap);
    else {
      this.offsets.push(delivery.offset);
      this.#count(delivery.event.type, delivery.event.data as { task?: string; agent?: string });
    }
    for (const look of [...this.#waiting]) look();
  }

  #count(type: string, { task = '', agent = '' }: { task?: string; agent?: string }): void {
    if (type.startsWith('batch.')) this.published.push(type);
    const held = this.holding.get(agent) ?? new Set();
    if (agent !== '') this.holding.set(agent, held);
    if (type === 'task.claimed') held.add(task);
    else if (type.startsWith('task.') && agent !== '') held.delete(task);
    if (type === 'task.completed') this.completions.set(task, (this.completions.get(task) ?? 0) + 1);
    if (type === 'task.retried' || type === 'task.released')
      this.redeliveredFrom.set(agent, (this.redeliveredFrom.get(agent) ?? 0) + 1);
  }
}
