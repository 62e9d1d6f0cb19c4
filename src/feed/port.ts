import type { Filter } from '../protocol/filter.js';
import type { Position } from '../protocol/position.js';
import type { LogGap } from '../redis/log-entry.js';

/** A new subscription of a connection's tail. */
export interface Subscribing {
  readonly namespace: string;
  readonly filter: Filter;
  /** Where the cursor begins, judged by Redis. Ignored when there is a cursor: a later subscription widens it. */
  readonly at: Position;
  /** What had to be skipped to begin there: told in place, ahead of the first event. */
  readonly gap?: LogGap;
}

/** What feed.subscribe and feed.unsubscribe ask of their connection: one tail cursor with a set of subscriptions. */
export interface FeedPort {
  /** Position of the cursor if there is a tail, else undefined. Everything up to here was handled. */
  readonly position: Position | undefined;
  /**
   * Number of the inbound message whose line is being started. Read before the first await: a `from` beside the first
   * one is legal only in one message with it.
   */
  readonly message: number;
  /** Adds a subscription and answers its id. Delivery starts in a later turn, so that the reply can go ahead. */
  subscribe(subscribing: Subscribing): string;
  /** False if there is no such subscription. No line for it is written after this returns. */
  unsubscribe(subscription: string): boolean;
}
