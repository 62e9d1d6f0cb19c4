import { instead } from './ops.js';

export type Ask = (op: string, params: Record<string, unknown>) => Promise<unknown>;

/**
 * The face of one domain: any verb is a call. Which verbs there are is the business of the types, which come from the
 * registry; the daemon refuses the rest with UNKNOWN_OP. Calls are made once and kept: a loop asks for the same one.
 */
export function callsOf(domain: string, ask: Ask): object {
  const known = new Map<string, unknown>();
  return new Proxy(Object.freeze({}), {
    get(_, verb) {
      // Somebody awaits the domain itself, or prints it: it is neither a promise nor anything else with symbols.
      if (typeof verb !== 'string' || verb === 'then') return undefined;
      let call = known.get(verb);
      if (!call) {
        const op = `${domain}.${verb}`;
        const other = instead[op];
        call = (params: Record<string, unknown> = {}) =>
          other ? Promise.reject(new TypeError(`${op} is done by ${other}`)) : ask(op, params);
        known.set(verb, call);
      }
      return call;
    },
  });
}
