import { Refusal } from '../../errors.js';
import { type Frame, isRequestId, mayLackId } from '../../protocol/frame.js';
import { depthMax, isShallow } from '../../protocol/raw-json.js';

const isObject = (value: unknown): value is object =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/**
 * One line becomes one frame with a usable id, or a BAD_FRAME: nothing that can be answered. Depth comes first, on the
 * text, because everything behind it may recurse.
 */
export function decode(line: string): Frame {
  if (!isShallow(line)) throw bad(`the line is nested deeper than ${depthMax}`);
  let frame: unknown;
  try {
    frame = JSON.parse(line);
  } catch {
    throw bad('the line is not JSON');
  }
  if (!isObject(frame)) throw bad('the line is not a JSON object');
  const { id, op } = frame as Frame;
  if (isRequestId(id) || (id === undefined && mayLackId.has(op))) return frame;
  throw bad(id === undefined ? 'the line has no id' : 'the id is not an integer from 1 to 2^53 - 1');
}

const bad = (message: string): Refusal => new Refusal('BAD_FRAME', message);
