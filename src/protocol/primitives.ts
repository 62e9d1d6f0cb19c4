import { z } from 'zod';

/**
 * The words every schema is made of. Sizes are bytes of UTF-8, not characters: what is bounded is what is stored.
 * Durations are refused out of bounds, never clamped: a caller that asks for 400 days should hear about it.
 */

const controlCharacter = /[\u0000-\u001f\u007f-\u009f]/;

export function utf8Bytes(text: string): number {
  return Buffer.byteLength(text);
}

/** Well-formed Unicode of 1 to 200 bytes without control characters: an id, a name, a type. Returned byte-exact. */
export const Name = z
  .string()
  .min(1)
  .max(200)
  .refine((text) => text.isWellFormed() && !controlCharacter.test(text) && utf8Bytes(text) <= 200, {
    message: 'expected 1-200 bytes of well-formed Unicode without control characters',
  });

export const NamespaceName = z.string().regex(/^[a-z0-9-]{1,64}$/, 'expected 1-64 of a-z, 0-9 and -');

/** A sentence for people: reasons, messages. */
export const Reason = z
  .string()
  .max(1000)
  .refine((text) => text.isWellFormed(), { message: 'expected well-formed Unicode' });

export const maxDurationMs = 366 * 86_400_000;

/** A duration in milliseconds where 0 would mean nothing. */
export const Ms = z.int().min(1).max(maxDurationMs);
/** A duration in milliseconds where 0 is meant: no wait, no delay. */
export const MsOrZero = z.int().min(0).max(maxDurationMs);

/** RFC 3339 with an offset. One that is past means at once; after 9999 there is no way to write it. */
export const Instant = z.iso.datetime({ offset: true }).refine((text) => Date.parse(text) < Date.UTC(10_000, 0), {
  message: 'expected an instant before the year 10000, in UTC',
});

/** Fences and offsets: integers below 2^53. */
export const Fence = z.int().min(0).max(Number.MAX_SAFE_INTEGER);

export const Priority = z.int().min(0).max(100);

/**
 * A value the daemon never looks into. On the wire it is any JSON value; behind the decode gate it is its JSON text,
 * byte for byte as received (protocol/raw-json.ts). Inputs keep their own type for the client.
 */
export type JsonText = string & { readonly __json: unique symbol };
export type JsonValue = null | boolean | number | string | readonly JsonValue[] | { readonly [key: string]: JsonValue };
export const Json = z.custom<JsonText>((value) => value !== undefined, {
  message: 'expected a JSON value',
}) as unknown as z.ZodType<JsonText, JsonValue>;

export const Queue = Name;
export const TaskId = Name;
export const Tenant = Name;
export const Kind = Name;
export const SessionId = Name;
export const Cursor = z
  .string()
  .min(1)
  .max(1000)
  .regex(/^[^\u0000-\u001f]*$/, 'expected a cursor that this op gave');

export const Holder = z.object({ session: z.string(), agent: z.string() });
