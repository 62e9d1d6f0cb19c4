import { setTimeout as think } from 'node:timers/promises';
import { connect, stopOnSignals } from '../../client/index.js';
import { read } from './corpus.js';

/**
 * One agent in a process of its own: reads what it is given and hands in what it found. It knows the queue and nothing
 * else; that one of its kind is killed and another frozen is not its business.
 */
const { DEMO_URL, DEMO_AGENT, DEMO_QUEUE, DEMO_THINK_MS, DEMO_TTL_MS, SIGNALBOX_TOKEN } = process.env;

const sb = await connect({
  url: DEMO_URL!,
  agent: DEMO_AGENT!,
  ttlMs: Number(DEMO_TTL_MS),
  ...(SIGNALBOX_TOKEN ? { token: SIGNALBOX_TOKEN } : {}),
  onError: () => undefined,
});
stopOnSignals(sb);
sb.work<{ path: string }>(DEMO_QUEUE!, { concurrency: 2 }, async (task, { signal }) => {
  const reading = read(task.payload.path);
  // A model would think now; that is what makes agents slow, and their deaths expensive.
  await think(Number(DEMO_THINK_MS) * (0.5 + Math.random()), undefined, { signal });
  return { ...reading, agent: DEMO_AGENT };
});
await sb.closed;
process.exit(0);
