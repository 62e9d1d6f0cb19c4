import { spawn } from 'node:child_process';
import { EventEmitter } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import type { WebSocket } from 'ws';
import { Wire } from './wire.js';

/**
 * What runs in the child: lines of standard input go to the socket, what comes is printed. ws answers the pings. It ends
 * when all is printed.
 */
const program = `
import { createInterface } from 'node:readline';
import { WebSocket } from 'ws';
const socket = new WebSocket(process.argv[1], 'signalbox.v1');
const say = (what, done) => process.stdout.write(JSON.stringify(what) + '\\n', done);
socket.on('open', () => createInterface({ input: process.stdin }).on('line', (line) => socket.send(JSON.parse(line))));
socket.on('message', (data) => say(['message', String(data)]));
socket.on('close', (code, reason) => say(['close', code, String(reason)], () => process.exit(0)));
socket.on('error', () => {});
`;

export interface Remote {
  readonly wire: Wire;
  readonly pid: number;
  /** SIGSTOP: the process stands still, its kernel goes on taking bytes. */
  freeze(): void;
  thaw(): void;
  kill(): void;
}

/** None outlives this process: one listener for all, however many there are. */
const running = new Set<() => void>();
process.once('exit', () => {
  for (const kill of running) kill();
});

/** A peer of the protocol in a process of its own, so that it can be frozen and killed like an agent. */
export async function startRemote(url: string): Promise<Remote> {
  const root = fileURLToPath(new URL('../..', import.meta.url));
  const child = spawn(process.execPath, ['--input-type=module', '-e', program, url], {
    cwd: root,
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  const kill = (): void => {
    child.kill('SIGCONT');
    child.kill('SIGKILL');
  };
  running.add(kill);
  child.once('exit', () => running.delete(kill));
  child.stdin.on('error', () => undefined);
  const socket = Object.assign(new EventEmitter(), {
    send: (text: string) => void child.stdin.write(`${JSON.stringify(text)}\n`),
    terminate: kill,
  });
  createInterface({ input: child.stdout }).on('line', (line) => {
    const [event, ...values] = JSON.parse(line) as [string, ...unknown[]];
    socket.emit(event, ...values);
  });
  const wire = new Wire(socket as unknown as WebSocket);
  wire.hello = await wire.next((line) => line.op === 'hello', 25_000);
  return {
    wire,
    pid: child.pid ?? 0,
    freeze: () => void child.kill('SIGSTOP'),
    thaw: () => void child.kill('SIGCONT'),
    kill,
  };
}
