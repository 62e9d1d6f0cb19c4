import { accessSync, constants, statSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { wrongUsage } from './exit.js';

/**
 * Refuses a command that nothing here could run, before anything is claimed or held for it: found out later, it would cost
 * every task of a queue its attempts.
 */
export function mustBeThere(command: string): void {
  if (command.includes('/')) {
    if (!isProgram(command)) throw wrongUsage(`cannot run ${command}: it is no program, or not there`);
    return;
  }
  const folders = (process.env.PATH ?? '').split(delimiter);
  if (folders.some((folder) => isProgram(join(folder || '.', command)))) return;
  throw wrongUsage(`cannot run ${command}: no program of this name is in $PATH`);
}

function isProgram(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return statSync(path).isFile();
  } catch {
    return false;
  }
}
