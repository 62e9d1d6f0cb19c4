import type { Config } from '../config.js';
import type { Position } from '../protocol/position.js';
import type { Client } from '../redis/connection.js';
import type { Namespace } from '../redis/namespace.js';

/** The part of a namespace that health and metrics look at. */
export interface ServedView {
  readonly namespace: Namespace;
  readonly log: {
    readonly position: Position;
    readonly readerAgeMs: number;
    readonly deafMs: number;
    readonly faults: number;
  };
  readonly sessions: { readonly size: number };
  readonly pool: { readonly takers: number };
}

/** The daemon as this folder sees it; App has this shape. Nothing here changes anything. */
export interface DaemonView {
  readonly daemon: string;
  readonly config: Config;
  readonly draining: boolean;
  /** `client` throws while there is none. */
  readonly store: { readonly client: Client };
  readonly gateway: { readonly connections: number };
  /** What hears services; undefined until it is started. */
  readonly ingress: { stats(): { readonly up: boolean; readonly refusal: string | undefined } } | undefined;
  readonly router: { stats(): { tails: number; groups: number; behind: number; reading: number } };
  readonly namespaces: Iterable<ServedView>;
}
