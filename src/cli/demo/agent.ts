import { connect, stopOnSignals } from '../../client/index.js';
import { type Answer, ask, askPatiently, greet } from './ask.js';
import { read } from './corpus.js';

/**
 * One agent in a process of its own: reads what it is given, asks the model about it and hands in what it found. It
 * knows the queue, the model and the name of its limit; that one of its kind is killed and another frozen is not its
 * business. Without DEMO_LIMIT it asks whenever it likes and backs off from a 429, as programs do that share nothing.
 */
const { DEMO_URL, DEMO_AGENT, DEMO_QUEUE, DEMO_LLM, DEMO_LIMIT, DEMO_MINUTE_MS, DEMO_TTL_MS, SIGNALBOX_TOKEN } =
  process.env;

const sb = await connect({
  url: DEMO_URL!,
  agent: DEMO_AGENT!,
  ttlMs: Number(DEMO_TTL_MS),
  ...(SIGNALBOX_TOKEN ? { token: SIGNALBOX_TOKEN } : {}),
  onError: () => undefined,
});
stopOnSignals(sb);

const limited = (prompt: string, signal: AbortSignal): Promise<Answer> =>
  sb.limit(DEMO_LIMIT!, { requests: 1 }, { signal }, async (call) => {
    // Whoever was frozen since the grant must not spend what has become another's.
    if (call.signal.aborted) throw call.signal.reason;
    const answer = await ask(DEMO_LLM!, prompt, call.signal);
    if (answer.status === 429) await call.penalize(Math.max(1, answer.afterMs), '429');
    return answer;
  });

const alone = (prompt: string, signal: AbortSignal): Promise<Answer> =>
  askPatiently(DEMO_LLM!, prompt, Number(DEMO_MINUTE_MS), signal);

const complete = DEMO_LIMIT ? limited : alone;
await greet(DEMO_LLM!);
sb.work<{ path: string }>(DEMO_QUEUE!, { concurrency: 2 }, async (task, { signal }) => {
  const reading = read(task.payload.path);
  const { status, text } = await complete(reading.terms.join(' '), signal);
  if (status !== 200) throw new Error(`the model answered ${status}`);
  return { ...reading, summary: text, agent: DEMO_AGENT };
});
await sb.closed;
process.exit(0);
