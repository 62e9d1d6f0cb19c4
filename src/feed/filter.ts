import { Refusal } from '../errors.js';
import { type Attribute, attributes, type Filter, isPattern } from '../protocol/filter.js';

const known: ReadonlySet<string> = new Set(attributes);

/** Checks what a schema cannot say well: the shape of patterns, and which attributes there are. */
export function toFilter(types: readonly string[], where: Readonly<Record<string, string>> = {}): Filter {
  for (const pattern of types) {
    if (isPattern(pattern, true)) continue;
    throw new Refusal('BAD_FILTER', 'a pattern is words joined by dots, * for one of them, > last for one or more', {
      details: { pattern },
    });
  }
  for (const attribute of Object.keys(where)) {
    if (known.has(attribute)) continue;
    throw new Refusal('BAD_FILTER', `where knows ${attributes.join(' ')}`, { details: { attribute } });
  }
  return { types: [...new Set(types)], where: where as Partial<Record<Attribute, string>> };
}
