import { statSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

/** The root of the project as a path, not a URL: it may hold blanks. */
export const root = fileURLToPath(new URL('..', import.meta.url));

export function modifiedAt(path) {
  return statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? 0;
}
