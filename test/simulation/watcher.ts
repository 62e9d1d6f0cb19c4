import type { LoggedEvent, Received } from './oracle.js';
import { direct, type Transport } from './peer.js';

const silenceMs = 3000;

/** A watcher of the feed that comes back after every cut with the last position it has handled, and keeps its record. */
export class Watcher {
  readonly name: string;
  readonly types: readonly string[];
  readonly record: Received[] = [];
  readonly problems: string[] = [];
  #transport: Transport | undefined;
  #position = '';
  #ready = false;
  #url: () => string;
  #stopped = false;
  #again: NodeJS.Timeout | undefined;
  #silence: NodeJS.Timeout | undefined;

  constructor(name: string, types: readonly string[], url: () => string) {
    this.name = name;
    this.types = types;
    this.#url = url;
  }

  get position(): string {
    return this.#position;
  }

  wants = (event: LoggedEvent): boolean => this.types.some((pattern) => matches(pattern, event.type));

  /** Connects now, and again after every end until `stop`. */
  start(url?: () => string): void {
    if (url) this.#url = url;
    clearTimeout(this.#again);
    this.#transport?.cut();
    this.#ready = false;
    const transport = direct(this.#url(), {
      open: () => undefined,
      line: (text) => {
        if (transport !== this.#transport) return;
        this.#listen(transport);
        this.#hear(JSON.parse(text));
      },
      closed: () => {
        if (transport !== this.#transport) return;
        this.#transport = undefined;
        clearTimeout(this.#silence);
        if (!this.#stopped) this.#again = setTimeout(() => this.start(), 60);
      },
    });
    this.#transport = transport;
    this.#listen(transport);
  }

  /** Heartbeats come when nothing else does: a link that is silent for so long is dead. */
  #listen(transport: Transport): void {
    clearTimeout(this.#silence);
    this.#silence = setTimeout(() => transport.cut(), silenceMs);
  }

  get subscribed(): boolean {
    return this.#ready;
  }

  leave(how: 'cut' | 'close'): void {
    if (how === 'cut') this.#transport?.cut();
    else this.#transport?.close();
  }

  stop(): void {
    this.#stopped = true;
    clearTimeout(this.#again);
    clearTimeout(this.#silence);
    this.#transport?.cut();
  }

  // biome-ignore lint/suspicious/noExplicitAny: lines of the wire
  #hear(line: any): void {
    if (line.op === 'hello') {
      const from = this.#position === '' ? 'all' : this.#position;
      const params = { types: this.types, from, onGap: 'skip' };
      this.#transport?.send(JSON.stringify({ id: 1, op: 'feed.subscribe', params }));
    } else if (line.id === 1) {
      if (line.error) {
        if (!['UNAVAILABLE', 'TIMEOUT', 'DRAINING'].includes(line.error.code))
          this.problems.push(`${this.name}: ${JSON.stringify(line.error)} from ${this.#position}`);
        this.#transport?.cut();
        return;
      }
      this.#ready = true;
      if (this.#position === '') {
        this.record.push({ kind: 'from', position: line.ok.from });
        this.#position = line.ok.from;
      }
    } else if (line.op === 'event') {
      if (!this.#ready) this.problems.push(`${this.name}: event ${line.offset} before the reply of its subscription`);
      this.record.push({
        kind: 'event',
        offset: line.offset,
        id: line.event.id,
        type: line.event.type,
        data: line.event.data,
      });
      this.#position = `${this.#position.slice(0, this.#position.lastIndexOf(':'))}:${line.offset}`;
    } else if (line.op === 'position' || (line.op === 'heartbeat' && line.position)) {
      this.record.push({ kind: 'position', position: line.position });
      this.#position = line.position;
    } else if (line.op === 'gap') {
      this.record.push({ kind: 'gap', from: line.from, to: line.to, lost: line.lost, reason: line.reason });
      this.#position = line.to;
    }
  }
}

/** `*` is one word, `>` at the end one or more. */
export function matches(pattern: string, type: string): boolean {
  const wanted = pattern.split('.');
  const words = type.split('.');
  for (let i = 0; i < wanted.length; i++) {
    if (wanted[i] === '>') return words.length > i;
    if (i >= words.length || (wanted[i] !== '*' && wanted[i] !== words[i])) return false;
  }
  return wanted.length === words.length;
}
