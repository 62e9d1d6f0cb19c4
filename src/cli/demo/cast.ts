import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';

const agentFile = fileURLToPath(new URL('./agent.js', import.meta.url));
const entry = fileURLToPath(new URL('../../../../bin/signalbox.js', import.meta.url));

/** The processes of the demo. Whatever happens, each of them ends with it. */
export class Cast {
  readonly #children = new Set<ChildProcess>();
  readonly #onExit = (): void => this.#killAll();

  constructor() {
    process.once('exit', this.#onExit);
  }

  #start(args: readonly string[], env: NodeJS.ProcessEnv): ChildProcess {
    // Out of the terminal's process group: Ctrl-C reaches the demo, and the demo ends them in order.
    const child = spawn(process.execPath, args, {
      env: { ...process.env, ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
      detached: true,
    });
    this.#children.add(child);
    child.once('exit', () => this.#children.delete(child));
    return child;
  }

  /** A daemon of our own that keeps nothing. Answers its URL and its state directory. */
  async daemon(settings: NodeJS.ProcessEnv, stateDir: string): Promise<{ url: string; child: ChildProcess }> {
    const child = this.#start([entry, 'up', '--ephemeral', '--port', '0', '--state-dir', stateDir], settings);
    let text = '';
    const url = await new Promise<string>((resolve, reject) => {
      const look = (data: Buffer): void => {
        text += data;
        const found = /ws:\/\/[^\s"']+\/v1\/ws/.exec(text);
        if (found) resolve(found[0]);
      };
      child.stdout?.on('data', look);
      child.stderr?.on('data', look);
      child.once('exit', (code) => reject(new Error(`the daemon of the demo ended with ${code}:\n${text}`)));
    });
    return { url, child };
  }

  agent(env: NodeJS.ProcessEnv): ChildProcess {
    const child = this.#start([agentFile], env);
    child.stdout?.resume();
    child.stderr?.resume();
    return child;
  }

  /** A service that knows only Redis: one PUBLISH by Redis' own client. */
  async publish(channel: string, data: object, redis: readonly string[]): Promise<void> {
    const child = this.#start([entry, 'redis-cli', ...redis, '--', 'PUBLISH', channel, JSON.stringify(data)], {});
    child.stdout?.resume();
    let text = '';
    child.stderr?.on('data', (chunk) => {
      text += chunk;
    });
    const [code] = await once(child, 'exit');
    if (code !== 0) throw new Error(`redis-cli ended with ${code}: ${text}`);
  }

  /** Ends one in order, or by force after `limitMs`. */
  async end(child: ChildProcess, limitMs = 5000): Promise<void> {
    if (child.exitCode !== null || child.signalCode !== null) return;
    const exit = once(child, 'exit');
    const timer = setTimeout(() => child.kill('SIGKILL'), limitMs);
    child.kill('SIGCONT');
    child.kill('SIGTERM');
    await exit;
    clearTimeout(timer);
  }

  async endAll(): Promise<void> {
    await Promise.all([...this.#children].map((child) => this.end(child)));
    process.off('exit', this.#onExit);
  }

  #killAll(): void {
    for (const child of this.#children) child.kill('SIGKILL');
  }
}
