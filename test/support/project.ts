import { cpSync, mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const repository = fileURLToPath(new URL('../..', import.meta.url));

/**
 * A small project of its own with our bin/, so that setting up and building can be tested without touching the real
 * dist/. Its path holds a blank and a quote on purpose.
 */
export function makeProject(sources: Record<string, string>): {
  dir: string;
  write(path: string, text: string): void;
  remove(): void;
} {
  const parent = realpathSync(mkdtempSync(join(tmpdir(), 'sb-project-')));
  const dir = join(parent, "it's a clone");
  const write = (path: string, text: string) => {
    mkdirSync(dirname(join(dir, path)), { recursive: true });
    writeFileSync(join(dir, path), text);
  };
  for (const name of [
    'bin',
    'package.json',
    'package-lock.json',
    'tsconfig.json',
    'tsconfig.build.json',
    'node_modules/.package-lock.json',
  ])
    cpSync(join(repository, name), join(dir, name), { recursive: true, preserveTimestamps: true });
  for (const name of ['typescript', '@types', 'undici-types'])
    symlinkSync(join(repository, 'node_modules', name), join(dir, 'node_modules', name));
  mkdirSync(join(dir, 'streams'));
  for (const [path, text] of Object.entries(sources)) write(path, text);
  return { dir, write, remove: () => rmSync(parent, { recursive: true, force: true }) };
}
