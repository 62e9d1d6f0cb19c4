import type { Core } from './core.js';
import type { Amounts, LimitCall, LimitHandler, LimitOptions } from './limit-options.js';
import type { LockCall, LockHandler, LockNames, LockOptions } from './lock-options.js';
import type { OnceFace, OnceHandler, OnceOptions } from './once-options.js';

/** Domains whose name is a call as well: `sb.lock(name, handler)` beside `sb.lock.acquire(params)`. */
export interface Faces {
  readonly lock: LockCall;
  readonly limit: LimitCall;
  readonly once: OnceFace;
}

export function facesOf(core: Core): Faces {
  return {
    lock: <R>(names: LockNames, options: LockOptions | LockHandler<R>, handler?: LockHandler<R>): Promise<R> => {
      core.holder.check();
      return core.locks.run(
        names,
        ...parted<LockOptions, LockHandler<R>>('sb.lock(name, options, handler)', options, handler),
      );
    },
    limit: <R>(
      name: string,
      cost: Amounts,
      options: LimitOptions | LimitHandler<R>,
      handler?: LimitHandler<R>,
    ): Promise<R> => {
      core.holder.check();
      return core.limits.run(
        name,
        cost,
        ...parted<LimitOptions, LimitHandler<R>>('sb.limit(name, cost, options, handler)', options, handler),
      );
    },
    once: <R>(
      key: string,
      payload: unknown,
      options: OnceOptions<R> | OnceHandler<R>,
      handler?: OnceHandler<R>,
    ): Promise<R> => {
      core.holder.check();
      return core.onces.run(
        key,
        payload,
        ...parted<OnceOptions<R>, OnceHandler<R>>('sb.once(key, payload, options, handler)', options, handler),
      );
    },
  };
}

/** The options may be left out. */
export function parted<Options, Handler extends (...args: never[]) => unknown>(
  form: string,
  options: Options | Handler,
  handler: Handler | undefined,
): [Options, Handler] {
  if (typeof options === 'function') return [{} as Options, options as Handler];
  if (!handler) throw new TypeError(`${form}: there is no handler`);
  return [options, handler];
}

/** The call by the domain's name and the calls of its verbs as one. */
export function faceOf(calls: object, call: object | undefined): object {
  if (!call) return calls;
  return new Proxy(call, { get: (target, verb) => Reflect.get(calls, verb) ?? Reflect.get(target, verb) });
}
