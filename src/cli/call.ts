import type { Command } from 'commander';
import type { z } from 'zod';
import type { AnyCommand } from '../protocol/command.js';
import { type ConnectionFlags, connected, withClient } from './connection.js';
import { exit, type Outcome, wrongUsage } from './exit.js';
import { readJson } from './input.js';
import { print, printTable } from './output.js';

export function callCommand(program: Command, outcome: Outcome): void {
  connected(program.command('call'))
    .description('call any op of the protocol by its name; without a name, list them')
    .argument('[op]', 'such as queue.stats')
    .argument('[params]', 'JSON object, or - for standard input', '{}')
    .option('--schema', 'print what the op takes and answers, as JSON Schema')
    .action(async (op: string | undefined, given: string, flags: ConnectionFlags & { schema?: true }) => {
      const { commandTable } = await import('../commands.js');
      if (op === undefined) return list(commandTable, flags.json === true);
      const command = commandTable.get(op) ?? unknown(op, [...commandTable.keys()]);
      if (flags.schema) return print(JSON.stringify(await schemaOf(command), null, 2));
      outcome.code = await call(command, await readJson(given, 'params'), flags);
    });
}

async function list(table: ReadonlyMap<string, AnyCommand>, json: boolean): Promise<void> {
  const ops = [...table.values()].map(({ name, about, allowed }) => ({ name, allowed, about }));
  if (json) return print(JSON.stringify({ ops }));
  await printTable(
    ['OP', 'ABOUT'],
    ops.map(({ name, about }) => [name, about]),
  );
}

function unknown(op: string, names: readonly string[]): never {
  const near = names.filter((name) => name.split('.').at(-1) === op.split('.').at(-1));
  throw wrongUsage(
    `there is no op ${JSON.stringify(op)}`,
    near.length > 0 ? `did you mean ${near.join(' or ')}?` : '`signalbox call` lists them',
  );
}

async function schemaOf(command: AnyCommand): Promise<object> {
  const { jsonSchemaOf } = await import('../protocol/asyncapi.js');
  const { name, about, fails } = command;
  return {
    name,
    about,
    fails,
    params: jsonSchemaOf(command.params, 'input'),
    result: jsonSchemaOf(command.result, 'output'),
  };
}

async function call(command: AnyCommand, given: unknown, flags: ConnectionFlags): Promise<number> {
  const { namespace, ...params } = check(command, given);
  const own = Object.hasOwn(command.params.shape, 'namespace');
  const named = typeof namespace === 'string' ? { ...flags, namespace } : flags;
  const session = command.allowed === 'session';
  const answer = await withClient(named, { session }, (client) =>
    client.call(command.name, own && namespace !== undefined ? { ...params, namespace } : params),
  );
  await print(JSON.stringify(answer, null, flags.json ? 0 : 2));
  return hasFailedItem(answer) ? exit.failure : exit.ok;
}

/** Checked here first: a mistake is said before anything is sent. Of what is right, the daemon gets what was given. */
function check(command: AnyCommand, given: unknown): Record<string, unknown> {
  if (typeof given !== 'object' || given === null || Array.isArray(given)) {
    throw wrongUsage(`params is ${JSON.stringify(given)}`, 'an object is expected, such as \'{"queue":"docs"}\'');
  }
  const params = given as Record<string, unknown>;
  // Watcher ops take `namespace` although not every one declares it.
  const { namespace, ...rest } = params;
  const own = Object.hasOwn(command.params.shape, 'namespace') || command.allowed !== 'watcher';
  const parsed = (command.params as z.ZodObject).safeParse(own ? params : rest);
  if (parsed.success) return params;
  const lines = parsed.error.issues.map(({ path, message }) => `${path.join('.') || 'params'}: ${message}`);
  throw wrongUsage(
    `${command.name} does not take these params:\n  ${lines.join('\n  ')}`,
    `\`signalbox call ${command.name} --schema\` shows what it takes`,
  );
}

/** A batch answers ok although an item of it was refused; a script should hear of that. */
function hasFailedItem(answer: unknown): boolean {
  const lists = Object.values((answer ?? {}) as Record<string, unknown>).filter(Array.isArray) as unknown[][];
  return lists.some((items) => items.some((item) => isItemError(item)));
}

function isItemError(item: unknown): boolean {
  const { error, ...rest } = (item ?? {}) as { error?: { code?: unknown; retry?: unknown } };
  return typeof error?.code === 'string' && typeof error.retry === 'boolean' && Object.keys(rest).length === 0;
}
