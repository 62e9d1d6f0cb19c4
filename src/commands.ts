import * as feed from './feed/index.js';
import * as lease from './lease/index.js';
import { ping } from './lease/ping.js';
import { close } from './lease/session-close.js';
import { open } from './lease/session-open.js';
import * as limit from './limit/index.js';
import * as lock from './lock/index.js';
import * as once from './once/index.js';
import type { AnyCommand } from './protocol/command.js';
import * as queue from './queue/index.js';

/** Everything a client can ask for, by domain and verb. Adding a command is one line in its domain's index. */
export const commands = { session: { open, close }, lease, queue, lock, limit, once, feed };
export type Commands = typeof commands;

/** Ops without a domain. */
export const plain = { ping };

/** By the name on the wire. */
export const commandTable: ReadonlyMap<string, AnyCommand> = new Map(
  [...Object.values(commands).flatMap((domain) => Object.values(domain) as AnyCommand[]), ping].map((command) => [
    command.name,
    command,
  ]),
);
