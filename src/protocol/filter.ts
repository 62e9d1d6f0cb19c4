import { z } from 'zod';

/** A pattern of types: words joined by dots, `*` is one word, `>` last is one or more. */
export const Pattern = z.string().min(1).max(200);

/** Attributes events declare and `where` may name; they stand in `data` under these names. */
export const attributes = ['queue', 'task', 'tenant', 'kind', 'run', 'agent', 'session', 'lock', 'limit'] as const;
export type Attribute = (typeof attributes)[number];

export interface Filter {
  readonly types: readonly string[];
  readonly where: Readonly<Partial<Record<Attribute, string>>>;
}

/** True for a well-formed pattern (`wild`) or a plain type. */
export function isPattern(text: string, wild: boolean): boolean {
  if (!text.isWellFormed() || /[\u0000-\u0020\u007f-\u009f]/.test(text)) return false;
  const words = text.split('.');
  return words.every((word, i) => {
    if (word === '') return false;
    if (word === '*') return wild;
    if (word === '>') return wild && i === words.length - 1;
    return !word.includes('*') && !word.includes('>');
  });
}

export function matchesType(pattern: string, type: string): boolean {
  const want = pattern.split('.');
  const have = type.split('.');
  for (let i = 0; i < want.length; i++) {
    if (want[i] === '>') return have.length > i;
    if (i >= have.length || (want[i] !== '*' && want[i] !== have[i])) return false;
  }
  return want.length === have.length;
}

/** First words that belong to the system: ingress and feed.publish refuse them. */
export const reservedWords = new Set([
  'task',
  'session',
  'lease',
  'queue',
  'lock',
  'limit',
  'once',
  'pressure',
  'ingress',
  'daemon',
  'clock',
  'epoch',
  'budget',
  'schedule',
  'run',
  'feed',
]);
