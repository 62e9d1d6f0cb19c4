import type { Disturbance } from '../agents/stage.js';
import type { TapEvent } from '../tap.js';
import { type Capacities, clash, givesWay, type Want } from './words.js';

interface Request {
  readonly grant: string;
  readonly agent: string;
  readonly session: string;
  readonly wants: Want[];
  /** How many events of it there are: one for each of its locks. */
  readonly locks: readonly string[];
  readonly at: number;
  readonly endsAt: number;
  readonly offset: number;
}

/** Waiting and granted requests, and what is wrong, as the log tells it event by event. */
class Replay {
  readonly problems: string[] = [];
  readonly waiting = new Map<string, Request>();
  readonly held = new Map<string, Request>();
  readonly #capacities: Capacities;
  readonly #disturbed: (agent: string, from: number, to: number) => boolean;

  constructor(capacities: Capacities, disturbed: (agent: string, from: number, to: number) => boolean) {
    this.#capacities = capacities;
    this.#disturbed = disturbed;
  }

  take(event: TapEvent): void {
    const { type, data, entry } = event;
    // Each event of a request adds one of its locks; only whole requests are looked at.
    if (type === 'lock.waiting') this.#add(this.waiting, event);
    else if (type === 'lock.granted') this.#granted(event);
    else if (type === 'lock.waitEnded') this.#end(this.waiting, data, `waitEnded at ${entry}`);
    else if (type === 'lock.released' || type === 'lock.lost') this.#end(this.held, data, `${type} at ${entry}`);
  }

  #add(where: Map<string, Request>, { data, at, offset }: TapEvent): Request {
    const { lock: name, locks = [name], grant, agent, session, mode, permits, endsAt } = data;
    const request: Request = where.get(grant) ?? {
      grant,
      agent,
      session,
      wants: [],
      locks,
      at,
      endsAt: endsAt === undefined ? Number.POSITIVE_INFINITY : Date.parse(endsAt),
      offset,
    };
    request.wants.push({ name, ...(mode ? { mode } : {}), ...(permits ? { permits } : {}) });
    where.set(grant, request);
    return request;
  }

  #granted(event: TapEvent): void {
    const { data, offset } = event;
    const waited = this.waiting.get(data.grant);
    const request = this.#add(this.held, event);
    if (request.wants.length < request.locks.length) return;
    this.waiting.delete(data.grant);
    const ticket = waited?.offset ?? offset;
    const wrong = clash(
      [...this.held.values()].map(({ wants }) => wants),
      this.#capacities,
    );
    if (wrong) this.problems.push(`granted at ${offset}: ${wrong}`);
    if (data.reclaimed === undefined) this.#inTurn(request, ticket, event);
  }

  /** Nobody who came earlier and could not stand beside it is passed, but for those who are away. */
  #inTurn({ wants, grant, agent }: Request, ticket: number, { at, offset }: TapEvent): void {
    for (const earlier of this.waiting.values()) {
      if (earlier.offset > ticket || !givesWay(wants, earlier.wants, this.#capacities)) continue;
      if (earlier.endsAt <= at || this.#disturbed(earlier.agent, earlier.at, at)) continue;
      this.problems.push(
        `granted at ${offset}: ${agent}'s ${grant} passes ${earlier.agent}'s ${earlier.grant}, which waits since ${earlier.offset}`,
      );
    }
  }

  #end(where: Map<string, Request>, { grant, locks, lock }: TapEvent['data'], what: string): void {
    const request = where.get(grant);
    if (!request) {
      // The first event of several has ended it.
      if (locks === undefined || locks[0] === lock) this.problems.push(`${what}: ${grant} was not there`);
      return;
    }
    where.delete(grant);
  }
}

/** Holders fit together, waits and holds end exactly once, and nobody who is there is passed. */
export function replayed(
  standing: readonly TapEvent[],
  capacities: Capacities,
  disturbances: readonly Disturbance[],
): Replay {
  const disturbed = (agent: string, from: number, to: number): boolean =>
    disturbances.some((one) => (one.agent ?? agent) === agent && one.from <= to && one.to >= from);
  const replay = new Replay(capacities, disturbed);
  for (const event of standing) if (event.own) replay.take(event);
  return replay;
}

/** Every grant has a higher fence than all before it, in the order in which they were made, whatever was lost meanwhile. */
export function fencesOf(events: readonly TapEvent[]): string[] {
  const problems: string[] = [];
  let [last, grant] = [0, ''];
  for (const { type, data, epoch, offset } of events) {
    if (type !== 'lock.granted') continue;
    if (data.fence < last || (data.fence === last && data.grant !== grant)) {
      problems.push(`${epoch}:${offset}: fence ${data.fence} after ${last}`);
    }
    [last, grant] = [data.fence, data.grant];
  }
  return problems;
}
