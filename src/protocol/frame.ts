import type { WireError } from '../errors.js';
import { formatPosition, type Position } from './position.js';
import { Raw } from './raw-json.js';

/** The envelope of the protocol: what stands around the params of a request and the result of a reply. */
export const protocolName = 'signalbox.v1';
export const wsPath = '/v1/ws';

/** Most JSON objects, one a line, in one message. */
export const linesMax = 64;

/** What a line of a client parses to. Nothing in it has been checked yet. */
export interface Frame {
  id?: unknown;
  op?: unknown;
  params?: unknown;
}

export const isRequestId = (id: unknown): id is number => Number.isSafeInteger(id) && (id as number) >= 1;

/** The only ops that may come without an `id`: a success is silent, a failure comes as an `error` push. */
export const mayLackId: ReadonlySet<unknown> = new Set(['feed.ack', 'feed.nak']);

/**
 * A result whose command wants to hear when its line did not reach the socket: what it gave away is then taken back.
 * Once the line was handed to the kernel nothing is called, whatever becomes of the client.
 */
export class RevocableRaw<T> extends Raw<T> {
  readonly unwritten: () => void;
  constructor(text: string, unwritten: () => void) {
    super(text);
    this.unwritten = unwritten;
  }
}

export function okLine(id: number, result: unknown): string {
  return `{"id":${id},"ok":${result instanceof Raw ? result.text : (JSON.stringify(result) ?? '{}')}}`;
}

export function errorLine(id: number | undefined, error: WireError): string {
  return id === undefined ? pushLine('error', { error }) : `{"id":${id},"error":${JSON.stringify(error)}}`;
}

/** The line before a close of ours. */
export function closedLine(code: number, reason: string, afterMs: number | undefined): string {
  return pushLine('closed', { code, reason, ...(afterMs === undefined ? {} : { afterMs }) });
}

export function heartbeatLine(position: Position, redis: 'up' | 'down'): string {
  return pushLine('heartbeat', { at: new Date().toISOString(), position: formatPosition(position), redis });
}

export function pushLine(op: string, fields: Readonly<Record<string, unknown>>): string {
  return JSON.stringify({ op, ...fields });
}
