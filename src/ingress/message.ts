import { isUtf8 } from 'node:buffer';
import { EventType, type Published } from '../feed/published.js';
import { reservedWords } from '../protocol/filter.js';
import { Instant, Name, utf8Bytes } from '../protocol/primitives.js';
import { isShallow, keepRawValues } from '../protocol/raw-json.js';

/** Why a message did not become an event. Stands in `ingress.rejected`, so it is part of the contract. */
export type Rejection =
  | 'tooLarge'
  | 'notUtf8'
  | 'notJson'
  | 'tooDeep'
  | 'malformedType'
  | 'reservedType'
  | 'malformedEvent'
  | 'binaryData';

/** What an envelope may add to its data. */
export const envelopeBytes = 4096;

const plainSource = 'redis:publish';

/**
 * A PUBLISHed text as the event it says: an object with the strings specversion, id, source and type is a CloudEvent,
 * any other JSON is the data of the channel's type. The text of the data is kept as it came.
 */
export function readMessage(type: string, payload: Buffer, bytesMax: number): Published | Rejection {
  if (payload.length > bytesMax + envelopeBytes) return 'tooLarge';
  if (!isUtf8(payload)) return 'notUtf8';
  const text = payload.toString();
  if (!isShallow(text)) return 'tooDeep';
  const value = parse(text);
  if (value === undefined) return 'notJson';
  const event = isCloudEvent(value) ? fromCloudEvent(text, value) : { type, data: text.trim(), source: plainSource };
  if (typeof event === 'string') return event;
  if (!EventType.safeParse(event.type).success) return 'malformedType';
  if (reservedWords.has(event.type.split('.', 1)[0]!)) return 'reservedType';
  return utf8Bytes(event.data) > bytesMax ? 'tooLarge' : event;
}

type CloudEvent = { specversion: string; id: string; source: string; type: string; [attribute: string]: unknown };

function isCloudEvent(value: unknown): value is CloudEvent {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return false;
  const { specversion, id, source, type } = value as Record<string, unknown>;
  return [specversion, id, source, type].every((attribute) => typeof attribute === 'string');
}

function fromCloudEvent(text: string, event: CloudEvent): Published | Rejection {
  const { id, source, type, subject, time } = event;
  if (Object.hasOwn(event, 'data_base64')) return 'binaryData';
  if (!Name.safeParse(id).success || !Name.safeParse(source).success) return 'malformedEvent';
  if (!absentOr(subject, Name) || !absentOr(time, Instant)) return 'malformedEvent';
  return {
    type,
    id,
    source,
    data: dataText(text, event),
    subject: (subject as string | null | undefined) ?? undefined,
    time: (time as string | null | undefined) ?? undefined,
  };
}

const absentOr = (value: unknown, schema: typeof Name | typeof Instant): boolean =>
  value === undefined || value === null || schema.safeParse(value).success;

/** The text of the member `data`, byte for byte: the walk that keeps it in frames does so under `params`. */
function dataText(text: string, event: CloudEvent): string {
  if (!Object.hasOwn(event, 'data')) return 'null';
  const frame: { params: { data?: string } } = { params: event as { data?: string } };
  keepRawValues(`{"params":${text}}`, frame);
  return frame.params.data ?? 'null';
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
