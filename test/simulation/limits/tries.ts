import type { AgentProcess } from '../agents/process.js';
import { type Act, isAct, type Round, type Spend } from './plan.js';

/** What a process prints; see agent.js. */
export interface Line {
  readonly what: 'ready' | 'ask' | 'begin' | 'sure' | 'noted' | 'took' | 'did' | 'end' | 'bye';
  readonly number: number;
  readonly at: number;
  readonly from: number;
  readonly name: string;
  readonly fence: number;
  readonly as: 'new' | 'unknown';
  readonly value?: string;
  readonly how: string;
}

/** What an agent had: from its first line in the handler to the last moment at which it was sure of it. */
export interface Had {
  /** The reservation or the key. */
  readonly name: string;
  readonly fence: number;
  readonly as: 'new' | 'unknown';
  readonly from: number;
  to: number;
}

/** One call of an agent, from its question to what became of it. */
export interface Try<R extends Round = Round> {
  readonly agent: string;
  readonly number: number;
  readonly round: R;
  readonly askedAt: number;
  had?: Had;
  /** When it told the limit what a provider had said: asked, answered. */
  noted?: { readonly from: number; readonly to: number };
  /** It said what it took from then on. */
  tookAt?: number;
  /** It said how the act ended from then on, and with which words. */
  did?: { readonly at: number; readonly value: string };
  /** Undefined: it was killed before it heard. */
  endedAt?: number;
  how?: string;
  value?: string;
}

export function triesOf({ plan, lines }: AgentProcess<Line>): Try[] {
  const tries = new Map<number, Try>();
  for (const { what, number, at, from, name, fence, as, value, how } of lines) {
    const one = tries.get(number)!;
    if (what === 'ask') {
      const round = plan.rounds[number % plan.rounds.length] as Round;
      tries.set(number, { agent: plan.name, number, round, askedAt: at });
    } else if (what === 'begin') one.had = { name, fence, as, from: at, to: at };
    else if (what === 'sure') one.had!.to = at;
    else if (what === 'noted') one.noted = { from, to: at };
    else if (what === 'took') one.tookAt = at;
    else if (what === 'did') one.did = { at, value: value! };
    else if (what === 'end') Object.assign(one, { endedAt: at, how, value });
  }
  return [...tries.values()];
}

export const spendsOf = (tries: readonly Try[]): Try<Spend>[] =>
  tries.filter((one): one is Try<Spend> => !isAct(one.round));
export const actsOf = (tries: readonly Try[]): Try<Act>[] => tries.filter((one): one is Try<Act> => isAct(one.round));

export const show = ({ agent, number, had }: Try): string =>
  had
    ? `${agent}#${number} (fence ${had.fence}, ${had.from.toFixed(1)} to ${had.to.toFixed(1)})`
    : `${agent}#${number}`;
