import { Refusal } from '../errors.js';
import { type Attribute, matchesType } from '../protocol/filter.js';
import { formatPosition, type Position, parsePosition } from '../protocol/position.js';
import { Closed } from './errors.js';
import type { Done, Requests } from './requests.js';
import type { Frame } from './socket.js';
import { type Delivery, type FeedEvent, type Gap, jump, type Listener, Subscription } from './subscription.js';
import { Valve, type ValvePorts } from './valve.js';

export interface SubscribeOptions {
  /** Patterns: `*` is one word, `>` at the end one or more. */
  types: readonly string[];
  /** Attributes of the event that must be equal. */
  where?: Partial<Record<Attribute, string>>;
  /** Where to begin; a position continues after it. One connection has one place, so a later one must leave it out. */
  from?: 'new' | 'all' | { at: string } | { last: number } | (string & {});
  /**
   * What if the log no longer has the place to go on from? `error` refuses; `skip` goes on where it can, and says so by
   * a gap. Left out: a first `from` is refused (whoever gave it should choose), and a resume after a cut skips.
   */
  onGap?: 'error' | 'skip';
}

interface Sub {
  readonly subscription: Subscription;
  readonly options: SubscribeOptions;
  /** It was answered once: from then on it belongs to the cursor and follows its position. */
  live: boolean;
  /** Its name on this connection. */
  wire: string | undefined;
  readonly ready: (error?: Error) => void;
}

export interface FeedPorts extends Omit<ValvePorts, 'stop' | 'start'> {
  readonly namespace: string | undefined;
  readonly timeoutMs: number;
  readonly bufferMax: number;
  onError(error: Error): void;
  /** The cursor could not be restored: another connection has to try. */
  broken(afterMs: number | undefined): void;
}

const typesCached = 1000;

/**
 * One cursor for all subscriptions of the connection, with one position: whatever was received up to there is with its
 * listeners or in their store, so going on from it after a cut loses nothing and doubles nothing.
 */
export class Feed {
  private readonly requests: Requests;
  private readonly ports: FeedPorts;
  private readonly valve: Valve;
  private readonly subs = new Set<Sub>();
  private readonly byType = new Map<string, Sub[]>();
  private at: Position | undefined;
  private online = false;
  /** The daemon went on from another place than we asked for; told before the next line, unless that is the gap itself. */
  private owed: Gap | undefined;
  /** Requests about the cursor that have no answer yet: until then nobody knows whether there is one, and where. */
  private unsettled = 0;
  private onSettled: (() => void) | undefined;

  constructor(requests: Requests, ports: FeedPorts) {
    this.requests = requests;
    this.ports = ports;
    this.valve = new Valve({ ...ports, stop: (done) => this.stop(done), start: () => this.start() });
  }

  /** Everything up to here was received. */
  get position(): string | undefined {
    return this.at && formatPosition(this.at);
  }

  async subscribe(options: SubscribeOptions, listener: Listener | undefined): Promise<Subscription> {
    const { bufferMax, onError } = this.ports;
    const subscription = new Subscription(listener, {
      bufferMax,
      full: () => this.valve.shut(subscription),
      room: () => this.valve.open(subscription),
      close: () => this.remove(sub),
      onError,
    });
    let ready: Sub['ready'] = () => {};
    const answered = new Promise<void>((resolve, reject) => {
      ready = (error) => (error ? reject(error) : resolve());
    });
    const sub: Sub = { subscription, options, live: false, wire: undefined, ready };
    this.subs.add(sub);
    this.byType.clear();
    if (this.online) this.introduce(sub);
    await answered;
    return subscription;
  }

  /** A new connection: all in one message, from the same position. */
  open(): void {
    this.online = true;
    this.valve.connected();
    if (!this.valve.isStopped) this.start();
    else for (const sub of this.subs) if (!sub.live) this.introduce(sub);
  }

  offline(): void {
    this.online = false;
    for (const sub of this.subs) sub.wire = undefined;
  }

  /** Somebody needs answers from the socket. */
  needed(): void {
    this.valve.needed();
  }

  event(frame: Frame): void {
    const offset = frame.offset as number;
    if (!this.at || this.valve.isStopped) return;
    this.tellOwed();
    if (offset <= this.at.offset) return;
    this.at = { epoch: this.at.epoch, offset };
    const event = frame.event as FeedEvent;
    let delivery: Delivery | undefined;
    for (const sub of this.matching(event.type)) {
      if (!sub.live || !matchesWhere(sub.options.where, event.data)) continue;
      delivery ??= { event, offset, position: `${this.at.epoch}:${offset}` };
      sub.subscription.push(delivery);
    }
  }

  gap({ from, to, lost, reason }: Frame): void {
    if (!this.at || this.valve.isStopped) return;
    this.owed = undefined;
    this.tell({ from, to, ...(lost === undefined ? {} : { lost }), reason } as Gap);
  }

  /** `position` and `heartbeat`. */
  moved(frame: Frame): void {
    const to = parsePosition(String(frame.position));
    if (!this.at || this.valve.isStopped || !to) return;
    this.tellOwed();
    this.at = to;
  }

  end(closed: Closed): void {
    for (const sub of this.subs) {
      sub.ready(closed);
      sub.subscription.end(closed);
    }
    this.subs.clear();
    this.valve.end();
  }

  private matching(type: string): readonly Sub[] {
    let subs = this.byType.get(type);
    if (!subs) {
      if (this.byType.size >= typesCached) this.byType.clear();
      subs = [...this.subs].filter(({ options }) => options.types.some((pattern) => matchesType(pattern, type)));
      this.byType.set(type, subs);
    }
    return subs;
  }

  /** All at once, so that they leave in one message: only there may several name a place to begin. */
  private start(): void {
    // What was awaited to begin again may be the end of the socket: the next one begins it.
    if (!this.online) return;
    const { position } = this;
    this.requests.flush();
    for (const sub of this.subs) {
      const { from } = sub.options;
      this.declare(sub, (sub.live || !hasOwnPlace(sub.options) ? position : undefined) ?? from);
    }
    this.requests.flush();
  }

  /** Nobody new waits for one that is full: while the feed is halted, it is told whether the daemon takes it. */
  private introduce(sub: Sub): void {
    this.declare(sub, sub.options.from);
    this.valve.extend();
  }

  private declare(sub: Sub, from: SubscribeOptions['from']): void {
    const { types, where, onGap = sub.live ? 'skip' : undefined } = sub.options;
    const params = JSON.stringify({ types, where, from, onGap, namespace: this.ports.namespace });
    const asked = sub.live ? this.position : undefined;
    const done: Done = (error, ok) => {
      if (error) return this.refused(sub, error);
      this.answered(sub, ok.subscription as string, String(ok.from), asked);
    };
    this.call('feed.subscribe', params, done, (ok) => this.unsubscribe(ok.subscription as string, () => {}));
  }

  private answered(sub: Sub, wire: string, from: string, asked: string | undefined): void {
    if (!this.subs.has(sub) || this.valve.isStopped) {
      this.answeredInVain(sub, wire, from);
      return;
    }
    sub.wire = wire;
    const isFirst = ![...this.subs].some((other) => other !== sub && other.wire !== undefined);
    // The first one sets the cursor; a later one is told how far it is, which we know from its lines.
    if (isFirst) this.owed = asked !== undefined && asked !== from ? jump(asked, from) : undefined;
    // What is owed moves the place when it is told: a cut before that asks from the old one again.
    if ((isFirst && !this.owed) || !this.at) this.at = parsePosition(from);
    sub.live = true;
    sub.ready();
  }

  /**
   * Closed meanwhile, or halted while the answer was on its way: it is declared again when the feed goes on. The daemon
   * may have given it a cursor of its own by then, further on than the one that was ended: that is not our place.
   */
  private answeredInVain(sub: Sub, wire: string, from: string): void {
    this.unsubscribe(wire, () => {});
    if (!this.subs.has(sub)) return;
    if (![...this.subs].some(({ live }) => live)) this.at = parsePosition(from);
    else if (!sub.live && hasOwnPlace(sub.options)) {
      const message = '`from` may come with the first subscription only: the others go on from where that one is';
      this.refused(sub, new Refusal('BAD_POSITION', message));
      return;
    }
    sub.live = true;
    sub.ready();
  }

  private refused(sub: Sub, error: Error): void {
    // Cut before the answer: the next connection declares it.
    if (error instanceof Closed && error.code === 1006) return;
    // What ran before does not end because Redis is away for a moment: the whole connection is made anew.
    if (sub.live && error instanceof Refusal && error.retry) {
      this.ports.broken(error.afterMs);
      return;
    }
    if (!this.subs.delete(sub)) return;
    this.byType.clear();
    sub.ready(error);
    sub.subscription.end(error);
    this.valve.open(sub.subscription);
    this.forgetCursor();
  }

  private async remove(sub: Sub): Promise<void> {
    if (!this.subs.delete(sub)) return;
    this.byType.clear();
    this.valve.open(sub.subscription);
    this.forgetCursor();
    const { wire } = sub;
    if (wire !== undefined && this.online) await new Promise<void>((resolve) => this.unsubscribe(wire, resolve));
  }

  /** With the last subscription the daemon's cursor ends, and with it the place to go on from. */
  private forgetCursor(): void {
    if (this.subs.size > 0) return;
    this.at = undefined;
    this.owed = undefined;
  }

  /** The valve halts the cursor: everything is unsubscribed, what is being declared as soon as it is answered. */
  private stop(done: () => void): void {
    const wires = [...this.subs].flatMap((sub) => sub.wire ?? []);
    for (const sub of this.subs) sub.wire = undefined;
    for (const wire of wires) this.unsubscribe(wire, () => {});
    if (this.unsettled === 0) done();
    else this.onSettled = done;
  }

  private unsubscribe(subscription: string, done: () => void): void {
    this.call('feed.unsubscribe', JSON.stringify({ subscription }), done);
  }

  private call(op: string, params: string, done: Done, late?: (ok: Frame) => void): void {
    const { timeoutMs } = this.ports;
    this.unsettled++;
    this.requests.send(op, params, { lane: 'direct', repeat: false, timeoutMs, late }, (error, ok, sentAt) => {
      done(error, ok, sentAt);
      if (--this.unsettled > 0) return;
      const { onSettled } = this;
      this.onSettled = undefined;
      onSettled?.();
    });
  }

  private tellOwed(): void {
    const { owed } = this;
    this.owed = undefined;
    if (owed) this.tell(owed);
  }

  private tell(gap: Gap): void {
    this.at = parsePosition(gap.to) ?? this.at;
    for (const sub of this.subs) if (sub.live) sub.subscription.push({ gap, position: gap.to });
  }
}

const hasOwnPlace = ({ from }: SubscribeOptions): boolean => from !== undefined && from !== 'new';

function matchesWhere(where: SubscribeOptions['where'], data: unknown): boolean {
  if (!where) return true;
  const attributes = (data ?? {}) as Record<string, unknown>;
  for (const name in where) if (attributes[name] !== where[name as Attribute]) return false;
  return true;
}
