import { once } from 'node:events';
import { WebSocket } from 'ws';

/** Anything the wire carries; tests assert on the parts they mean. */
// biome-ignore lint/suspicious/noExplicitAny: a test looks at any shape
export type Any = any;

export class WireFailure extends Error {
  readonly error: Any;
  constructor(error: Any) {
    super(`${error.code}: ${error.message}`);
    this.error = error;
  }
  get code(): string {
    return this.error.code;
  }
}

/** A bare peer of the protocol: what a client in any language would do by hand, without the comfort of the SDK. */
export class Wire {
  readonly socket: WebSocket;
  /** Every line that came, in order. */
  readonly lines: Any[] = [];
  hello: Any;
  closed: { code: number; reason: string } | undefined;
  #nextId = 1;
  readonly #replies = new Map<number, { resolve: (ok: Any) => void; reject: (error: Error) => void }>();
  readonly #watchers = new Set<() => void>();

  constructor(socket: WebSocket) {
    this.socket = socket;
    socket.on('message', (data) => {
      for (const line of String(data).split('\n')) this.#take(JSON.parse(line));
      // Once for all lines of a message: whoever waits looks through much of what has come.
      this.#wake();
    });
    socket.on('close', (code, reason) => {
      this.closed = { code, reason: String(reason) };
      for (const { reject } of this.#replies.values()) reject(new Error(`the socket closed (${code} ${reason})`));
      this.#replies.clear();
      this.#wake();
    });
    socket.on('error', () => undefined);
  }

  static async open(url: string, options: { headers?: Record<string, string>; protocol?: string } = {}): Promise<Wire> {
    const socket = new WebSocket(url, options.protocol ?? 'signalbox.v1', { headers: options.headers ?? {} });
    const wire = new Wire(socket);
    await once(socket, 'open');
    wire.hello = await wire.next((line) => line.op === 'hello');
    return wire;
  }

  /** Opens a socket and a session on it. */
  static async session(url: string, params: Any = {}): Promise<Wire & { opened: Any }> {
    const wire = (await Wire.open(url)) as Wire & { opened: Any };
    wire.opened = await wire.call('session.open', { agent: 'agent', ...params });
    return wire;
  }

  #take(line: Any): void {
    if (line.id !== undefined && (line.ok !== undefined || line.error !== undefined)) {
      const waiting = this.#replies.get(line.id);
      this.#replies.delete(line.id);
      if (line.error) waiting?.reject(new WireFailure(line.error));
      else waiting?.resolve(line.ok);
    }
    this.lines.push(line);
  }

  #wake(): void {
    for (const watcher of [...this.#watchers]) watcher();
  }

  send(text: string): void {
    this.socket.send(text);
  }

  call(op: string, params: Any = {}): Promise<Any> {
    const id = this.#nextId++;
    return new Promise((resolve, reject) => {
      if (this.closed) return reject(new Error('the socket is closed'));
      this.#replies.set(id, { resolve, reject });
      this.send(JSON.stringify({ id, op, params }));
    });
  }

  /** The error of a call that must be refused. */
  async refused(op: string, params: Any = {}): Promise<Any> {
    try {
      const ok = await this.call(op, params);
      throw new Error(`expected a refusal of ${op}, got ${JSON.stringify(ok)}`);
    } catch (error) {
      if (error instanceof WireFailure) return error.error;
      throw error;
    }
  }

  /** The first line, from `from` on, that fits; waits for it. */
  async next(fits: (line: Any) => boolean, limitMs = 10_000, from = 0): Promise<Any> {
    let at = from;
    const look = (): Any => {
      for (; at < this.lines.length; at++) if (fits(this.lines[at])) return this.lines[at];
      return undefined;
    };
    return this.until(look, limitMs, String(fits));
  }

  /** Waits until `look` answers something after a line or the close. */
  until<T>(look: () => T | undefined | false, limitMs = 10_000, what = String(look)): Promise<T> {
    return new Promise((resolve, reject) => {
      const check = (): void => {
        const found = look();
        if (found === undefined || found === false) return;
        clearTimeout(timer);
        this.#watchers.delete(check);
        resolve(found);
      };
      const timer = setTimeout(() => {
        this.#watchers.delete(check);
        const tail = this.lines.slice(-5).map((line) => JSON.stringify(line).slice(0, 200));
        reject(new Error(`not within ${limitMs} ms: ${what}\nlast lines:\n${tail.join('\n')}`));
      }, limitMs);
      this.#watchers.add(check);
      check();
    });
  }

  /** Tasks pushed to `worker` (all workers if left out), in order. */
  tasks(worker?: string): Any[] {
    return this.lines
      .filter((line) => line.op === 'tasks' && (worker === undefined || line.worker === worker))
      .flatMap((line) => line.tasks);
  }

  /** Waits until `count` tasks were pushed in all; answers them. */
  tasksUntil(count: number, limitMs = 10_000): Promise<Any[]> {
    return this.until(() => (this.tasks().length >= count ? this.tasks() : undefined), limitMs, `${count} tasks`);
  }

  events(): Any[] {
    return this.lines.filter((line) => line.op === 'event');
  }

  /** The first event of `type` (about `subject`). */
  event(type: string, subject?: string, limitMs = 10_000): Promise<Any> {
    return this.next(
      (line) =>
        line.op === 'event' && line.event.type === type && (subject === undefined || line.event.subject === subject),
      limitMs,
    );
  }

  /** Cuts the link without a close frame, as a crash of the machine would. */
  cut(): void {
    this.socket.terminate();
  }

  async close(): Promise<void> {
    if (this.socket.readyState === WebSocket.CLOSED) return;
    const gone = once(this.socket, 'close');
    this.socket.close(1000);
    await gone;
  }
}
