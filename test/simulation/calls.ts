// biome-ignore lint/suspicious/noExplicitAny: a test looks at any shape
export type Any = any;

/** One request as its caller saw it. Neither `ok` nor `error`: nobody knows whether it was carried out. */
export interface Call {
  readonly agent: string;
  readonly session: string;
  readonly op: string;
  readonly params: Any;
  /** Local clock, the same machine's as Redis'. */
  readonly sentAt: number;
  doneAt: number;
  ok?: Any;
  error?: Any;
}

/** Errors after which the request may have been carried out all the same. */
const doubtful = new Set(['TIMEOUT', 'UNAVAILABLE', 'INTERNAL']);

export const isUnknown = (call: Call): boolean =>
  call.ok === undefined && (call.error === undefined || doubtful.has(call.error.code));

/** The error of one item of a batch verb, or undefined. */
export const itemErrorOf = (item: Any): Any => (item && typeof item === 'object' ? item.error : undefined);

/** A task as an agent got it, by push or in the reply of a claim. */
export interface Delivery {
  readonly agent: string;
  readonly session: string;
  readonly worker: string;
  readonly task: Any;
  readonly at: number;
}

/** A promise to a session that the client can reckon with: an answered open or ping. */
export interface Proof {
  readonly session: string;
  readonly sentAt: number;
  readonly ttlMs: number;
}

/** What a service said by PUBLISH. */
export interface Said {
  readonly type: string;
  readonly data: Any;
  readonly id: string | undefined;
  readonly source: string | undefined;
  readonly at: number;
}

/** Everything that was asked and answered in a history, in the order in which it was asked. */
export class Ledger {
  readonly calls: Call[] = [];
  readonly deliveries: Delivery[] = [];
  readonly proofs: Proof[] = [];
  readonly said: Said[] = [];
  readonly problems: string[] = [];
  /** Agents that closed a socket in order, or asked to close their session; when first. */
  readonly closings = new Map<string, number>();
  readonly #byTask = new Map<string, Call[]>();

  add(call: Call): void {
    this.calls.push(call);
    for (const task of tasksOf(call)) {
      const list = this.#byTask.get(task);
      if (list) list.push(call);
      else this.#byTask.set(task, [call]);
    }
  }

  /** Calls that named the task. */
  about(task: string): readonly Call[] {
    return this.#byTask.get(task) ?? [];
  }
}

function tasksOf({ op, params }: Call): string[] {
  const names = new Set<string>();
  if (typeof params?.task === 'string') names.add(params.task);
  for (const item of params?.tasks ?? []) {
    if (typeof item === 'string') names.add(item);
    else if (typeof item.task === 'string') names.add(item.task);
  }
  for (const group of params?.enqueue ?? []) for (const item of group.tasks) names.add(item.task);
  if (op === 'lease.revoke' && params.lease.startsWith('task:')) names.add(params.lease.slice(5));
  return [...names];
}
