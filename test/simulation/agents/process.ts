import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';

/** What one agent of a cast does: its rounds, one after the other and from the beginning again. */
export interface AgentPlan<Round = unknown> {
  readonly name: string;
  readonly ttlMs: number;
  readonly rounds: readonly Round[];
}

/** What every line of an agent says first. */
export interface Said {
  readonly what: string;
}

/** One agent's process, and what it printed, line by line. */
export class AgentProcess<Line extends Said> {
  readonly plan: AgentPlan;
  readonly lines: Line[] = [];
  /** Its complaints: there should be none. */
  said = '';
  readonly #child: ChildProcess;
  readonly #exit: Promise<unknown>;

  constructor(program: string, plan: AgentPlan, url: string) {
    this.plan = plan;
    const { name, ttlMs, rounds } = plan;
    this.#child = spawn(process.execPath, [program, url, name, String(ttlMs), JSON.stringify(rounds)], {
      stdio: ['pipe', 'pipe', 'pipe'],
    });
    // Not 'exit': its last lines may come after that.
    this.#exit = once(this.#child, 'close');
    this.#child.stdin!.on('error', () => undefined);
    this.#child.stderr!.on('data', (data: Buffer) => {
      this.said = `${this.said}${data}`.slice(-4000);
    });
    createInterface({ input: this.#child.stdout! }).on('line', (text) => this.#hear(text));
  }

  #hear(text: string): void {
    try {
      this.lines.push(JSON.parse(text));
    } catch {
      // Cut by a kill in the middle of it.
    }
  }

  get alive(): boolean {
    return this.#child.exitCode === null && this.#child.signalCode === null;
  }

  freeze(): void {
    this.#child.kill('SIGSTOP');
  }

  thaw(): void {
    this.#child.kill('SIGCONT');
  }

  async kill(): Promise<void> {
    this.thaw();
    this.#child.kill('SIGKILL');
    await this.#exit;
  }

  /** Asks it to finish its round and close; answers whether it did in time. */
  async finish(limitMs: number): Promise<boolean> {
    this.thaw();
    this.#child.stdin!.write('stop\n');
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, limitMs);
    });
    await Promise.race([this.#exit, late]);
    clearTimeout(timer);
    return this.lines.at(-1)?.what === 'bye';
  }
}
