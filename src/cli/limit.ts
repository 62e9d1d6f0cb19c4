import type { Command } from 'commander';
import type { Signalbox } from '../client/index.js';
import { type ConnectionFlags, connected, withClient } from './connection.js';
import { wrongUsage } from './exit.js';
import { collect, durationMs, pairs } from './input.js';
import { ageOf, print, printJson, printTable } from './output.js';
import { allPages } from './pages.js';

type Limit = Awaited<ReturnType<Signalbox['limit']['get']>>;
type Definition = Parameters<Signalbox['limit']['define']>[0];

interface SetFlags extends ConnectionFlags {
  readonly kind: string;
  readonly dimension: string[];
  readonly burst?: string[];
  readonly adaptive?: string;
  readonly whenDown?: string;
  readonly change?: boolean;
}

export function limitCommand(program: Command): void {
  const limit = program.command('limit').description('limits: capacity that agents share, by name');
  connected(limit.command('ls'))
    .description('list them: what there is, what is used, reserved and left, and who waits')
    .argument('[prefix]')
    .action(async (prefix: string | undefined, flags: ConnectionFlags) => {
      const wanted = prefix === undefined ? {} : { prefix };
      const limits = await withClient(flags, { session: false }, (client) =>
        allPages((cursor) => client.limit.list({ ...wanted, ...cursor }), 'limits'),
      );
      if (flags.json) await printJson({ limits });
      else await printLimits(limits);
    });
  connected(limit.command('set'))
    .description('say what a limit is: signalbox limit set openai --kind window -d requests=60/1m -d concurrency=4')
    .argument('<name>')
    .option('--kind <kind>', 'window (strict), bucket, adaptive or budget', 'window')
    .requiredOption('-d, --dimension <name=amount[/duration]>', 'a dimension; may be repeated', collect)
    .option('--burst <name=amount>', 'of a dimension of a bucket; may be repeated', collect)
    .option('--adaptive <dimension:min:max:target>', 'which one follows the latency, between what, towards what')
    .option('--when-down <closed|share>', 'what holds while Redis is away: closed, or a share from 0 to 1')
    .option('--change', 'change a limit that is defined otherwise')
    .action(async (name: string, flags: SetFlags) => {
      const definition = definitionOf(name, flags);
      const defined = await withClient(flags, { session: true }, (client) => client.limit.define(definition));
      if (flags.json) await printJson(defined);
      else await print(`${name} is a ${defined.kind} of ${Object.keys(defined.dimensions).join(', ')}`);
    });
  connected(limit.command('penalize'))
    .description('stop everybody for a while; then one tries, and only after it the rest')
    .argument('<name>')
    .argument('<duration>', 'such as 20s', durationMs)
    .option('--code <code>', 'why, such as 429')
    .action(async (name: string, afterMs: number, flags: ConnectionFlags & { code?: string }) => {
      const code = flags.code === undefined ? {} : { code: flags.code };
      const said = await withClient(flags, { session: true }, (client) =>
        client.limit.penalize({ name, afterMs, ...code }),
      );
      if (flags.json) await printJson(said);
      else await print(`${name} grants nothing before ${said.blockedUntilAt}`);
    });
}

async function printLimits(limits: readonly Limit[]): Promise<void> {
  if (limits.length === 0) return print('no limits');
  const rows = limits.flatMap((limit) =>
    Object.entries(limit.usage).map(([dimension, { amount, used, reserved, remaining }], i) => {
      const { perMs } = limit.dimensions[dimension] ?? {};
      const own =
        i === 0 ? [limit.name, limit.kind, limit.waiting, limit.blockedUntilAt] : ['', '', undefined, undefined];
      const [name, kind, waiting, blocked] = own;
      return [
        name,
        kind,
        dimension,
        amount,
        perMs === undefined ? undefined : ageOf(perMs),
        used,
        reserved,
        remaining,
        waiting,
        blocked,
      ];
    }),
  );
  const heads = ['LIMIT', 'KIND', 'DIMENSION', 'AMOUNT', 'PER', 'USED', 'RESERVED', 'LEFT', 'WAITING', 'BLOCKED UNTIL'];
  await printTable(heads, rows);
}

function definitionOf(name: string, flags: SetFlags): Definition {
  const bursts = pairs(flags.burst, '--burst');
  const dimensions = Object.entries(pairs(flags.dimension, '--dimension')).map(([dimension, text]) => {
    const [amount = '', per] = text.split('/', 2);
    const perMs = per === undefined ? {} : { perMs: spanOf(per, '--dimension') };
    const burst = bursts[dimension] === undefined ? {} : { burst: numberOf(bursts[dimension], '--burst') };
    return [dimension, { amount: numberOf(amount, '--dimension'), ...perMs, ...burst }] as const;
  });
  for (const dimension of Object.keys(bursts)) {
    if (!dimensions.some(([known]) => known === dimension))
      throw wrongUsage(`--burst names ${dimension}`, 'give that dimension with --dimension, too');
  }
  return {
    name,
    kind: flags.kind as Definition['kind'],
    dimensions: Object.fromEntries(dimensions),
    ...(flags.adaptive === undefined ? {} : { adaptive: adaptiveOf(flags.adaptive) }),
    ...(flags.whenDown === undefined ? {} : { whenDown: whenDownOf(flags.whenDown) }),
    ...(flags.change ? { change: true } : {}),
  };
}

function numberOf(text: string, what: string): number {
  if (!/^\d+$/.test(text))
    throw wrongUsage(`${what}: ${JSON.stringify(text)} is no whole number`, 'write it like requests=60/1m');
  return Number(text);
}

function spanOf(text: string, what: string): number {
  try {
    return durationMs(text);
  } catch {
    throw wrongUsage(`${what}: ${JSON.stringify(text)} is no duration`, 'write it like requests=60/1m');
  }
}

function adaptiveOf(text: string): NonNullable<Definition['adaptive']> {
  const [dimension = '', min = '', max = '', target = ''] = text.split(':');
  if (target === '') throw wrongUsage(`--adaptive ${text} has not four parts`, 'write it like requests:10:100:500ms');
  return {
    dimension,
    min: numberOf(min, '--adaptive'),
    max: numberOf(max, '--adaptive'),
    targetMs: spanOf(target, '--adaptive'),
  };
}

function whenDownOf(text: string): NonNullable<Definition['whenDown']> {
  if (text === 'closed') return text;
  const share = Number(text);
  if (text === '' || Number.isNaN(share))
    throw wrongUsage(`--when-down ${text} is neither closed nor a share`, 'write it like 0.5');
  return { share };
}
