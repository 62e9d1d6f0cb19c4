/**
 * Payloads, results and progress are kept as the bytes received: `9007199254740993`, `1.0` and doubled keys come back
 * as they were sent, which no parse-and-print can do. So a frame is parsed once by the engine (that proves it is valid
 * JSON) and then walked beside its own text: wherever a key of `kept` stands under `params`, the parsed value is
 * replaced by its slice of the text. The walk trusts the text, because it was parsed before.
 */
const kept = new Set(['payload', 'result', 'progress', 'saved', 'metadata', 'data']);

/** Nesting deeper than this is refused before anything recursive sees the frame. */
export const depthMax = 32;

const quote = 34;
const backslash = 92;
const comma = 44;
const openBrace = 123;
const closeBrace = 125;
const openBracket = 91;
const closeBracket = 93;

/** True if no bracket of `text` stands deeper than `depthMax`. Runs on any text, valid or not, in one pass. */
export function isShallow(text: string): boolean {
  let depth = 0;
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code === quote) {
      at = endOfString(text, at);
      if (at < 0) return true;
    } else if (code === openBrace || code === openBracket) {
      if (++depth > depthMax) return false;
    } else if (code === closeBrace || code === closeBracket) depth--;
  }
  return true;
}

/** Index of the quote that ends the string starting at `at`, or -1. */
function endOfString(text: string, at: number): number {
  let end = text.indexOf('"', at + 1);
  while (end > 0 && text.charCodeAt(end - 1) === backslash) {
    let back = end - 2;
    while (text.charCodeAt(back) === backslash) back--;
    if ((end - back) % 2 === 1) return end;
    end = text.indexOf('"', end + 1);
  }
  return end;
}

function skipSpace(text: string, at: number): number {
  let code = text.charCodeAt(at);
  while (code === 32 || code === 9 || code === 10 || code === 13) code = text.charCodeAt(++at);
  return at;
}

/** Index just behind the value that starts at `at`. */
function endOfValue(text: string, at: number): number {
  const first = text.charCodeAt(at);
  if (first === quote) return endOfString(text, at) + 1;
  if (first === openBrace || first === openBracket) {
    let depth = 0;
    for (; ; at++) {
      const code = text.charCodeAt(at);
      if (code === quote) at = endOfString(text, at);
      else if (code === openBrace || code === openBracket) depth++;
      else if ((code === closeBrace || code === closeBracket) && --depth === 0) return at + 1;
    }
  }
  for (; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code === comma || code === closeBrace || code === closeBracket || code <= 32) return at;
  }
  return at;
}

type Node = Record<string, unknown> | unknown[];
const isNode = (value: unknown): value is Node => typeof value === 'object' && value !== null;

/** The key between two quotes, as the parser saw it: `pay\u006coad` is `payload`. */
function keyOf(text: string, start: number, end: number): string {
  const key = text.slice(start + 1, end);
  return key.includes('\\') ? JSON.parse(`"${key}"`) : key;
}

/** Walks one object or array of `text` beside its parsed `node`; answers the index just behind it. */
function walk(text: string, at: number, node: Node, visit: typeof keepValue): number {
  const list = Array.isArray(node);
  at = skipSpace(text, at + 1);
  if (text.charCodeAt(at) === (list ? closeBracket : closeBrace)) return at + 1;
  for (let index = 0; ; index++) {
    let key = `${index}`;
    if (!list) {
      const end = endOfString(text, at);
      key = keyOf(text, at, end);
      at = skipSpace(text, skipSpace(text, end + 1) + 1);
    }
    at = skipSpace(text, visit(text, at, node as Record<string, unknown>, key));
    if (text.charCodeAt(at) !== comma) return at + 1;
    at = skipSpace(text, at + 1);
  }
}

/**
 * A doubled key parses to its last value. Every occurrence is walked in turn and the last one wins here too; what only
 * an earlier one had (another shape, more items) is not in the parsed value and is passed over.
 */
function keepValue(text: string, at: number, holder: Record<string, unknown>, key: string): number {
  if (!Object.hasOwn(holder, key)) return endOfValue(text, at);
  if (kept.has(key)) {
    const end = endOfValue(text, at);
    holder[key] = text.slice(at, end);
    return end;
  }
  return descend(text, at, holder[key], keepValue);
}

function descend(text: string, at: number, child: unknown, visit: typeof keepValue): number {
  const first = text.charCodeAt(at);
  const sameShape = isNode(child) && first === (Array.isArray(child) ? openBracket : openBrace);
  return sameShape ? walk(text, at, child, visit) : endOfValue(text, at);
}

/** Only `params` holds kept values; `id` and `op` are left as parsed. */
function keepParams(text: string, at: number, frame: Record<string, unknown>, key: string): number {
  return key === 'params' ? descend(text, at, frame[key], keepValue) : endOfValue(text, at);
}

/**
 * Replaces every kept value under `params` by its JSON text. `frame` must be what `JSON.parse(text)` gave, an object
 * no deeper than `depthMax`.
 */
export function keepRawValues(text: string, frame: Record<string, unknown>): void {
  walk(text, skipSpace(text, 0), frame, keepParams);
}

/** A reply that is JSON text already and is written as it stands. `T` is what it would parse to. */
export class Raw<T> {
  declare readonly shape: T;
  readonly text: string;
  constructor(text: string) {
    this.text = text;
  }
}
