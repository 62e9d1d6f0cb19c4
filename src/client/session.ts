import { Refusal } from '../errors.js';
import type { Moment } from './clock.js';
import type { HoldingRow } from './crew.js';
import type { Settings } from './options.js';
import type { Requests } from './requests.js';
import type { Frame } from './socket.js';

/** What `resume` takes: who we are to the daemon, across connections. */
export interface Identity {
  readonly session: string;
  readonly key: string;
}

export interface Opened {
  readonly ttlMs: number;
  readonly resumed: boolean;
  readonly sentAt: Moment;
  readonly holdings: readonly HoldingRow[];
  readonly epoch: string;
}

/** A daemon that says no `cursor` cuts `holdings` here without a word. */
const holdingsMax = 1000;

/** Opens the session, or goes on with it on another socket. */
export class Session {
  identity: Identity | undefined;
  private readonly settings: Settings;
  private readonly requests: Requests;

  constructor(settings: Settings, requests: Requests) {
    this.settings = settings;
    this.requests = requests;
    this.identity = settings.resume;
  }

  /** `lost` is called before a new session is opened in place of one that has ended. */
  async open(lost: () => void): Promise<Opened> {
    try {
      return await this.ask(this.identity);
    } catch (error) {
      const isLost = error instanceof Refusal && (error.code === 'SESSION_LOST' || error.code === 'BAD_KEY');
      if (!isLost || !this.identity) throw error;
      this.forget();
      lost();
      return await this.ask(undefined);
    }
  }

  forget(): void {
    this.identity = undefined;
  }

  async close(timeoutMs: number): Promise<void> {
    if (!this.identity) return;
    this.forget();
    await this.call('session.close', {}, timeoutMs);
  }

  private async ask(resume: Identity | undefined): Promise<Opened> {
    const { agent, namespace, tenant, ttlMs, token, labels, connectTimeoutMs } = this.settings;
    const params = { agent, namespace, tenant, ttlMs, token, labels, resume };
    const { ok, sentAt } = await this.call('session.open', params, connectTimeoutMs);
    this.identity = { session: ok.session as string, key: ok.key as string };
    const holdings = (ok.holdings ?? []) as HoldingRow[];
    if (ok.cursor !== undefined || holdings.length >= holdingsMax) holdings.push(...(await this.rest(ok.cursor)));
    const [epoch = ''] = String(ok.position).split(':');
    return { ttlMs: ok.ttlMs as number, resumed: ok.resumed === true, sentAt, holdings, epoch };
  }

  private async rest(from: unknown): Promise<HoldingRow[]> {
    const rows: HoldingRow[] = [];
    let cursor = from;
    do {
      const params = { session: this.identity?.session, limit: holdingsMax, cursor };
      const { ok } = await this.call('lease.list', params, this.settings.connectTimeoutMs);
      rows.push(...((ok.leases ?? []) as HoldingRow[]));
      cursor = ok.cursor;
    } while (cursor !== undefined);
    return rows;
  }

  private call(op: string, params: object, timeoutMs: number): Promise<{ ok: Frame; sentAt: Moment }> {
    return new Promise((resolve, reject) => {
      const traits = { lane: 'direct', repeat: false, timeoutMs } as const;
      this.requests.send(op, JSON.stringify(params), traits, (error, ok, sentAt) =>
        error ? reject(error) : resolve({ ok, sentAt }),
      );
    });
  }
}

/** Refusals of session.open that the same words will meet again. Anything else may pass. */
export function isFinalRefusal(error: unknown): error is Refusal {
  return error instanceof Refusal && !error.retry;
}
