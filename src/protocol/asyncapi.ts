import { z } from 'zod';
import type { errors } from '../errors.js';
import type { AnyCommand } from './command.js';
import { protocolName, wsPath } from './frame.js';
import { pushSchemas } from './pushes.js';

export interface Contract {
  readonly version: string;
  readonly commands: Iterable<AnyCommand>;
  /** Schema of the `data` of each of our own events, by type. */
  readonly events: Readonly<Record<string, z.ZodType>>;
  /** The envelope every event stands in. */
  readonly event: z.ZodType;
  /** A task as a worker gets it. */
  readonly task: z.ZodType;
  readonly errors: typeof errors;
}

type Json = Record<string, unknown>;

/**
 * `Json` values have no schema of their own: anything. What zod adds of its own accord (the bounds of an exact integer,
 * a pattern beside a format) tells a reader nothing and is left out.
 */
export function jsonSchemaOf(schema: z.ZodType, io: 'input' | 'output'): Json {
  const override = ({ jsonSchema }: { jsonSchema: Json }): void => {
    if (jsonSchema.maximum === Number.MAX_SAFE_INTEGER) delete jsonSchema.maximum;
    if (jsonSchema.minimum === Number.MIN_SAFE_INTEGER) delete jsonSchema.minimum;
    if (jsonSchema.format === 'date-time') delete jsonSchema.pattern;
  };
  const { $schema: _, ...rest } = z.toJSONSchema(schema, { io, unrepresentable: 'any', override }) as Json;
  return rest;
}

const ref = (path: string): Json => ({ $ref: `#/${path}` });
const messageRef = (name: string): Json => ref(`channels/socket/messages/${name}`);

/**
 * The whole protocol as an AsyncAPI 3 document: one channel (the WebSocket), an operation for every op with its reply,
 * one for everything the daemon sends by itself. It is committed, so every change of the wire shows up as a diff of it.
 */
export function asyncapi(contract: Contract): Json {
  const { version, events } = contract;
  const commands = [...contract.commands].sort((a, b) => (a.name < b.name ? -1 : 1));
  const { wireError, pushes } = pushSchemas(contract.task, contract.event, Object.keys(contract.errors) as never);
  const messages: Json = { error: message('A refused request.', { id: z.int(), error: wireError }) };
  const operations: Json = {};
  for (const { name, about, allowed, params, result, fails } of commands) {
    messages[`${name}.request`] = request(name, about, params);
    messages[`${name}.reply`] = message(`The answer to ${name}.`, { id: z.int(), ok: result });
    operations[name] = {
      action: 'receive',
      channel: ref('channels/socket'),
      summary: about,
      messages: [messageRef(`${name}.request`)],
      reply: {
        channel: ref('channels/socket'),
        messages: [messageRef(`${name}.reply`), messageRef('error')],
      },
      'x-allowed': allowed,
      'x-fails': fails,
    };
  }
  for (const [op, { about, fields }] of Object.entries(pushes)) {
    messages[`push.${op}`] = message(about, { op: z.literal(op), ...fields });
    operations[`push.${op}`] = {
      action: 'send',
      channel: ref('channels/socket'),
      summary: about,
      messages: [messageRef(`push.${op}`)],
    };
  }
  return {
    asyncapi: '3.0.0',
    info: { title: 'Signalbox', version, description: about },
    defaultContentType: 'application/json',
    servers: { local: { host: '127.0.0.1:7171', protocol: 'ws', description: 'Where `signalbox up` listens.' } },
    channels: {
      socket: {
        address: wsPath,
        description: `Subprotocol ${protocolName}. A message holds 1 to 64 JSON objects, one a line.`,
        messages,
        bindings: { ws: { method: 'GET', bindingVersion: '0.1.0' } },
      },
    },
    operations,
    components: {
      schemas: Object.fromEntries(
        Object.entries(events).map(([type, schema]) => [
          `event.${type}`,
          { title: type, ...jsonSchemaOf(schema, 'output') },
        ]),
      ),
    },
    'x-errors': contract.errors,
  };
}

const about = 'The coordination daemon for AI agents: tasks, sessions and a live feed over one WebSocket, on Redis.';

function request(name: string, summary: string, params: z.ZodType): Json {
  const schema = jsonSchemaOf(params, 'input');
  return {
    summary,
    payload: {
      type: 'object',
      properties: { id: { type: 'integer', minimum: 1 }, op: { const: name }, params: schema },
      required: ['id', 'op', ...((schema.required as unknown[] | undefined)?.length ? ['params'] : [])],
    },
  };
}

function message(summary: string, fields: Record<string, z.ZodType>): Json {
  return { summary, payload: jsonSchemaOf(z.looseObject(fields), 'output') };
}
