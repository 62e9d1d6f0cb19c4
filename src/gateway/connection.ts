import type { WebSocket } from 'ws';
import type { ConnectionPort, SessionRef } from '../context.js';
import { Refusal, type WireError } from '../errors.js';
import type { FeedPort } from '../feed/port.js';
import { closedLine, errorLine, heartbeatLine, pushLine } from '../protocol/frame.js';
import type { WorkersPort } from '../queue/port.js';
import { bounds } from './bounds.js';
import { FeedLane } from './feed-lane.js';
import { pongNumber } from './framing.js';
import type { Arrival, Ending, Shared } from './hooks.js';
import { Identity } from './identity.js';
import { Inbox, type InboxOwner } from './inbox.js';
import { Outbox, type OutboxOwner } from './outbox.js';
import { Ports } from './ports.js';
import { guarded, probeConnection, reportFault } from './probes.js';
import { Pulse, type Pulsed } from './pulse.js';
import { Receipts, type Settled } from './receipts.js';
import type { WorkersSink } from './sinks.js';

/** `readyState` of a ws that has neither sent nor answered a close frame. */
const openState = 1;

/**
 * One connection. `open` until somebody closes it, `closing` until the socket is gone (nothing is read or written any
 * more), then `closed`. It only joins its parts: who it is (identity), what it asks (inbox), what is written (outbox),
 * what has to arrive (receipts), what the clock does to it (pulse), what hangs on it (ports).
 */
export class Connection implements ConnectionPort, InboxOwner, OutboxOwner, Pulsed, WorkersSink {
  readonly id: number;
  readonly address: string;
  readonly identity: Identity;
  /** Number of the inbound message whose line is being started. */
  message = 0;
  /** Why it ends, once it does: by us, or as ws told us. */
  closing: { readonly how: Ending; readonly code: number; readonly reason: string } | undefined;
  /** We do not read it for now: it asks faster than it is answered, or than it reads the answers. */
  paused = false;
  #phase: 'open' | 'closing' | 'closed' = 'open';
  readonly #ws: WebSocket;
  readonly #shared: Shared;
  readonly #inbox: Inbox;
  readonly #outbox: Outbox;
  readonly #receipts: Receipts;
  readonly #pulse: Pulse;
  readonly #ports: Ports;
  #onPong: (() => void) | undefined;

  constructor({ ws, socket, address, authenticated }: Arrival, shared: Shared) {
    const { config, registry, wheel, hooks } = shared;
    this.id = registry.nextId();
    this.address = address;
    this.#ws = ws;
    this.#shared = shared;
    this.identity = new Identity(authenticated, config, hooks);
    this.#inbox = new Inbox(this, shared.pipeline, wheel);
    this.#outbox = new Outbox(socket, this, shared, config.gateway);
    this.#receipts = new Receipts(config.session.receiptMs);
    const parts = { socket, outbox: this.#outbox, receipts: this.#receipts };
    this.#pulse = new Pulse(wheel, parts, this, config.gateway);
    this.#ports = new Ports(this, hooks);
    this.#listen(ws);
    registry.add(this);
    probeConnection({ kind: 'opened', id: this.id, address });
    this.#outbox.line(shared.hello);
    this.#pulse.beat(this.#pingMs());
    if (!authenticated) this.#pulse.expectAuth(config.gateway.authMs);
  }

  #listen(ws: WebSocket): void {
    // A bad frame is an `error` of the socket; without a listener in the same tick it would end the process.
    ws.on('error', (error) => this.#abandon(1002, error.message));
    ws.on('message', (data, binary) => guarded('a message', () => this.#read(data as Buffer, binary)));
    ws.on('ping', () => guarded('a ping', () => this.#heard()));
    ws.on('pong', (data) => guarded('a pong', () => this.#ponged(data)));
    ws.on('close', (code, reason) => this.#closed(code, reason.toString()));
  }

  // ---- for commands, and for what the app hangs on it

  /** The session while it lives; in the `closed` hook, the one that was live at the end. */
  get session(): SessionRef | undefined {
    return this.identity.session;
  }

  get namespaceName(): string {
    return this.identity.heldNamespace ?? 'default';
  }

  attach(session: SessionRef): void {
    if (this.#phase !== 'open') return; // The socket went while the session was opened: session.open sees to it.
    if (this.session && this.session.id !== session.id) this.detach();
    this.identity.attach(session);
    this.#shared.registry.attach(session.id, this);
    this.#shared.hooks.attached(this);
    this.#pulse.beat(this.#pingMs());
  }

  detach(): void {
    this.#letGoOfSession();
    this.identity.detach();
  }

  /** The session has ended elsewhere: the client is told and keeps the socket. */
  lose(reason: string): void {
    const { session } = this;
    if (!session) return;
    this.push(pushLine('lost', { kind: 'session', name: session.id, reason }));
    this.#letGoOfSession();
    this.identity.lose();
  }

  authenticate(token: string | undefined): boolean {
    const right = token === undefined ? this.identity.authenticated : this.#shared.token.accepts(token);
    if (right && !this.identity.authenticated) {
      this.identity.authenticated = true;
      this.#pulse.expectAuth(Number.POSITIVE_INFINITY);
    }
    return right;
  }

  push(line: string): void {
    if (!this.#outbox.fits(line)) {
      reportFault('a push larger than gateway.lineBytes', new Error(`${line.slice(0, 60)}…`));
      return;
    }
    this.#outbox.line(line);
    this.#throttle();
  }

  deliver(line: string, settled: Settled): void {
    if (this.#outbox.fits(line)) this.#outbox.deliver(line, settled);
    else settled('unwritten');
  }

  onPong(heard: () => void): void {
    this.#onPong = heard;
  }

  get feed(): FeedPort {
    this.#pulse.expectTail();
    return this.#ports.feed(() => new FeedLane(this.#outbox, this));
  }

  get workers(): WorkersPort {
    return this.#ports.workers;
  }

  get gone(): AbortSignal {
    return this.#ports.gone;
  }

  /** Says why in a `closed` line and closes. What is in flight is carried out, its answers are not written. */
  close(code: number, reason: string, how: Ending = 'broken', afterMs?: number): void {
    if (this.#phase !== 'open') return;
    this.#phase = 'closing';
    this.closing = { how, code, reason };
    this.#outbox.end(closedLine(code, reason, afterMs));
    this.#ports.leave();
    // Handed back now, refunded: whoever takes over must not wait for us.
    if (how === 'drained') this.#receipts.end('silent');
    if (this.paused) this.#ws.resume(); // Or its close frame is never seen.
    this.#ws.close(code, reason);
    this.#pulse.linger(how === 'stalled' ? bounds.lingerStalledMs : bounds.lingerMs);
  }

  terminate(): void {
    this.#ws.terminate();
  }

  // ---- for the pipeline
  answer(id: number | undefined, line: string, unwritten?: () => void): void {
    if (id === undefined) return;
    if (!this.#outbox.fits(line)) {
      if (unwritten) guarded('the fate of a reply', unwritten);
      this.refuse(id, new Refusal('TOO_LARGE', 'the answer would be larger than a line may be').toWire());
    } else if (this.#inbox.answered(id)) {
      this.#outbox.line(line, unwritten);
      this.#throttle();
    }
  }

  refuse(id: number | undefined, error: WireError): void {
    if (id === undefined || this.#inbox.answered(id)) this.push(errorLine(id, error));
  }

  get reading(): boolean {
    return this.#phase === 'open';
  }

  // ---- for the outbox and the pulse

  get writable(): boolean {
    return this.#ws.readyState === openState;
  }

  get hasTail(): boolean {
    return this.#ports.tail !== undefined;
  }

  wrote(number: number | undefined, settled: readonly Settled[]): void {
    this.#receipts.wrote(number, settled, this.#shared.wheel.now);
    this.#pulse.expectReceipt(this.#shared.config.session.receiptMs);
  }

  blocked(is: boolean): void {
    this.#pulse.blocked(is);
    this.#ports.blocked(is);
    this.#throttle();
  }

  silent(): void {
    this.#abandon(1006, 'silent');
    this.terminate();
  }

  heartbeat(): void {
    const position = this.#ports.tail?.position;
    if (!position) return;
    // In the feed's lane: a position must not overtake the events before it.
    this.#outbox.chunk(Buffer.from(heartbeatLine(position, this.#shared.hooks.redisUp() ? 'up' : 'down')), 1);
  }

  // ---- inside

  #read(data: Buffer, binary: boolean): void {
    if (this.#phase !== 'open') return;
    this.#heard();
    this.message++;
    this.#inbox.read(data, binary);
    this.#throttle();
  }

  #heard(): void {
    this.#pulse.heardAt = this.#shared.wheel.now;
    this.#shared.hooks.heard(this);
  }

  #ponged(data: Buffer): void {
    this.#heard();
    const number = pongNumber(data);
    if (number === 0 || number > this.#outbox.pings) return;
    this.#receipts.ponged(number);
    const heard = this.#onPong;
    this.#onPong = undefined;
    heard?.();
  }

  #throttle(): void {
    const wait = this.#inbox.full || this.#outbox.backlogBytes > this.#shared.config.gateway.outboxBytes / 4;
    if (wait === this.paused || this.#phase !== 'open') return;
    this.paused = wait;
    if (wait) this.#ws.pause();
    else this.#ws.resume();
  }

  #pingMs(): number {
    const { pingMs } = this.#shared.config.gateway;
    // Never rarer than a third of the ttl: the pongs keep the session of a client that is driven by hand.
    return Math.min(pingMs || bounds.pingMaxMs, this.session ? this.session.ttlMs / 3 : bounds.pingMaxMs);
  }

  #letGoOfSession(): void {
    this.#ports.endWorkers();
    const { session } = this;
    if (!session) return;
    this.#shared.registry.detach(session.id, this);
    this.#shared.hooks.detached(this, session);
  }

  /** ws closes it for a bad frame, or we give it up: nothing is written any more. */
  #abandon(code: number, reason: string): void {
    if (this.#phase !== 'open') return;
    this.#phase = 'closing';
    this.closing = { how: 'broken', code, reason };
    this.#outbox.close();
    this.#ports.leave();
    this.#pulse.linger(bounds.lingerMs);
  }

  #closed(code: number, reason: string): void {
    if (this.#phase === 'closed') return;
    this.#phase = 'closed';
    const clean = code === 1000 || code === 1001 || code === 1005;
    const last = this.closing ?? { how: clean ? 'clean' : 'broken', code, reason };
    this.closing = last;
    try {
      this.#pulse.end();
      this.#outbox.close();
      this.#receipts.end('closed');
      this.#letGoOfSession();
      this.#ports.end();
      this.#shared.hooks.closed(this, last.how);
    } catch (error) {
      reportFault('closing a connection', error);
    }
    this.#shared.registry.remove(this);
    const { id, address, session } = this;
    probeConnection({ kind: 'closed', id, address, ...last, session: session?.id, agent: session?.agent });
  }
}
