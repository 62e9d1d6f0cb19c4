import { Refusal, type WireError } from '../errors.js';
import { isShallow } from '../protocol/raw-json.js';
import type { Budget } from './budget.js';
import { type Moment, now } from './clock.js';
import { Closed, refusalOf, timedOut } from './errors.js';
import { isRepeatable, laneOf } from './ops.js';
import { lineBytesMax } from './options.js';
import type { Frame, Socket } from './socket.js';
import { Turn } from './turn.js';
import { type Timed, Wheel } from './wheel.js';

/** Called in step with the lines: what stands behind the reply in the same message comes after it. */
export type Done = (error: Error | undefined, ok: Frame, sentAt: Moment) => void;

export interface Traits {
  /** `control` overtakes bulk work; `direct` is for this socket only: it passes at once, also while the session opens. */
  readonly lane: 'direct' | 'control' | 'bulk';
  /** Sent again after a lost reply: it names what it makes, so twice is once. */
  readonly repeat: boolean;
  readonly timeoutMs: number;
  /** False for a joined line: its items have paid already. */
  readonly charge?: boolean | undefined;
  /** A reply that comes after the caller was told TIMEOUT. */
  readonly late?: ((ok: Frame) => void) | undefined;
}

interface Request extends Timed, Traits {
  readonly id: number;
  readonly op: string;
  readonly line: string;
  readonly bytes: number;
  readonly done: Done;
  sentAt: Moment | undefined;
  /** How often it was written to a socket. */
  sends: number;
}

export interface RequestHooks {
  /** Called before lines are written: those who join items put in theirs. */
  beforeFlush(): void;
  /** An answer will be awaited on the socket. */
  asked(): void;
  sessionLost(): void;
}

const lanes = ['direct', 'control', 'bulk'] as const;
const lateMax = 1000;

/**
 * Every request that has no answer yet: those on the wire, in the order they went, and those that wait for the socket.
 * After a cut, what is safe to repeat waits again, in its order; the rest is told that it may have happened.
 */
export class Requests {
  private readonly table = new Map<number, Request>();
  private readonly waiting = { direct: new Set<Request>(), control: new Set<Request>(), bulk: new Set<Request>() };
  private readonly late = new Map<number, (ok: Frame) => void>();
  private readonly wheel = new Wheel<Request>(50, (request) => this.expire(request));
  private readonly turn = new Turn(() => this.flush());
  private readonly budget: Budget;
  private readonly hooks: RequestHooks;
  private socket: Socket | undefined;
  private open = false;
  private openedAt = 0;
  private ended: Closed | undefined;
  private lastId = 0;
  private onIdle: (() => void)[] = [];

  constructor(budget: Budget, hooks: RequestHooks) {
    this.budget = budget;
    this.hooks = hooks;
  }

  /** True while a caller waits for an answer (or an answer is on its way to nobody). */
  get busy(): boolean {
    return this.table.size > 0;
  }

  /** Resolves when nothing is unanswered. */
  idle(): Promise<void> {
    return new Promise((resolve) => {
      this.onIdle.push(resolve);
      this.tellIdle();
    });
  }

  send(op: string, params: string, traits: Traits, done: Done): void {
    const id = ++this.lastId;
    const line = `{"id":${id},"op":"${op}","params":${params}}`;
    const bytes = Buffer.byteLength(line);
    const refused = this.refuse(line, bytes, traits);
    if (refused) {
      done(refused, {}, now());
      return;
    }
    const { lane, repeat, timeoutMs, charge, late } = traits;
    // Spreading `traits` into it costs more than all the rest of a call.
    const request: Request = {
      lane,
      repeat,
      timeoutMs,
      charge,
      late,
      id,
      op,
      line,
      bytes,
      done,
      sentAt: undefined,
      sends: 0,
      slot: 0,
    };
    this.table.set(id, request);
    this.waiting[traits.lane].add(request);
    this.wheel.add(request, traits.timeoutMs);
    this.hooks.asked();
    this.turn.arm();
  }

  /** One op with the traits that go with its name. */
  ask(op: string, params: object, timeoutMs: number): Promise<{ ok: Frame; sentAt: Moment }> {
    const traits = { lane: laneOf(op), repeat: isRepeatable(op), timeoutMs };
    return new Promise((resolve, reject) => {
      const done: Done = (error, ok, sentAt) => (error ? reject(error) : resolve({ ok, sentAt }));
      this.send(op, JSON.stringify(params), traits, done);
    });
  }

  /** Something is to be written at the end of this turn. */
  arm(): void {
    this.turn.arm();
  }

  settle(frame: Frame): void {
    const id = frame.id as number;
    const request = this.table.get(id);
    if (!request) {
      this.settleLate(id, frame);
      return;
    }
    const error = frame.error as WireError | undefined;
    if (error && request.lane !== 'direct' && this.waitsForAnother(request, error)) return;
    this.drop(request);
    request.done(error && refusalOf(error, request.sends > 1), (frame.ok ?? {}) as Frame, request.sentAt ?? now());
  }

  /** A socket is there: `direct` requests go out. The rest follows with `goOn`. */
  attach(socket: Socket): void {
    this.socket = socket;
  }

  goOn(): void {
    this.open = true;
    this.openedAt = performance.now();
    this.flush();
  }

  /** The session has to be opened again on this socket: everything else waits. */
  hold(): void {
    this.open = false;
  }

  detach(): void {
    this.socket = undefined;
    this.open = false;
    this.late.clear();
    for (const set of Object.values(this.waiting)) set.clear();
    for (const request of [...this.table.values()]) {
      if (request.lane === 'direct') this.reject(request, new Closed(1006, 'the connection was cut'));
      else if (request.sentAt && !request.repeat) this.reject(request, timedOut(request.op, true));
      else this.waiting[request.lane].add(request);
    }
  }

  end(closed: Closed): void {
    this.ended = closed;
    for (const request of [...this.table.values()]) this.reject(request, closed);
  }

  flush(): void {
    this.hooks.beforeFlush();
    const { socket } = this;
    if (!socket) return;
    const sentAt = now();
    for (const lane of lanes) {
      if (lane !== 'direct' && !this.open) break;
      for (const request of this.waiting[lane]) {
        if (lane !== 'direct' && !socket.hasRoom) break;
        this.waiting[lane].delete(request);
        request.sentAt = sentAt;
        request.sends++;
        socket.write(request.line, request.bytes);
      }
    }
    socket.flush();
  }

  private refuse(line: string, bytes: number, traits: Traits): Error | undefined {
    if (this.ended) return this.ended;
    if (bytes > lineBytesMax)
      return new Refusal('TOO_LARGE', `a request of ${bytes} bytes exceeds a line of ${lineBytesMax}`);
    // The daemon could not say which request it was, so this one is refused here.
    if (!isShallow(line)) return new Refusal('BAD_FRAME', 'the params nest too deep');
    return isCharged(traits) ? this.budget.take(bytes) : undefined;
  }

  /** Refused for where it was asked, and nothing was done: unsent again, it goes to the next daemon or session. */
  private waitsForAnother(request: Request, { code }: WireError): boolean {
    if (code !== 'DRAINING' && code !== 'SESSION_LOST') return false;
    const isOfThisSession = request.sentAt !== undefined && request.sentAt.mono >= this.openedAt;
    request.sentAt = undefined;
    request.sends--;
    if (code === 'DRAINING') return true;
    this.waiting[request.lane].add(request);
    // It may be the session before that was lost, and the news come late.
    if (isOfThisSession) this.hooks.sessionLost();
    this.turn.arm();
    return true;
  }

  private expire(request: Request): void {
    if (request.late && request.sentAt && this.late.size < lateMax) this.late.set(request.id, request.late);
    this.reject(request, timedOut(request.op, request.sentAt !== undefined));
  }

  private settleLate(id: number, frame: Frame): void {
    const late = this.late.get(id);
    this.late.delete(id);
    if (late && frame.ok) late(frame.ok as Frame);
  }

  private reject(request: Request, error: Error): void {
    this.drop(request);
    request.done(error, {}, request.sentAt ?? now());
  }

  private drop(request: Request): void {
    this.table.delete(request.id);
    this.waiting[request.lane].delete(request);
    this.wheel.delete(request);
    if (isCharged(request)) this.budget.give(request.bytes);
    if (this.table.size === 0 && this.onIdle.length > 0) queueMicrotask(this.tellIdle);
  }

  private readonly tellIdle = (): void => {
    // Items that were joined in this turn are not requests yet, but they have been charged.
    if (this.table.size === 0 && this.budget.pending === 0) for (const resolve of this.onIdle.splice(0)) resolve();
  };
}

/** What keeps the session going must pass however much its user has asked for. */
const isCharged = ({ charge, lane }: Traits): boolean => charge !== false && lane !== 'direct';
