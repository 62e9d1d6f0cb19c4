import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http';
import type { TokenCheck } from '../gateway/token.js';
import type { DaemonView } from './daemon.js';
import { type Facts, judgeHealth, judgeReadiness, type Verdict } from './health.js';
import { isServedHost } from './host.js';
import type { LoopLag } from './loop-lag.js';
import type { Metrics } from './metrics.js';
import type { RedisPulse } from './redis-pulse.js';

export interface HttpParts {
  readonly daemon: DaemonView;
  readonly pulse: RedisPulse;
  readonly lag: LoopLag;
  readonly metrics: Metrics;
  readonly token: TokenCheck;
  readonly version: string;
  readonly onError: (where: string, error: unknown) => void;
}

type Answer = { readonly status: number; readonly type?: string; readonly body: string };

const json = (status: number, body: object): Answer => ({ status, body: `${JSON.stringify(body)}\n` });

/** Everything on the daemon's port that is no WebSocket. */
export function createHttp(parts: HttpParts): RequestListener {
  const paths: Readonly<Record<string, (request: IncomingMessage) => Promise<Answer>>> = {
    '/healthz': async () => report(parts, judgeHealth(await readFacts(parts)), 'ok', 'stuck'),
    '/readyz': async () => report(parts, judgeReadiness(await readFacts(parts)), 'ready', 'notReady'),
    '/metrics': async (request) => metricsFor(parts, request),
  };
  return (request, response) => {
    request.resume();
    answer(request)
      .catch((error): Answer => {
        parts.onError(`http ${request.url}`, error);
        return json(500, { status: 'error', reasons: ['a fault of the daemon; its log has it'] });
      })
      .then((given) => send(request, response, given));
  };

  async function answer(request: IncomingMessage): Promise<Answer> {
    if (!isServedHost(request, parts.daemon.config.gateway))
      return json(421, { reasons: ['this host is not served here (gateway.allowedHosts)'] });
    const path = (request.url ?? '').split('?', 1)[0] ?? '';
    const handler = Object.hasOwn(paths, path) ? paths[path] : undefined;
    if (!handler)
      return json(404, { reasons: [`nothing here; there are ${Object.keys(paths).join(', ')} and /v1/ws`] });
    if (request.method !== 'GET' && request.method !== 'HEAD') return json(405, { reasons: ['GET or HEAD'] });
    return handler(request);
  }
}

function send(request: IncomingMessage, response: ServerResponse, { status, type, body }: Answer): void {
  response.writeHead(status, {
    'Content-Type': type ?? 'application/json; charset=utf-8',
    'Content-Length': Buffer.byteLength(body),
    'Cache-Control': 'no-store',
    'X-Content-Type-Options': 'nosniff',
    ...(status === 401 ? { 'WWW-Authenticate': 'Bearer' } : {}),
    ...(status === 405 ? { Allow: 'GET, HEAD' } : {}),
  });
  response.end(request.method === 'HEAD' ? undefined : body);
}

/** The gateway listens, or nobody could ask. */
async function readFacts({ daemon, pulse, lag }: HttpParts): Promise<Facts> {
  const redisAnswers = await pulse.check();
  return {
    redisAnswers,
    redisForMs: pulse.answeringForMs,
    readers: [...daemon.namespaces].map(({ namespace, log }) => ({
      namespace: namespace.name,
      ageMs: log.readerAgeMs,
      deafMs: log.deafMs,
    })),
    loopLagMs: lag.meanMs,
    draining: daemon.draining,
  };
}

function report(parts: HttpParts, { good, reasons }: Verdict, yes: string, no: string): Answer {
  const { daemon, pulse, lag, version } = parts;
  const served = [...daemon.namespaces];
  const sum = (of: (one: (typeof served)[number]) => number): number => served.reduce((all, one) => all + of(one), 0);
  return json(good ? 200 : 503, {
    status: good ? yes : no,
    reasons,
    redis: pulse.rttMs === undefined ? 'down' : 'up',
    services: hearsServices(daemon),
    draining: daemon.draining,
    connections: daemon.gateway.connections,
    sessions: sum(({ sessions }) => sessions.size),
    workers: sum(({ pool }) => pool.takers),
    eventLoopLateMs: Math.round(lag.meanMs * 10) / 10,
    uptimeSeconds: Math.round(process.uptime()),
    daemon: daemon.daemon,
    version,
  });
}

/** Agents are served all the same: no reason to send them elsewhere, or to begin anew. */
function hearsServices({ ingress }: DaemonView): string {
  const { up, refusal } = ingress?.stats() ?? { up: false, refusal: undefined };
  return up ? 'heard' : `not heard${refusal === undefined ? '' : `: ${refusal}`}`;
}

/** Names of queues are nobody's business where a token is asked for; health says nothing of them and stays open. */
async function metricsFor({ metrics, token }: HttpParts, { headers }: IncomingMessage): Promise<Answer> {
  const [, given] = /^Bearer +(\S+) *$/i.exec(headers.authorization ?? '') ?? [];
  if (token.required && (given === undefined || !token.accepts(given)))
    return json(401, { reasons: ['send Authorization: Bearer <gateway.token>'] });
  return { status: 200, type: metrics.contentType, body: await metrics.text() };
}
