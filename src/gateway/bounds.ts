/** Bounds of a connection that are no settings: they are far from what a sane client does. */
export const bounds = {
  /** Requests in flight; more are refused with LIMIT. */
  requestsMax: 16_384,
  /** Bytes of the requests in flight; beyond it the socket is not read until some are answered. */
  requestBytesMax: 8 * 1024 * 1024,
  /** Bad frames within `strikeWindowMs` that close the connection. */
  strikesMax: 3,
  strikeWindowMs: 60_000,
  /** How long a socket we closed may take to go, and a stalled one. */
  lingerMs: 2_000,
  lingerStalledMs: 1_000,
  /** Longest interval of socket pings. */
  pingMaxMs: 25_000,
  /** After a drain a client comes back within this, at random. */
  returnMaxMs: 1_000,
} as const;
