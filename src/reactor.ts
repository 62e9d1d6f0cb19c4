import { type Observable, of, retry, type Subscription } from 'rxjs';
import type { Intent, Push } from '../streams/index.js';
import type { Service } from './lib/service.js';

/** How each intent and push is carried out: one function a kind, so that a new kind does not compile without one. */
export type Handlers = {
  readonly [Kind in Intent['kind']]: (intent: Extract<Intent, { kind: Kind }>) => void;
} & { readonly [Kind in Push['kind']]: (push: Extract<Push, { kind: Kind }>) => void };

/**
 * Runs what the streams ask for. Handlers only start work (a sweep, a claim, a line to a socket) and return; what they
 * start is idempotent, so that a second daemon or the sweeps doing it too does no harm.
 */
export class Reactor implements Service {
  readonly name: string;
  readonly #sources: readonly Observable<Intent | Push>[];
  readonly #handlers: Handlers;
  readonly #onError: (error: unknown) => void;
  #subscriptions: Subscription[] = [];

  constructor(
    name: string,
    sources: readonly Observable<Intent | Push>[],
    handlers: Handlers,
    onError: (error: unknown) => void,
  ) {
    this.name = `reactor ${name}`;
    this.#sources = sources;
    this.#handlers = handlers;
    this.#onError = onError;
  }

  async start(): Promise<void> {
    if (this.#subscriptions.length > 0) return;
    // A fold that throws is our fault and must not make this daemon deaf: it is told, the fold begins anew with the next
    // batch, and what the lost one would have asked for is asked of Redis.
    const delay = (error: unknown): Observable<unknown> => {
      this.#onError(error);
      queueMicrotask(() => this.#run({ kind: 'resync' }));
      return of(undefined);
    };
    this.#subscriptions = this.#sources.map((source) =>
      source.pipe(retry({ delay })).subscribe((ask) => this.#run(ask)),
    );
  }

  async stop(): Promise<void> {
    for (const subscription of this.#subscriptions) subscription.unsubscribe();
    this.#subscriptions = [];
  }

  #run(ask: Intent | Push): void {
    try {
      (this.#handlers[ask.kind] as (ask: Intent | Push) => void)(ask);
    } catch (error) {
      this.#onError(error);
    }
  }
}
