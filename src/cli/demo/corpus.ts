import { readdirSync, readFileSync, statSync } from 'node:fs';
import { basename, join } from 'node:path';

/** Enough to be worth reading, small enough that one document is no run of its own. */
const sizes = { leastBytes: 200, mostBytes: 200_000 };
const text =
  /^(readme|license|licence|changelog|history|notice|authors|copyright|contributing|security)[^/]*$|\.(md|markdown|txt)$/i;
/** Directories looked at: bounded, because a tree of links has no end. */
const foldersMax = 20_000;

/** Paths of up to `count` text files below `roots`, real documents that happen to be on this machine. */
export function findDocuments(roots: readonly string[], count: number): string[] {
  const found: string[] = [];
  const folders = [...roots];
  for (let looked = 0; folders.length > 0 && found.length < count && looked < foldersMax; looked++) {
    const folder = folders.shift()!;
    for (const entry of list(folder)) {
      const path = join(folder, entry.name);
      if (entry.isDirectory()) folders.push(path);
      else if (entry.isFile() && text.test(entry.name) && fits(path)) found.push(path);
      if (found.length === count) break;
    }
  }
  return found;
}

function list(folder: string) {
  try {
    return readdirSync(folder, { withFileTypes: true });
  } catch {
    return []; // Not ours to read.
  }
}

function fits(path: string): boolean {
  const { size } = statSync(path);
  return size >= sizes.leastBytes && size <= sizes.mostBytes;
}

/** What an agent finds in a document. */
export interface Reading {
  readonly name: string;
  readonly words: number;
  readonly terms: readonly string[];
}

/** Reads a document: how many words, and the five most frequent of at least six letters. */
export function read(path: string): Reading {
  const words =
    readFileSync(path, 'utf8')
      .toLowerCase()
      .match(/\p{L}+/gu) ?? [];
  const counts = new Map<string, number>();
  for (const word of words) if (word.length >= 6) counts.set(word, (counts.get(word) ?? 0) + 1);
  const terms = [...counts].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1)).slice(0, 5);
  return { name: basename(path), words: words.length, terms: terms.map(([term]) => term) };
}
