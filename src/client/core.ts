import { Refusal, type WireError } from '../errors.js';
import { Batches } from './batches.js';
import { Budget } from './budget.js';
import { Crew } from './crew.js';
import { Closed, refusalOf } from './errors.js';
import { Feed } from './feed.js';
import { GiveBacks } from './give-backs.js';
import { Holder } from './holder.js';
import { Keepalive } from './keepalive.js';
import { Limits } from './limit.js';
import { Link } from './link.js';
import { Locks } from './lock.js';
import { News } from './news.js';
import { Onces } from './once.js';
import type { Pressure, Settings } from './options.js';
import { Outcomes } from './outcomes.js';
import { Requests } from './requests.js';
import { isFinalRefusal, Session } from './session.js';
import type { Frame, Socket } from './socket.js';

/** The parts of a client and the order of things between them: what happens on hello, on a cut, on a lost session. */
export class Core {
  readonly requests: Requests;
  readonly budget: Budget;
  readonly batches: Batches;
  readonly holder: Holder;
  readonly outcomes: Outcomes;
  readonly crew: Crew;
  readonly locks: Locks;
  readonly limits: Limits;
  readonly onces: Onces;
  readonly feed: Feed;
  readonly session: Session;
  readonly link: Link;
  /** Resolves, never rejects, when it is over for good. */
  readonly closed: Promise<Closed>;
  /** A daemon has opened the session on the socket there is. */
  isOpen = false;
  private readonly news: News;
  private readonly settings: Settings;
  private readonly keepalive = new Keepalive();
  private readonly giveBacks = new GiveBacks();
  private readonly opened: Promise<void>;
  private onOpened: (error?: Error) => void = () => {};
  private onClosed: (closed: Closed) => void = () => {};
  private quietMs = 25_000;
  private lastFault: unknown;

  constructor(settings: Settings) {
    this.settings = settings;
    const { timeoutMs, onError, onPressure } = settings;
    this.closed = new Promise((resolve) => {
      this.onClosed = resolve;
    });
    this.opened = new Promise((resolve, reject) => {
      this.onOpened = (error) => (error ? reject(error) : resolve());
    });
    this.opened.catch(() => {});
    this.budget = new Budget(settings.pendingMax, settings.pendingBytesMax);
    this.requests = new Requests(this.budget, {
      beforeFlush: () => this.batches.flush(),
      asked: () => this.feed.needed(),
      sessionLost: () => this.sessionLost(),
    });
    this.batches = new Batches(this.requests, this.budget, timeoutMs, onPressure);
    this.holder = new Holder(this.requests, ({ epoch }) => this.locks.epoch(String(epoch)));
    const progress = { lane: 'control', repeat: true, timeoutMs } as const;
    this.outcomes = new Outcomes(
      this.batches,
      (params, done) => this.requests.send('queue.progress', params, progress, done),
      onError,
    );
    this.crew = new Crew(this.requests, this.holder, this.outcomes, settings);
    this.locks = new Locks(this.requests, this.holder, this.giveBacks, { timeoutMs, onError });
    this.limits = new Limits(this.requests, this.holder, this.giveBacks, { timeoutMs, onError });
    this.onces = new Onces(this.requests, this.holder, this.giveBacks, timeoutMs);
    this.session = new Session(settings, this.requests);
    const { crew, locks, limits, onces } = this;
    const sessionLost = (session: string): void => {
      if (session === this.session.identity?.session) this.sessionLost();
    };
    this.news = new News({ crew, locks, limits, onces, sessionLost }, (frame) => this.onFrame(frame));
    this.link = this.makeLink();
    this.feed = this.makeFeed();
  }

  /** Resolves with the first open session; keeps trying for `connectTimeoutMs`. */
  async start(): Promise<void> {
    const { connectTimeoutMs, url, signal } = this.settings;
    if (signal?.aborted) throw signal.reason;
    const giveUp = (): void =>
      this.link.end(new Closed(1006, `no daemon at ${url}: ${reasonOf(this.lastFault)}`, this.lastFault));
    const timer = setTimeout(giveUp, connectTimeoutMs);
    signal?.addEventListener('abort', this.onAbort, { once: true });
    this.link.dial();
    try {
      await this.opened;
    } finally {
      clearTimeout(timer);
    }
  }

  end(closed: Closed, code?: number): void {
    this.link.end(closed, code);
  }

  private readonly onAbort = (): void =>
    this.end(new Closed(1000, 'aborted by the caller', this.settings.signal?.reason));

  private makeLink(): Link {
    return new Link(this.settings, {
      connected: (socket, hello) => {
        const { heartbeatMs } = hello as { heartbeatMs?: number };
        this.quietMs = Math.min(heartbeatMs ?? 25_000, 25_000);
        this.requests.attach(socket);
        void this.open(socket, false);
      },
      // After a freeze, before anything of this message can wake a handler.
      message: () => this.holder.check(),
      frame: (frame) => this.news.read(frame),
      drained: () => this.requests.flush(),
      cut: (code, reason, delayMs) => {
        this.isOpen = false;
        this.lastFault ??= new Closed(code, reason);
        this.keepalive.stop();
        this.holder.offline();
        this.crew.offline();
        this.feed.offline();
        this.requests.detach();
        this.settings.onStatus({ state: 'reconnecting', code, reason, delayMs });
      },
      ended: (closed) => this.ended(closed),
    });
  }

  private makeFeed(): Feed {
    const { agent, namespace, timeoutMs, feedBuffer, onError } = this.settings;
    return new Feed(this.requests, {
      // Beside a session there is only its own.
      namespace: agent === undefined ? namespace : undefined,
      timeoutMs,
      bufferMax: feedBuffer,
      onError,
      broken: (afterMs) => this.link.retry(afterMs),
      isNeeded: () => this.requests.busy || this.holder.isNeeded,
      pause: () => {
        this.keepalive.paused(true);
        this.link.socket?.pause();
      },
      resume: () => {
        this.keepalive.paused(false);
        this.link.socket?.resume();
      },
    });
  }

  /** `isSame`: the socket and the cursor on it go on, only the session was lost. */
  private async open(socket: Socket, isSame: boolean): Promise<void> {
    // What the daemon said on another socket, the holdings that come now know better.
    if (!isSame) this.news.clear();
    this.news.hold();
    try {
      const resumed = this.settings.agent === undefined ? false : await this.openSession();
      if (this.link.socket !== socket) return;
      this.isOpen = true;
      this.lastFault = undefined;
      this.link.worked();
      this.keepalive.start(socket, this.quietMs);
      if (!isSame) this.feed.open();
      if (this.settings.agent !== undefined) this.crew.open();
      this.requests.goOn();
      this.settings.onStatus({ state: 'open', resumed });
      this.onOpened();
      this.news.goOn();
    } catch (error) {
      if (this.link.socket !== socket) return;
      this.lastFault = error;
      if (isFinalRefusal(error)) this.end(new Closed(closeCodeOf(error), error.message, error));
      else this.link.retry(error instanceof Refusal ? error.afterMs : undefined);
    }
  }

  private async openSession(): Promise<boolean> {
    const had = this.session.identity !== undefined;
    const { ttlMs, resumed, sentAt, holdings, epoch } = await this.session.open(() => this.loseAll());
    if (had && !resumed) this.loseAll();
    this.quietMs = Math.min(this.quietMs, ttlMs / 3);
    this.holder.opened(ttlMs, sentAt);
    if (resumed) {
      this.crew.reconcile(holdings);
      this.locks.reconcile(holdings);
      this.limits.reconcile(holdings);
      this.onces.reconcile(holdings);
    }
    this.locks.sessionOpened(epoch);
    this.giveBacks.allAgain();
    return resumed;
  }

  private loseAll(): void {
    this.crew.lost('sessionLost');
    this.locks.sessionLost();
    this.limits.sessionLost();
    this.onces.loseAll('sessionLost');
    this.giveBacks.clear();
  }

  /** The session ended under an open socket: a new one is opened there, and the workers are declared to it. */
  private sessionLost(): void {
    const { socket } = this.link;
    if (!this.isOpen || !socket) return;
    this.isOpen = false;
    this.session.forget();
    this.requests.hold();
    this.holder.offline();
    this.crew.offline();
    this.loseAll();
    void this.open(socket, true);
  }

  private ended(closed: Closed): void {
    this.isOpen = false;
    this.keepalive.stop();
    this.settings.signal?.removeEventListener('abort', this.onAbort);
    this.crew.end(closed);
    this.locks.stop('closed');
    this.limits.stop('closed');
    this.onces.loseAll('closed');
    this.holder.stop();
    this.giveBacks.clear();
    this.requests.end(closed);
    this.feed.end(closed);
    this.onOpened(closed.cause instanceof Refusal ? closed.cause : closed);
    this.settings.onStatus({ state: 'closed', closed });
    this.onClosed(closed);
  }

  private onFrame(frame: Frame): void {
    if (frame.id !== undefined) {
      this.requests.settle(frame);
      return;
    }
    switch (frame.op) {
      case 'event':
        this.feed.event(frame);
        break;
      case 'tasks':
        this.crew.tasks(frame);
        break;
      case 'gap':
        this.feed.gap(frame);
        break;
      case 'position':
      case 'heartbeat':
        this.feed.moved(frame);
        break;
      case 'pressure':
        this.batches.pressed(frame as unknown as Pressure);
        this.settings.onPressure(frame as unknown as Pressure);
        break;
      case 'error':
        this.settings.onError(refusalOf(frame.error as WireError));
        break;
    }
  }
}

const closeCodeOf = ({ code }: Refusal): number =>
  code === 'UNAUTHENTICATED' ? 4401 : code === 'FORBIDDEN' ? 4403 : 4400;

const reasonOf = (fault: unknown): string =>
  fault instanceof Closed ? fault.reason : fault instanceof Error ? fault.message : 'no answer';
