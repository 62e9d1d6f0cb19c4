import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import type { Held } from './held.js';
import type { AgentPlan } from './plan.js';
import type { Want } from './words.js';

const program = fileURLToPath(new URL('./agent.js', import.meta.url));

interface Line {
  readonly what: 'ready' | 'ask' | 'begin' | 'sure' | 'end' | 'bye';
  readonly number: string;
  readonly at: number;
  readonly grant: string;
  readonly fence: number;
  readonly locks: readonly Want[];
  readonly how: string;
}

/** One agent's process, and what it printed. */
export class AgentProcess {
  readonly plan: AgentPlan;
  readonly helds: Held[] = [];
  /** How its rounds ended, counted. */
  readonly ends = new Map<string, number>();
  said = '';
  readonly #child: ChildProcess;
  readonly #exit: Promise<unknown>;
  readonly #asked = new Map<string, readonly Want[]>();
  readonly #open = new Map<string, Held>();
  #bye = false;

  constructor(plan: AgentPlan, url: string) {
    this.plan = plan;
    const { name, ttlMs, rounds } = plan;
    this.#child = spawn(process.execPath, [program, url, name, String(ttlMs), JSON.stringify(rounds)], {
      stdio: ['pipe', 'pipe', 'pipe'],
    });
    this.#exit = once(this.#child, 'exit');
    this.#child.stdin!.on('error', () => undefined);
    this.#child.stderr!.on('data', (data: Buffer) => {
      this.said = `${this.said}${data}`.slice(-4000);
    });
    createInterface({ input: this.#child.stdout! }).on('line', (text) => this.#hear(text));
  }

  #hear(text: string): void {
    let line: Line;
    try {
      line = JSON.parse(text);
    } catch {
      // Cut by a kill in the middle of it.
      return;
    }
    const { what, number, at, grant, fence, locks, how } = line;
    if (what === 'ask') this.#asked.set(String(number), locks);
    else if (what === 'begin') {
      const held = {
        agent: this.plan.name,
        number,
        grant,
        fence,
        locks: this.#asked.get(String(number)) ?? [],
        from: at,
        to: at,
      };
      this.#open.set(String(number), held);
      this.helds.push(held);
    } else if (what === 'sure') this.#open.get(String(number))!.to = at;
    else if (what === 'end') this.ends.set(how, (this.ends.get(how) ?? 0) + 1);
    else if (what === 'bye') this.#bye = true;
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
    return this.#bye;
  }
}
