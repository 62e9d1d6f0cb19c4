import type { Command } from 'commander';
import { Closed, type Delivery, type Signalbox } from '../client/index.js';
import type { Status } from '../client/options.js';
import { type Attribute, attributes } from '../protocol/filter.js';
import { type ConnectionFlags, connected, open } from './connection.js';
import { exit, type Outcome, wrongUsage } from './exit.js';
import { collect, pairs, whole } from './input.js';
import { counted, print, printJson, say, visible } from './output.js';

interface Flags extends ConnectionFlags {
  readonly from: string;
  readonly where?: string[];
  readonly count?: number;
}

export function tailCommand(program: Command, outcome: Outcome): void {
  connected(program.command('tail'))
    .description('print events as they happen, one a line; goes on after a cut without losing any')
    .argument('[patterns...]', "types: 'task.*', 'deploy.>'; * is one word, > one or more (>)")
    .option('--from <place>', 'new, all, last:<n>, a position, or an instant (RFC 3339)', 'new')
    .option(
      '--where <name=value>',
      `only events with this ${attributes.slice(0, 3).join(', ')} …; may be repeated`,
      collect,
    )
    .option('--count <n>', 'end after so many events', whole(1, Number.MAX_SAFE_INTEGER))
    .action(async (patterns: string[], flags: Flags) => {
      outcome.code = await tail(patterns.length > 0 ? patterns : ['>'], flags);
    });
}

async function tail(types: string[], flags: Flags): Promise<number> {
  const from = placeOf(flags.from);
  const where = pairs(flags.where, '--where');
  const unknown = Object.keys(where).find((name) => !attributes.includes(name as Attribute));
  if (unknown !== undefined) throw wrongUsage(`--where ${unknown}: there are ${attributes.join(', ')}`);
  const client = await open(flags, { session: false, onStatus: flags.json ? () => {} : tellStatus });
  const stop = stopOnce(client);
  try {
    const subscription = await client.subscribe({ types, from, where });
    let left = flags.count ?? Number.POSITIVE_INFINITY;
    for await (const delivery of subscription) {
      await show(delivery, flags.json === true);
      if (delivery.event && --left === 0) break;
    }
    return exit.ok;
  } catch (error) {
    if (error instanceof Closed && error.code === 1000) return exit.ok;
    throw error;
  } finally {
    stop();
    await client.close();
  }
}

function placeOf(text: string): 'new' | 'all' | { last: number } | { at: string } | (string & {}) {
  const [, last] = /^last:(\d+)$/.exec(text) ?? [];
  if (last !== undefined) return { last: Number(last) };
  if (/^\d{4}-\d\d-\d\dT/.test(text)) return { at: text };
  return text;
}

async function show(delivery: Delivery, json: boolean): Promise<void> {
  const { event, gap } = delivery;
  if (json) return printJson(delivery);
  if (gap) {
    const lost = gap.lost === undefined ? 'an unknown number of events' : counted(gap.lost, 'event');
    return print(`-- ${lost} lost here (${gap.reason}): from ${gap.from} to ${gap.to}`);
  }
  const { time, type, subject, data } = event;
  const about = subject === undefined ? '' : ` ${visible(subject)}`;
  const rest = data === null || data === undefined ? '' : ` ${visible(JSON.stringify(data))}`;
  return print(`${time} ${visible(type)}${about}${rest}`);
}

function tellStatus(status: Status): void {
  if (status.state === 'reconnecting')
    say(`-- connection lost (${status.reason || status.code}); it goes on where it was`);
}

/** Ctrl-C ends a tail in order, and says where the next one could go on. */
function stopOnce(client: Signalbox): () => void {
  const stop = (): void => {
    if (client.position !== undefined) say(`-- go on with --from ${client.position}`);
    void client.close();
  };
  process.once('SIGINT', stop);
  process.once('SIGTERM', stop);
  return () => {
    process.off('SIGINT', stop);
    process.off('SIGTERM', stop);
  };
}
