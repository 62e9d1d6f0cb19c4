import { counted } from '../output.js';

/** What the demo counted. */
export interface Report {
  readonly documents: number;
  readonly results: number;
  /** Results that are not what reading the document gives. */
  readonly wrong: number;
  /** Tasks that were accepted as completed more than once. */
  readonly duplicates: number;
  readonly lost: number;
  /** Attempts that were taken back and given to somebody else: all, and those of the two agents that were disturbed. */
  readonly redelivered: number;
  readonly redeliveredFromKilled: number;
  readonly redeliveredFromFrozen: number;
  readonly eventsSeen: number;
  readonly eventsInLog: number;
  /** Events the watcher missed, saw twice, or saw in another order than the log has them. */
  readonly eventsOff: number;
  /** What the service that knows only Redis has published, as the watcher saw it. */
  readonly published: readonly string[];
  /** Names of the two, empty if it did not happen. */
  readonly killed: string;
  readonly frozen: string;
  readonly watcherCuts: number;
  readonly seconds: number;
  /** Calls of the model under the limit, as the model counted them: answered, refused with 429, share of its rate. */
  readonly served: number;
  readonly refused: number;
  readonly share: number;
  /** The same without a limit, and how many documents came to a result then. */
  readonly aloneResults: number;
  readonly aloneServed: number;
  readonly aloneRefused: number;
  readonly aloneShare: number;
  readonly aloneSeconds: number;
}

/** Least share of the model's rate that the agents must use together. */
const shareLeast = 0.9;

/** Below that the demo shows nothing: it runs, and says so. */
export const documentsLeast = 500;

/** Everything that did not hold, in words; empty if the demo is what it claims. */
export function failures(report: Report): string[] {
  const checks: [boolean, string][] = [
    [
      report.documents >= documentsLeast,
      `only ${counted(report.documents, 'document')}; the demo reads at least ${documentsLeast}`,
    ],
    [
      report.results === report.documents,
      `${counted(report.results, 'result')} for ${counted(report.documents, 'document')}`,
    ],
    [report.wrong === 0, `wrong results: ${report.wrong} differ from what the document says`],
    [report.duplicates === 0, `tasks accepted as completed twice: ${report.duplicates}`],
    [report.lost === 0, `documents lost: ${report.lost}`],
    [report.redeliveredFromKilled > 0, 'nothing was redelivered of the agent that was killed at work'],
    [report.redeliveredFromFrozen > 0, 'nothing was redelivered of the agent that was frozen at work'],
    [report.eventsOff === 0, `the watcher's record differs from the log in ${counted(report.eventsOff, 'event')}`],
    [
      report.eventsSeen === report.eventsInLog,
      `the watcher saw ${report.eventsSeen} of ${counted(report.eventsInLog, 'event')}`,
    ],
    [
      report.published.join() === 'batch.started,batch.finished',
      `published events seen: ${report.published.join(', ') || 'none'}`,
    ],
    [report.killed !== '', 'no agent was killed'],
    [report.frozen !== '', 'no agent was frozen and thawed'],
    [report.watcherCuts > 0, 'the watcher was not cut'],
    [
      report.served >= report.documents,
      `the model was asked ${counted(report.served, 'time')} for ${counted(report.documents, 'document')}`,
    ],
    [report.refused === 0, `calls under the limit that were answered 429: ${report.refused}`],
    [
      report.share >= shareLeast,
      `only ${percent(report.share)} of the model's rate was used; ${percent(shareLeast)} must be`,
    ],
    [
      report.aloneResults === report.documents,
      `without a limit: ${counted(report.aloneResults, 'result')} for ${counted(report.documents, 'document')}`,
    ],
    // Otherwise the rate was never reached, and that nobody met a 429 under the limit says nothing.
    [report.aloneRefused > 0, 'no call without a limit was answered 429'],
  ];
  return checks.filter(([holds]) => !holds).map(([, text]) => text);
}

/** The same numbers as rows of a table. */
export function rowsOf(report: Report): [string, string | number][] {
  return [
    ['documents', report.documents],
    ['results', report.results],
    ['duplicates accepted', report.duplicates],
    ['lost', report.lost],
    ['redelivered', report.redelivered],
    ['events seen by the watcher', report.eventsSeen],
    ['events in the log', report.eventsInLog],
    ['agent killed', report.killed],
    ['agent frozen and thawed', report.frozen],
    ['watcher cut and resumed', report.watcherCuts > 0 ? 'yes' : 'no'],
    ['tasks/s', Math.round(report.results / report.seconds)],
  ];
}

/** The two runs beside each other, as the model counted its calls. */
export function callRowsOf(report: Report): [string, string, string][] {
  return [
    ['answered', `${report.served}`, `${report.aloneServed}`],
    ['refused with 429', `${report.refused}`, `${report.aloneRefused}`],
    ['share of the quota used', percent(report.share), percent(report.aloneShare)],
    ['seconds', report.seconds.toFixed(1), report.aloneSeconds.toFixed(1)],
  ];
}

/** Rounded down: what is shown as enough is enough. */
const percent = (share: number): string => `${Math.floor(share * 100)}%`;

/** How many places differ between what was seen and what is in the log, both as offsets in order. */
export function differences(seen: readonly number[], log: readonly number[]): number {
  let off = Math.abs(seen.length - log.length);
  for (let i = 0; i < Math.min(seen.length, log.length); i++) if (seen[i] !== log[i]) off++;
  return off;
}
