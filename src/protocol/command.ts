import type { z } from 'zod';
import type { Context } from '../context.js';
import type { ErrorCode } from '../errors.js';
import type { Raw } from './raw-json.js';

/**
 * Who may call: `anyone` even before a session (ping, session.open); `watcher` also without a session, with a
 * `namespace` of its own choice, owning nothing; `session` needs a live session.
 */
export type Allowed = 'anyone' | 'watcher' | 'session';

/** One thing a client can ask for. Router, SDK types, CLI, metrics labels and docs are derived from it. */
export interface Command<
  Name extends string = string,
  Params extends z.ZodObject = z.ZodObject,
  Result extends z.ZodType = z.ZodType,
> {
  readonly name: Name;
  /** One sentence for the docs and the CLI. */
  readonly about: string;
  readonly allowed: Allowed;
  readonly params: Params;
  readonly result: Result;
  /** Every code `run` and its scripts may refuse with, apart from those any op can meet (BAD_REQUEST, UNAVAILABLE …). */
  readonly fails: readonly ErrorCode[];
  /**
   * May bring its namespace into being, and does where this answers true. A namespace stays, and there is a limit of them:
   * so whatever can be refused without one is refused here, and a call that needs one that is there answers false.
   */
  opens?(params: z.output<Params>, context: Pick<Context, 'connection' | 'config'>): boolean;
  run(params: z.output<Params>, context: Context): Promise<z.input<Result> | Raw<z.input<Result>>>;
}

// biome-ignore lint/suspicious/noExplicitAny: a table of commands of any shape
export type AnyCommand = Command<string, any, any>;

export function defineCommand<Name extends string, Params extends z.ZodObject, Result extends z.ZodType>(
  command: Command<Name, Params, Result>,
): Command<Name, Params, Result> {
  return command;
}

/** The typed face of a registry: what the client offers for `client.queue.enqueue(params)`. */
export type Calls<Registry> = {
  [Domain in keyof Registry]: {
    [Verb in keyof Registry[Domain]]: Registry[Domain][Verb] extends Command<string, infer P, infer R>
      ? (params: z.input<P>) => Promise<z.output<R>>
      : never;
  };
};
