/**
 * The one shape of everything that lives long. `start` resolves when the service does its work, `stop` when it has
 * let go of every socket, timer and child. Both may be called twice; stopping what never started is fine.
 */
export interface Service {
  readonly name: string;
  start(): Promise<void>;
  stop(): Promise<void>;
}
