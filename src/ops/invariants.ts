import { type Client, isCluster, ScriptRunner } from '../redis/connection.js';
import { keyPage, prefix } from '../redis/keys.js';
import { Namespace } from '../redis/namespace.js';
import { lua } from '../redis/script.js';
import { adviceFor, type InvariantId, levelOf } from './invariant-advice.js';

const queuesScript = lua(import.meta.url, '../queue/queues.lua', ['after', 'limit']);
const queueScript = lua(import.meta.url, './check/queue.lua', ['queue', 'max']);
const rowsScript = lua(import.meta.url, './check/rows.lua', ['queue', 'set', 'cursor', 'limit']);
const sessionsScript = lua(import.meta.url, './check/sessions.lua', ['cursor', 'limit']);
const clocksScript = lua(import.meta.url, './check/clocks.lua', ['lateMs']);
const limitsScript = lua(import.meta.url, './check/limits.lua', ['max']);
const logScript = lua(import.meta.url, './check/log.lua', ['limit']);
const keysScript = lua(import.meta.url, './check/keys.lua');

/** How far the checks look. Every script reads at most a page; these bound the number of pages. */
export interface Bounds {
  readonly queues: number;
  /** Members of sets and sessions. */
  readonly rows: number;
  /** Holdings and limits that are held against each other in one moment, and so in one script. */
  readonly holdings: number;
  /** Keys of the namespace. */
  readonly keys: number;
  /** Last entries of the log. */
  readonly entries: number;
  /** A clock that is behind by more than this has been forgotten. */
  readonly lateMs: number;
}

export const defaultBounds: Bounds = {
  queues: 200,
  rows: 20_000,
  holdings: 2000,
  keys: 50_000,
  entries: 2000,
  lateMs: 10_000,
};

export interface InvariantFinding {
  readonly id: InvariantId;
  readonly level: 'warn' | 'error';
  readonly message: string;
  readonly advice: string;
}

export interface InvariantReport {
  readonly findings: readonly InvariantFinding[];
  /** How much was looked at. */
  readonly looked: { readonly queues: number; readonly rows: number; readonly keys: number; readonly entries: number };
  /** What was left out because of the bounds, in words. */
  readonly skipped: readonly string[];
}

type Row = [id: InvariantId, what: string, have: string, expected: string];
const sets = ['waiting', 'scheduled', 'active', 'completed', 'windowed', 'cancelled', 'dead', 'expired'] as const;
const pageRows = 200;
/** Findings of one kind beyond this say nothing new. */
const findingsMax = 20;

/**
 * Design section 8 on a live system: counters against sets, sets against records, holdings against sessions, lanes against
 * what waits, limits against their reservations, keys against the page of keys, the end of the log against its counters.
 * Only reads; each script sees one moment, so that work going on meanwhile is never taken for a fault.
 */
export async function checkInvariants(
  client: Client,
  namespace: string,
  bounds: Partial<Bounds> = {},
): Promise<InvariantReport> {
  return new Check(client, namespace, { ...defaultBounds, ...bounds }).run();
}

/** One a connection: a runner listens to it for as long as it lives. */
const runners = new WeakMap<Client, ScriptRunner>();

function runnerOf(client: Client): ScriptRunner {
  const known = runners.get(client) ?? new ScriptRunner(client, []);
  runners.set(client, known);
  return known;
}

class Check {
  readonly #client: Client;
  readonly #name: string;
  readonly #namespace: Namespace;
  readonly #bounds: Bounds;
  readonly #findings = new Map<string, InvariantFinding[]>();
  readonly #skipped: string[] = [];
  readonly #looked = { queues: 0, rows: 0, keys: 0, entries: 0 };

  constructor(client: Client, name: string, bounds: Bounds) {
    this.#client = client;
    this.#name = name;
    this.#bounds = bounds;
    this.#namespace = new Namespace(name, runnerOf(client), { daemon: 'doctor', eventsMax: Number.MAX_SAFE_INTEGER });
  }

  async run(): Promise<InvariantReport> {
    const { entries, lateMs, holdings } = this.#bounds;
    const [rows, looked] = await this.#namespace.read<[Row[], number]>(logScript, [entries]);
    this.#tell('log', rows);
    this.#looked.entries = looked;
    if (looked === entries) this.#skipped.push(`the log before its last ${entries} entries`);
    this.#tell('clock', await this.#namespace.read<Row[]>(clocksScript, [lateMs]));
    const [limits, left] = await this.#namespace.read<[Row[], string[]]>(limitsScript, [holdings]);
    this.#tell('limit', limits);
    this.#skipped.push(...left);
    await this.#queues();
    await this.#pages('sessions', (cursor, limit) => this.#namespace.read(sessionsScript, [cursor, limit]));
    await this.#keys();
    return { findings: [...this.#findings.values()].flat(), looked: this.#looked, skipped: this.#skipped };
  }

  #tell(where: string, rows: readonly Row[]): void {
    for (const [id, what, have, expected] of rows) {
      const kind = this.#findings.get(`${where} ${id}`) ?? [];
      this.#findings.set(`${where} ${id}`, kind);
      if (kind.length >= findingsMax) continue;
      const message = `${where}: ${what}: ${have}, expected ${expected}`;
      kind.push({ id, level: levelOf(id), message, advice: adviceFor(id) });
    }
  }

  async #queues(): Promise<void> {
    const { queues, rows } = this.#bounds;
    const names = await this.#namespace.read<string[]>(queuesScript, ['', queues + 1]);
    if (names.length > queues) this.#skipped.push(`queues after the first ${queues}`);
    for (const queue of names.slice(0, queues)) {
      this.#looked.queues++;
      const [found, skipped] = await this.#namespace.read<[Row[], string[]]>(queueScript, [queue, rows]);
      this.#tell(`queue ${queue}`, found);
      for (const what of skipped) this.#skipped.push(`${what} of ${queue}`);
      for (const set of sets) {
        await this.#pages(`${set} of ${queue}`, (cursor, limit) =>
          this.#namespace.read(rowsScript, [queue, set, cursor, limit]),
        );
      }
    }
  }

  /** Goes through a set page by page while the cap on rows lasts. */
  async #pages(what: string, read: (cursor: string, limit: number) => Promise<[Row[], string, number]>): Promise<void> {
    for (let cursor = ''; ; ) {
      const left = this.#bounds.rows - this.#looked.rows;
      if (left <= 0) {
        this.#skipped.push(cursor === '' ? what : `the rest of ${what}`);
        return;
      }
      const [rows, next, count] = await read(cursor, Math.min(pageRows, left));
      this.#tell(what, rows);
      this.#looked.rows += count;
      if (next === '') return;
      cursor = next;
    }
  }

  async #keys(): Promise<void> {
    const start = prefix(this.#name);
    if (isCluster(this.#client)) {
      this.#skipped.push('keys of a Cluster');
      return;
    }
    const pattern = `${start.replace(/[[\]*?\\]/g, '\\$&')}*`;
    for (let cursor = '0'; ; ) {
      const [next, names] = await this.#client.scan(cursor, 'MATCH', pattern, 'COUNT', 1000);
      for (let i = 0; i < names.length; i += pageRows) {
        await this.#judgeKeys(names.slice(i, i + pageRows).map((name) => name.slice(start.length)));
      }
      this.#looked.keys += names.length;
      if (next === '0') return;
      if (this.#looked.keys >= this.#bounds.keys) {
        this.#skipped.push(`keys after the first ${this.#looked.keys}`);
        return;
      }
      cursor = next;
    }
  }

  async #judgeKeys(keys: readonly string[]): Promise<void> {
    const [rows, types] = await this.#namespace.read<[Row[], string[]]>(keysScript, [...keys]);
    this.#tell('key', rows);
    keys.forEach((key, i) => {
      // Gone since SCAN named it.
      if (types[i] === 'none') return;
      const known = page.filter(({ shape }) => shape.test(key));
      const fits = known.some(({ type }) => type === types[i]);
      if (!fits)
        this.#tell('key', [['page', key, types[i]!, known.map(({ type }) => type).join(' or ') || 'no such key']]);
    });
  }
}

const page = keyPage.map(({ key, type }) => {
  const shape = key.replace(/<#[^>]+>/g, '\\d+').replace(/<[^>]+>/g, '[^]*');
  return { type, shape: new RegExp(`^${shape}$`) };
});
