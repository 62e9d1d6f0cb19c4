import type { Any, Ledger } from './calls.js';
import type { TapEvent } from './tap.js';

/** Clocks of services and of the daemons' links; a gap says from the last proof that the link was heard. */
const slackMs = 1500;
const same = (a: unknown, b: unknown): boolean => JSON.stringify(a) === JSON.stringify(b);

/** What services and agents published, against the log: there once, in place, or announced as missing. */
export function checkPublished(ledger: Ledger, log: readonly TapEvent[], lostAt: number): string[] {
  const foreign = log.filter(({ own }) => !own);
  const problems = twice(foreign);
  const byPosition = new Map(log.map((event) => [event.offset, event]));
  for (const { op, params, ok, sentAt } of ledger.calls) {
    if (op !== 'feed.publish' || !ok || sentAt <= lostAt) continue;
    params.events.forEach((asked: Any, i: number) => {
      const item = ok.events[i];
      if (item.error) problems.push(`publish of ${asked.type} refused: ${JSON.stringify(item.error)}`);
      else {
        const found = byPosition.get(Number(item.position.split(':')[1]));
        const fits =
          found && (item.duplicate ? found.id === asked.id : found.type === asked.type && same(found.data, asked.data));
        if (!fits)
          problems.push(
            `published ${JSON.stringify(asked)} as ${JSON.stringify(item)}, the log has ${JSON.stringify(found)?.slice(0, 200)}`,
          );
      }
    });
  }
  return [...problems, ...said(ledger, log, foreign, lostAt)];
}

/** Source and id together name an event: it is in the log once. So is a number that the history gave out once. */
function twice(foreign: readonly TapEvent[]): string[] {
  const problems: string[] = [];
  const names = new Set<string>();
  for (const { id, source, offset } of foreign) {
    if (id === '') continue;
    const name = `${source} ${id}`;
    if (names.has(name)) problems.push(`${name} is in the log twice, again at ${offset}`);
    names.add(name);
  }
  return problems;
}

function said(ledger: Ledger, log: readonly TapEvent[], foreign: readonly TapEvent[], lostAt: number): string[] {
  const problems: string[] = [];
  const gaps = log
    .filter(({ own, type }) => own && type === 'ingress.gap')
    .map(({ data }) => [Date.parse(data.since), Date.parse(data.until)] as const);
  for (const { type, data, id, source, at } of ledger.said) {
    if (at <= lostAt) continue;
    const found = foreign.some((event) =>
      id ? event.id === id && event.source === source : event.type === type && same(event.data, data),
    );
    const announced = gaps.some(([since, until]) => since - slackMs <= at && at <= until + slackMs);
    if (!found && !announced)
      problems.push(`PUBLISH of ${type} ${JSON.stringify(data)} at ${at} is neither in the log nor within a gap`);
  }
  return problems;
}
