import { type ErrorCode, isErrorCode, Refusal, type WireError } from '../errors.js';

/** What a failed item of a batch answers in its place. */
export interface ItemError {
  readonly error: WireError;
}

export const itemError = (refusal: Refusal): ItemError => ({ error: refusal.toWire() });

/** `!CODE` or `!CODE {json}`, as scripts answer for an item: message and afterMs stand among the details. */
export function itemRefusal(text: string): Refusal {
  const space = text.indexOf(' ');
  const code = space < 0 ? text.slice(1) : text.slice(1, space);
  if (!isErrorCode(code)) return new Refusal('INTERNAL', `a script answered ${text}`);
  return refusalOf(code, space < 0 ? '' : text.slice(space + 1));
}

/** A code of a script with its details as JSON text, or none. */
export function refusalOf(code: ErrorCode, detailsText: string): Refusal {
  if (!detailsText.startsWith('{')) return new Refusal(code);
  const { message, afterMs, path, ...details } = JSON.parse(detailsText) as {
    message?: string;
    afterMs?: number;
    path?: string;
  };
  return new Refusal(code, message, { afterMs, path, ...(Object.keys(details).length > 0 ? { details } : {}) });
}

/**
 * A batch verb: items that `make` refuses stay out of the script, and the answers of the others go back to their places.
 * Answers one JSON text an item.
 */
export async function batchTexts<Input, Item, Result>(
  inputs: readonly Input[],
  make: (input: Input) => Item,
  send: (items: Item[]) => Promise<Result[]>,
  print: (result: Result, item: Item) => string,
): Promise<string[]> {
  const items: Item[] = [];
  const refused = inputs.map((input) => {
    try {
      items.push(make(input));
      return undefined;
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      return JSON.stringify(itemError(error));
    }
  });
  const results = items.length > 0 ? await send(items) : [];
  let at = 0;
  return refused.map((text) => text ?? print(results[at]!, items[at++]!));
}
