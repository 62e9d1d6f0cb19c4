import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import type { Answer, Ask } from './side.js';

type Args<F> = F extends (...args: infer A) => unknown ? A : never;
type Answered<F> = F extends (...args: never[]) => infer R ? R : never;

/** A process that does what it is asked by the verbs of its module in sides/ (driver.ts). */
export class Child<Verbs> {
  readonly #name: string;
  readonly #process: ChildProcess;
  readonly #waiting = new Map<number, { resolve: (value: unknown) => void; reject: (error: Error) => void }>();
  #lastId = 0;

  constructor(name: string, execArgv: readonly string[] = []) {
    this.#name = name;
    const driver = fileURLToPath(new URL('./driver.js', import.meta.url));
    this.#process = fork(driver, [name], { execArgv: [...execArgv] });
    this.#process.on('message', (answer: Answer) => this.#settle(answer));
    this.#process.on('exit', (code) => {
      for (const { reject } of this.#waiting.values()) reject(new Error(`the process of ${name} ended with ${code}`));
    });
  }

  get pid(): number {
    return this.#process.pid!;
  }

  ask<Verb extends keyof Verbs & string>(verb: Verb, ...args: Args<Verbs[Verb]>): Answered<Verbs[Verb]> {
    const id = ++this.#lastId;
    const answer = new Promise((resolve, reject) => {
      this.#waiting.set(id, { resolve, reject });
      this.#process.send({ id, verb, args } satisfies Ask);
    });
    return answer as Answered<Verbs[Verb]>;
  }

  /** It ends when nobody is connected to it any more. */
  async stop(): Promise<void> {
    if (this.#process.exitCode !== null || this.#process.signalCode !== null) return;
    const gone = once(this.#process, 'exit');
    this.#process.disconnect();
    await gone;
  }

  #settle({ id, value, error }: Answer): void {
    const waiting = this.#waiting.get(id);
    this.#waiting.delete(id);
    if (error === undefined) waiting?.resolve(value);
    else waiting?.reject(new Error(`${this.#name}: ${error}`));
  }
}
