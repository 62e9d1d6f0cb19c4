import type { z } from 'zod';
import type { AnyCommand } from '../../protocol/command.js';

/** A command with what can be known of its schema once, so that no request has to find it out. */
export interface Entry {
  readonly command: AnyCommand;
  readonly name: string;
  readonly params: z.ZodObject;
  /** It declares `namespace` itself; of other watcher commands the gate takes it. */
  readonly ownNamespace: boolean;
  /** Values are kept as their JSON text somewhere in it. */
  readonly keepsJson: boolean;
  /** Of a lost session it answers itself, by the fence in its params. */
  readonly answersLost: boolean;
}

// Answers NOT_OWNER of a lost session: a grant is owned, and carries no fence.
const answerLost: ReadonlySet<string> = new Set(['lock.release']);

export function entryOf(command: AnyCommand): Entry {
  const { name, params } = command as { name: string; params: z.ZodObject };
  return {
    command,
    name,
    // Unknown fields are refused whatever the command says of them.
    params: params._zod.def.catchall === undefined ? params.strict() : params,
    ownNamespace: Object.hasOwn(params.shape, 'namespace'),
    keepsJson: some(params, (def) => def.type === 'custom'),
    answersLost: answerLost.has(name) || some(params, (def) => Object.hasOwn(def.shape ?? {}, 'fence')),
  };
}

/** The parts of a schema that hold other schemas, of any kind of schema. */
interface Def {
  readonly type: string;
  readonly shape?: Readonly<Record<string, z.core.$ZodType>>;
  readonly innerType?: z.core.$ZodType;
  readonly element?: z.core.$ZodType;
  readonly valueType?: z.core.$ZodType;
  readonly options?: readonly z.core.$ZodType[];
  readonly items?: readonly z.core.$ZodType[];
  readonly in?: z.core.$ZodType;
  readonly left?: z.core.$ZodType;
  readonly right?: z.core.$ZodType;
}

function some(schema: z.core.$ZodType, is: (def: Def) => boolean): boolean {
  const def = schema._zod.def as Def;
  if (is(def)) return true;
  const { innerType, element, valueType, left, right } = def;
  const parts = [innerType, element, valueType, def.in, left, right, ...(def.options ?? []), ...(def.items ?? [])];
  return [...parts, ...Object.values(def.shape ?? {})].some((part) => part !== undefined && some(part, is));
}
