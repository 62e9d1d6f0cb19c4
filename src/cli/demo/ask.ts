import { once } from 'node:events';
import { Agent, type IncomingMessage, request } from 'node:http';
import { setTimeout as wait } from 'node:timers/promises';

const agent = new Agent({ keepAlive: true });

export interface Answer {
  readonly status: number;
  readonly text: string;
  /** After a 429: when the provider has room again. */
  readonly afterMs: number;
}

/** Opens the connection, so that the first prompt is not late by it. */
export const greet = (url: string): Promise<Answer> => send(url, 'GET', '');

/** One call of the model, whatever it answers. */
export const ask = (url: string, prompt: string, signal?: AbortSignal): Promise<Answer> =>
  send(url, 'POST', prompt, signal);

/**
 * What a program does that knows nothing of the others: after a 429 it tries again after a random time of one second,
 * then of up to two, four, … at most a minute (`minuteMs` long here), until it is served.
 */
export async function askPatiently(
  url: string,
  prompt: string,
  minuteMs: number,
  signal: AbortSignal,
): Promise<Answer> {
  const second = minuteMs / 60;
  for (let tries = 0; ; tries++) {
    const answer = await ask(url, prompt, signal);
    if (answer.status !== 429) return answer;
    const most = second * Math.min(60, 2 ** tries);
    await wait(second + Math.random() * (most - second), undefined, { signal });
  }
}

async function send(url: string, method: string, prompt: string, signal?: AbortSignal): Promise<Answer> {
  const call = request(url, { method, agent, ...(signal ? { signal } : {}) });
  call.end(prompt);
  const [response] = (await once(call, 'response')) as [IncomingMessage];
  let text = '';
  for await (const chunk of response) text += chunk;
  return { status: response.statusCode ?? 0, text, afterMs: Number(response.headers['retry-after-ms'] ?? 0) };
}
