import { isPattern } from '../protocol/filter.js';
import { Name, utf8Bytes } from '../protocol/primitives.js';

/** A type that may be published: words joined by dots, none of them a wildcard. */
export const EventType = Name.refine((text) => isPattern(text, false), {
  message: 'expected words joined by dots, without spaces, * and >',
});

/** Remembered against repeats, per namespace. */
export const publishedMax = 100_000;
/** Most events and about the most bytes of one script. */
export const itemsMax = 200;
export const batchBytes = 512 * 1024;

/** An event that somebody else said, as redis/lua/published.lua takes it. */
export interface Published {
  readonly type: string;
  readonly subject?: string | undefined;
  /** JSON text. */
  readonly data: string;
  readonly id?: string | undefined;
  readonly source: string;
  /** RFC 3339; absent: when it is appended. */
  readonly time?: string | undefined;
}

/** Rows of an entry end with a newline, columns with a tab; in JSON text both can only stand between tokens. */
export const oneLine = (json: string): string => json.replace(/[\t\n\r]/g, ' ');

export function publishedArgs({ type, subject, data, id, source, time }: Published): string[] {
  return [
    type,
    subject === undefined ? 'null' : JSON.stringify(subject),
    oneLine(data),
    id === undefined ? 'null' : JSON.stringify(id),
    JSON.stringify(source),
    time ?? '',
    id === undefined ? '' : `${utf8Bytes(source)}:${source}${id}`,
  ];
}
