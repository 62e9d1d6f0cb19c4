import type { Delivery, Subscription } from './subscription.js';

export interface Observer {
  next?: (delivery: Delivery) => void;
  error?: (error: unknown) => void;
  complete?: () => void;
}

/** What `rxjs.from()` takes: no library is needed here for that. */
export interface Observable {
  subscribe(observer: Observer | ((delivery: Delivery) => void)): { unsubscribe(): void };
}

// RxJS asks for the symbol if somebody has made one, else for this name.
const key: string | symbol = (Symbol as unknown as { observable?: symbol }).observable ?? '@@observable';

/** Cold, like any observable: each `subscribe` is a subscription of its own and ends with it. */
export function observableOf(subscribe: (next: (delivery: Delivery) => void) => Promise<Subscription>): Observable {
  const observable: Observable = {
    subscribe(given) {
      const observer: Observer = typeof given === 'function' ? { next: given } : given;
      let closed = false;
      const opened = subscribe((delivery) => {
        if (!closed) observer.next?.(delivery);
      });
      opened.then(
        (subscription) => {
          if (closed) return;
          subscription.whenEnded((error) => {
            if (closed) return;
            closed = true;
            if (error) observer.error?.(error);
            else observer.complete?.();
          });
        },
        (error) => {
          if (!closed) observer.error?.(error);
          closed = true;
        },
      );
      return {
        unsubscribe() {
          if (closed) return;
          closed = true;
          opened.then((subscription) => subscription.close()).catch(() => {});
        },
      };
    },
  };
  Object.defineProperty(observable, key, { value: () => observable });
  return observable;
}
