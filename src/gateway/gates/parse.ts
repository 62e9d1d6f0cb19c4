import type { z } from 'zod';
import { Refusal } from '../../errors.js';
import { type Frame, isRequestId } from '../../protocol/frame.js';
import { keepRawValues } from '../../protocol/raw-json.js';
import type { Entry } from './schema.js';

/** The params of a frame, still unchecked: `{}` if it has none. */
export function paramsOf(frame: Frame): Record<string, unknown> {
  const { params } = frame;
  if (params === undefined) return {};
  if (typeof params === 'object' && params !== null && !Array.isArray(params)) return params as Record<string, unknown>;
  throw new Refusal('BAD_REQUEST', 'expected an object', { path: 'params' });
}

/** Open records (`labels`, `where`) would lose a key of this name without a word. Kept values are texts by now. */
function refuseProto(params: Record<string, unknown>): void {
  for (const [name, value] of Object.entries(params)) {
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, '__proto__')) continue;
    throw new Refusal('BAD_REQUEST', 'a key of this name is not taken', { path: `${name}.__proto__` });
  }
}

/** Puts the text of kept values in their place. Has to come before anything changes the params. */
export function keepJson(entry: Entry, frame: Frame, line: string): void {
  if (entry.keepsJson && frame.params !== undefined) keepRawValues(line, frame as Record<string, unknown>);
}

/** Params that fit the schema, with its defaults. */
export function parse(entry: Entry, params: Record<string, unknown>): Record<string, unknown> {
  const result = entry.params.safeParse(params);
  refuseProto(params);
  if (result.success) return result.data;
  const issue = deepest(result.error.issues[0]!);
  throw new Refusal('BAD_REQUEST', issue.message, { path: pathText(issue) });
}

/** Of a union, what is wrong is what is wrong in the option that came furthest. */
function deepest(issue: z.core.$ZodIssue): z.core.$ZodIssue {
  if (issue.code !== 'invalid_union') return issue;
  const inner = issue.errors.flatMap((errors) => errors.slice(0, 1)).sort((a, b) => b.path.length - a.path.length)[0];
  if (!inner || inner.path.length === 0) return issue;
  return deepest({ ...inner, path: [...issue.path, ...inner.path] });
}

/** `tasks[3].priority`. An unknown field is named itself, not the object it stands in. */
function pathText(issue: z.core.$ZodIssue): string {
  const keys = issue.code === 'unrecognized_keys' ? [...issue.path, issue.keys[0]!] : issue.path;
  let text = '';
  for (const key of keys) {
    if (typeof key === 'number') text += `[${key}]`;
    else text += text === '' ? String(key) : `.${String(key)}`;
  }
  return text.slice(0, 500);
}

/** The id to answer to, if the frame has one. */
export const idOf = ({ id }: Frame): number | undefined => (isRequestId(id) ? id : undefined);
