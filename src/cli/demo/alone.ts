import type { Signalbox } from '../../client/index.js';
import { newId } from '../../lib/ids.js';
import { counted } from '../output.js';
import { agentsCount, type Stage, startAgents } from './crew.js';
import { Llm } from './llm.js';
import { Rate } from './rate.js';
import type { Report } from './verdict.js';

/**
 * The same documents, the same agents, the same model with a quota of its own, and no limit that they share: each backs
 * off for itself. Nobody is killed or frozen here.
 */
export async function playAlone(
  sb: Signalbox,
  stage: Stage,
  documents: readonly string[],
  tell: (text: string) => void,
): Promise<Pick<Report, 'aloneResults' | 'aloneServed' | 'aloneRefused' | 'aloneShare' | 'aloneSeconds'>> {
  const queue = `demo-${newId()}`;
  const rate = new Rate(stage.rate, stage.minuteMs);
  const llm = new Llm(rate, stage.thinkMs);
  let results = 0;
  const display = setInterval(
    () => tell(`without a limit: ${results}/${documents.length} read, ${counted(rate.refused, 'time')} 429`),
    process.stderr.isTTY ? 100 : 2000,
  );
  try {
    const agents = startAgents(stage, queue, await llm.start());
    await llm.ready(agentsCount);
    const startedAt = performance.now();
    const made = await Promise.all(documents.map((path) => sb.enqueue(queue, { path }, { maxAttempts: 5 })));
    await Promise.all(
      made.map(async ({ task }) => {
        const { state } = await sb.result(task, { waitMs: 90_000 });
        if (state === 'completed') results++;
      }),
    );
    const aloneSeconds = (performance.now() - startedAt) / 1000;
    await Promise.all(agents.map(({ child }) => stage.cast.end(child)));
    return {
      aloneResults: results,
      aloneServed: rate.served,
      aloneRefused: rate.refused,
      aloneShare: rate.share,
      aloneSeconds,
    };
  } finally {
    clearInterval(display);
    llm.stop();
  }
}
