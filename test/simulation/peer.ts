import { type ChildProcess, spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { WebSocket } from 'ws';

/** A socket to a daemon: in this process, or owned by a child process that can be frozen and killed. */
export interface Transport {
  send(text: string): void;
  /** Cuts the link without a close frame. */
  cut(): void;
  /** Closes it in order. */
  close(): void;
}

export interface TransportEvents {
  open(): void;
  line(text: string): void;
  closed(code: number, reason: string): void;
}

/** A socket of this process. */
export function direct(url: string, on: TransportEvents): Transport {
  const socket = new WebSocket(url, 'signalbox.v1', { handshakeTimeout: 3000 });
  socket.on('open', () => on.open());
  socket.on('message', (data) => {
    for (const line of String(data).split('\n')) on.line(line);
  });
  socket.on('close', (code, reason) => on.closed(code, String(reason)));
  socket.on('error', () => undefined);
  return {
    send: (text) => {
      if (socket.readyState === WebSocket.OPEN) socket.send(text);
    },
    cut: () => socket.terminate(),
    close: () => socket.close(1000),
  };
}

const program = fileURLToPath(new URL('./relay.js', import.meta.url));

/** A process that owns one socket and passes lines on: what an agent is to the outside. */
export class Relay {
  readonly child: ChildProcess;
  #on: TransportEvents | undefined;
  #number = 0;
  frozen = false;

  constructor() {
    this.child = spawn(process.execPath, [program], { stdio: ['pipe', 'pipe', 'inherit'] });
    this.child.stdin?.on('error', () => undefined);
    createInterface({ input: this.child.stdout! }).on('line', (text) => this.#hear(text));
    this.child.on('exit', () => this.#end(1006, 'the process ended'));
  }

  get pid(): number {
    return this.child.pid ?? 0;
  }

  get alive(): boolean {
    return this.child.exitCode === null && this.child.signalCode === null;
  }

  connect(url: string, on: TransportEvents): Transport {
    this.#number++;
    this.#on = on;
    const tell = (word: string, rest = ''): void => {
      if (this.alive) this.child.stdin?.write(`${word} ${rest}\n`);
    };
    tell('connect', `${this.#number} ${url}`);
    return { send: (text) => tell('send', text), cut: () => tell('cut'), close: () => tell('close') };
  }

  freeze(): void {
    if (this.alive) process.kill(this.pid, 'SIGSTOP');
    this.frozen = true;
  }

  thaw(): void {
    if (this.alive) process.kill(this.pid, 'SIGCONT');
    this.frozen = false;
  }

  kill(): void {
    if (this.alive) this.child.kill('SIGKILL');
    this.#end(1006, 'killed');
  }

  #end(code: number, reason: string): void {
    const on = this.#on;
    this.#on = undefined;
    on?.closed(code, reason);
  }

  #hear(text: string): void {
    const [, number, word, rest = ''] = /^(\d+) (\w+) ?(.*)$/.exec(text) ?? [];
    if (Number(number) !== this.#number || !this.#on) return;
    if (word === 'open') this.#on.open();
    else if (word === 'line') this.#on.line(rest);
    else if (word === 'closed') this.#end(Number(rest.split(' ')[0]), rest.slice(rest.indexOf(' ') + 1));
  }
}
