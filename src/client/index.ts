import type { Domains } from './api.js';
import { Client } from './client.js';
import { Core } from './core.js';
import { type ConnectOptions, settingsOf } from './options.js';

export { type ErrorCode, Refusal } from '../errors.js';
export type { Enqueued, EnqueueOptions, Owned, Published, PublishOptions, TaskResult } from './client.js';
export type { ElectOptions, Term, TermNews } from './elect.js';
export { Closed, Defer, type DeferOptions, Ended, type EndReason, Fail, type FailOptions } from './errors.js';
export type { SubscribeOptions } from './feed.js';
export type { Amounts, LimitedCall, LimitHandler, LimitOptions } from './limit-options.js';
export type { Lock, LockCall, LockHandler, LockNames, LockOptions } from './lock-options.js';
export type { Observable, Observer } from './observable.js';
export { type OnceCall, type OnceHandler, type OnceOptions, type OnceOutcome, OnceUnknown } from './once-options.js';
export type { ConnectOptions, Pressure, Status } from './options.js';
export type { Handler, Task, TaskContext } from './run.js';
export type { Identity } from './session.js';
export { type SignalOptions, stopOnSignals } from './signals.js';
export type { Delivery, FeedEvent, Gap, Listener, Subscription } from './subscription.js';
export type { StopOptions, Worker, WorkOptions } from './worker.js';

/** A connection to a daemon: a typed call for every op (`sb.queue.stats({})`), and comfort on top of them. */
export type Signalbox = Client & Domains;

/** Resolves when the session is open. From then on the client comes back by itself after every cut. */
export async function connect(options: ConnectOptions = {}): Promise<Signalbox> {
  const settings = settingsOf(options);
  const core = new Core(settings);
  await core.start();
  return new Client(core, settings) as Signalbox;
}
