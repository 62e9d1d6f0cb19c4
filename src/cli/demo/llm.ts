import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as think } from 'node:timers/promises';
import type { Rate } from './rate.js';

/** A prompt is a line; more than this is none of ours. */
const promptMax = 10_000;

/** What the model makes of a prompt. It knows one trick, and an agent that has not asked it cannot have the answer. */
export const completionOf = (prompt: string): string => `A text about ${prompt.split('').reverse().join('')}.`;

/** A provider of a language model, on loopback: it thinks for a while, and beyond its rate it says 429. */
export class Llm {
  readonly rate: Rate;
  readonly #thinkMs: number;
  readonly #server: Server;
  #greeted = 0;

  constructor(rate: Rate, thinkMs: number) {
    this.rate = rate;
    this.#thinkMs = thinkMs;
    this.#server = createServer({ keepAliveTimeout: 120_000 }, (request, response) => {
      this.#answer(request, response).catch(() => response.destroy()); // Whoever asked is gone.
    });
  }

  async start(): Promise<string> {
    await new Promise<void>((resolve) => this.#server.listen(0, '127.0.0.1', resolve));
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** Resolves when so many have opened their connection: what is measured is the work, not how processes start. */
  async ready(count: number): Promise<void> {
    while (this.#greeted < count) await think(20);
  }

  stop(): void {
    this.#server.close();
    this.#server.closeAllConnections();
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    if (request.method === 'GET') {
      this.#greeted++;
      return void response.end('ready');
    }
    const now = performance.now();
    if (!this.rate.take(now)) {
      const headers = { 'retry-after-ms': String(Math.ceil(this.rate.roomMs(now))) };
      return void response.writeHead(429, headers).end();
    }
    const prompt = await textOf(request);
    await think(this.#thinkMs * (0.5 + Math.random()));
    response.end(completionOf(prompt));
  }
}

async function textOf(request: IncomingMessage): Promise<string> {
  let text = '';
  for await (const chunk of request) {
    text += chunk;
    if (text.length > promptMax) throw new Error(`a prompt of more than ${promptMax} characters`);
  }
  return text;
}
