import { z } from 'zod';
import { Refusal } from '../errors.js';
import { Joiner } from '../lib/joiner.js';
import { defineCommand } from '../protocol/command.js';
import { reservedWords } from '../protocol/filter.js';
import { Json, Name, utf8Bytes } from '../protocol/primitives.js';
import { Raw } from '../protocol/raw-json.js';
import type { Namespace } from '../redis/namespace.js';
import { lua } from '../redis/script.js';
import { batchBytes, EventType, itemsMax, type Published, publishedArgs, publishedMax } from './published.js';

const publishScript = lua(import.meta.url, './publish.lua', ['windowMs', 'publishedMax']);

const NewEvent = z.strictObject({
  type: EventType,
  subject: Name.optional(),
  data: Json.optional(),
  id: Name.optional(),
  source: Name.optional(),
});
type NewEvent = z.output<typeof NewEvent>;

const Done = z.object({ position: z.string(), duplicate: z.boolean().optional() });
const Failed = z.object({ error: z.object({ code: z.string(), message: z.string(), retry: z.boolean() }).loose() });

export const publish = defineCommand({
  name: 'feed.publish',
  about: 'Add events of your own to the feed. One with an id already published from its source answers that position.',
  allowed: 'session',
  params: z.strictObject({ events: z.array(NewEvent).min(1).max(1000) }),
  result: z.object({ events: z.array(z.union([Done, Failed])) }),
  fails: ['RESERVED_TYPE', 'TOO_LARGE'],
  run: async ({ events }, { namespace, session, config }) => {
    const items: Published[] = [];
    const refused = events.map((event) => {
      const refusal = refusalOf(event, config.log.publishedBytes);
      if (refusal) return JSON.stringify({ error: refusal.toWire() });
      items.push({ ...event, data: event.data ?? 'null', source: event.source ?? `/agent/${session.agent}` });
      return undefined;
    });
    const places = items.length > 0 ? await joinerOf(namespace, config.log.publishWindowMs).add(items) : [];
    let next = 0;
    return new Raw(`{"events":[${refused.map((text) => text ?? placeText(places[next++]!)).join(',')}]}`);
  },
});

function refusalOf({ type, data }: NewEvent, bytesMax: number): Refusal | undefined {
  const [word = ''] = type.split('.', 1);
  if (reservedWords.has(word))
    return new Refusal('RESERVED_TYPE', `${word} is a word of the system`, { details: { word } });
  const bytes = data === undefined || data.length * 3 <= bytesMax ? 0 : utf8Bytes(data);
  if (bytes <= bytesMax) return undefined;
  const details = { bytes, max: bytesMax };
  return new Refusal('TOO_LARGE', `data has ${bytes} bytes, at most ${bytesMax} are taken`, { details });
}

const placeText = (place: string): string =>
  place.startsWith('=') ? `{"position":"${place.slice(1)}","duplicate":true}` : `{"position":"${place}"}`;

const joiners = new WeakMap<Namespace, Joiner<Published, string>>();

/** All publishers of a namespace share its scripts. */
function joinerOf(namespace: Namespace, windowMs: number): Joiner<Published, string> {
  const known = joiners.get(namespace);
  if (known) return known;
  const joiner = new Joiner((items: Published[]) => append(namespace, windowMs, items), {
    itemsMax,
    callsMax: 2,
    waitingMax: 20_000,
    sizeOf: ({ data }) => data.length,
    waitingBytesMax: 64 * 1024 * 1024,
    overflow: () => new Refusal('UNAVAILABLE', 'too many events wait for Redis', { afterMs: 200 }),
  });
  joiners.set(namespace, joiner);
  return joiner;
}

/** One script, or several if the events are large: a script's entry is read back as a whole. */
async function append(namespace: Namespace, windowMs: number, items: readonly Published[]): Promise<string[]> {
  const calls: Promise<string[]>[] = [];
  for (let from = 0; from < items.length; ) {
    let to = from;
    const args: string[] = [];
    for (let chars = 0; to < items.length && (to === from || chars < batchBytes); to++) {
      chars += items[to]!.data.length;
      args.push(...publishedArgs(items[to]!));
    }
    calls.push(namespace.call<string[]>(publishScript, [windowMs, publishedMax, ...args]));
    from = to;
  }
  return (await Promise.all(calls)).flat();
}
