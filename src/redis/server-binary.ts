import { execFile } from 'node:child_process';
import { accessSync, constants } from 'node:fs';
import { delimiter, isAbsolute, join } from 'node:path';
import { promisify } from 'node:util';

/** What Signalbox needs of a server; nothing newer than Redis 7.0 is used. */
const oldest = { Redis: [7, 0], Valkey: [7, 2] } as const;

// The sbin and local folders are often missing from the PATH of a service.
const usualDirs = ['/usr/local/bin', '/usr/bin', '/usr/local/sbin', '/usr/sbin', '/opt/homebrew/bin'];

export interface ServerBinary {
  readonly file: string;
  readonly product: keyof typeof oldest;
  readonly version: string;
}

/** The first server of a version we can use: the configured one only, or redis-server before valkey-server in PATH. */
export async function findServerBinary(
  configured?: string,
  env = process.env,
  extraDirs: readonly string[] = usualDirs,
): Promise<ServerBinary> {
  const names = configured === undefined ? ['redis-server', 'valkey-server'] : [configured];
  const files = names.flatMap((name) => locate(name, [...(env.PATH ?? '').split(delimiter), ...extraDirs]) ?? []);
  let refused: Error | undefined;
  for (const file of files) {
    try {
      return await inspect(file);
    } catch (error) {
      refused ??= error as Error;
    }
  }
  if (refused) throw refused;
  if (configured !== undefined) throw new Error(`redis.managed.binary names ${configured}, which is no program here`);
  throw new Error(`no redis-server or valkey-server found; type: ${installLine()}`);
}

/** Throws unless a server of this product and version can carry Signalbox. */
export function checkVersion(product: keyof typeof oldest, version: string): void {
  const [major = 0, minor = 0] = version.split('.').map(Number);
  const [needMajor, needMinor] = oldest[product];
  if (major > needMajor || (major === needMajor && minor >= needMinor)) return;
  throw new Error(`${product} ${version} is too old: Redis 7.0 or newer, or Valkey 7.2 or newer, is needed`);
}

async function inspect(file: string): Promise<ServerBinary> {
  // `Redis server v=7.0.15 sha=…`; a Valkey may be installed under the name redis-server, so its word counts.
  const { stdout } = await promisify(execFile)(file, ['--version'], { timeout: 10_000 });
  const match = /^(Redis|Valkey) server v=(\d+\.\d+\.\d+)/.exec(stdout);
  if (!match) throw new Error(`${file} does not say that it is a Redis or a Valkey server`);
  const [, product, version] = match as unknown as [string, keyof typeof oldest, string];
  checkVersion(product, version);
  return { file, product, version };
}

function locate(name: string, dirs: readonly string[]): string | undefined {
  const candidates = isAbsolute(name) ? [name] : dirs.filter((dir) => dir !== '').map((dir) => join(dir, name));
  return candidates.find((file) => {
    try {
      accessSync(file, constants.X_OK);
      return true;
    } catch {
      return false;
    }
  });
}

function installLine(): string {
  if (process.platform === 'darwin') return 'brew install redis';
  return process.getuid?.() === 0 ? 'apt-get install -y redis-server' : 'sudo apt-get install -y redis-server';
}
