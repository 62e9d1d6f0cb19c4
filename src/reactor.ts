import type { Observable, Subscription } from 'rxjs';
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
    this.#subscriptions = this.#sources.map((source) =>
      source.subscribe({
        next: (ask) => this.#run(ask),
        // The log never ends in error; if a fold throws that is our fault, and the sweeps go on without it.
        error: (error) => this.#onError(error),
      }),
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
