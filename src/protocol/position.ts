import { z } from 'zod';

/** A place in a log: everything of `epoch` up to and including `offset` was handled. On the wire `epoch:offset`. */
export interface Position {
  readonly epoch: string;
  readonly offset: number;
}

const form = /^([0-9a-z]{1,16}):(0|[1-9][0-9]{0,15})$/;

export function parsePosition(text: string): Position | undefined {
  const found = form.exec(text);
  if (!found) return undefined;
  const offset = Number(found[2]);
  return Number.isSafeInteger(offset) ? { epoch: found[1]!, offset } : undefined;
}

export const formatPosition = (position: Position): string => `${position.epoch}:${position.offset}`;

/** Any string is let through here: a malformed position is BAD_POSITION, not a schema fault. */
export const PositionText = z.string().min(1).max(200);
