import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { Command } from 'commander';
import { exit, type Outcome } from './exit.js';
import { print, printJson } from './output.js';
import { packageRoot } from './package.js';

interface Flags {
  readonly check?: true;
  readonly json?: boolean;
}

export function generateCommand(program: Command, outcome: Outcome): void {
  program
    .command('generate')
    .description('write the files that are derived from the code: config/schema.json, docs/*.md, docs/asyncapi.json')
    .option('--check', 'write nothing; fail if one of them is out of date')
    .option('--json', 'print the names of those that changed as JSON')
    .action(async (flags: Flags) => {
      const { documents } = await import('./documents.js');
      outcome.code = await generate(documents(), flags);
    });
}

async function generate(documents: Readonly<Record<string, string>>, { check, json }: Flags): Promise<number> {
  const root = packageRoot();
  const changed = Object.entries(documents).filter(([path, text]) => contentOf(join(root, path)) !== text);
  for (const [path, text] of check ? [] : changed) {
    mkdirSync(dirname(join(root, path)), { recursive: true });
    writeFileSync(join(root, path), text);
  }
  const names = changed.map(([path]) => path);
  if (json) await printJson({ changed: names });
  else if (names.length === 0) await print('everything is up to date');
  else for (const name of names) await print(`${name} ${check ? 'is out of date' : 'written'}`);
  return check && names.length > 0 ? exit.failure : exit.ok;
}

function contentOf(file: string): string | undefined {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return undefined;
  }
}
