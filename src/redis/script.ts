import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';

/** A Lua file with named arguments, ready for EVALSHA. */
export interface Script {
  /** `queue/claim`: folder and file, for probes and logs. */
  readonly name: string;
  readonly lua: string;
  readonly sha: string;
  readonly args: readonly string[];
}

const loaded: Script[] = [];
/** Every script of the program, to be loaded when a connection becomes ready. */
export const scripts: readonly Script[] = loaded;

/**
 * Loads `file` beside the module `from`. Named arguments become Lua locals in a generated prelude, so that neither the
 * script nor its caller counts positions; what follows them in ARGV is the script's batch, starting at `batchAt`.
 * `-- @include name` takes in redis/lua/name.lua, each once, in the order of first mention. An optional first line
 * `#!lua flags=…` of the file stays first (Redis reads the script's flags there).
 */
export function lua(from: string, file: string, args: readonly string[] = []): Script {
  const text = readFileSync(new URL(file, from), 'utf8');
  const [, flags = '', body = ''] = /^(#!lua[^\n]*\n)?([\s\S]*)$/.exec(text) ?? [];
  const all = [...commonArgs, ...args];
  const prelude = `local ${all.join(', ')} = unpack(ARGV, 1, ${all.length})\nlocal batchAt = ${all.length + 1}\n`;
  const source = foldPlaces(flags + prelude + include(body, new Set()));
  const name = new URL(file, from).pathname
    .split('/')
    .slice(-2)
    .join('/')
    .replace(/\.lua$/, '');
  const script = { name, lua: source, sha: createHash('sha1').update(source).digest('hex'), args };
  loaded.push(script);
  return script;
}

/**
 * What every script gets first: the calling daemon's id, the highest fence and the last position it has seen
 * (`epoch:offset`), the log's bound in events, and the longest time to live of a session that it knows of, at least the default.
 * redis/namespace.ts fills them in.
 */
export const commonArgs = ['daemon', 'fenceFloor', 'seenPosition', 'eventsMax', 'ttlLongest'] as const;

function include(body: string, seen: Set<string>): string {
  return body.replace(/^-- *@include (\S+)$/gm, (_, name: string) => {
    if (seen.has(name)) return '';
    seen.add(name);
    return include(readFileSync(new URL(`./lua/${name}.lua`, import.meta.url), 'utf8'), seen);
  });
}

/**
 * `local STATE, FENCE = 1, 2` names places of a list, and Lua 5.1 has no constants: such a local is an upvalue of every
 * function that reads it, made anew on each run of the script. So `run[STATE]` becomes `run[1]` here.
 */
function foldPlaces(source: string): string {
  const places = new Map<string, string>();
  const rest = source.replace(
    /^local ([A-Z]+(?:, [A-Z]+)*) = (\d+(?:, \d+)*)$/gm,
    (_, names: string, values: string) => {
      const numbers = values.split(', ');
      names.split(', ').forEach((name, i) => void places.set(name, numbers[i] ?? ''));
      return '';
    },
  );
  return rest.replace(/\[([A-Z]+)\]/g, (place, name: string) => (places.has(name) ? `[${places.get(name)}]` : place));
}
