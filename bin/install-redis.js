import { accessSync, constants, existsSync, readdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { isatty } from 'node:tty';
import { fileURLToPath } from 'node:url';
import { run } from './run.js';

/**
 * Signalbox runs its own Redis and needs only the program. Debian's package also brings a system service, which would
 * take a port and memory for nothing: it is kept from starting while the package is set up, and disabled afterwards.
 */
export async function ensureRedis({ wantsInstall }) {
  const decision = decide({
    present: ['redis-server', 'valkey-server'].some((name) => isProgram(name)) || Boolean(process.env.REDIS_URL),
    isRoot: process.getuid?.() === 0,
    hasTerminal: [0, 1, 2].some((fd) => isatty(fd)),
    hasApt: isProgram('apt-get'),
    hasSudo: isProgram('sudo'),
    wantsInstall,
    script: process.env.npm_lifecycle_event ?? 'start',
  });
  if (decision === 'install') await installRedis();
  else if (decision === 'sudo') await run('sudo', [process.execPath, fileURLToPath(import.meta.url)]);
  else if (decision !== 'present') throw new Error(decision);
}

/** Pure: what to do about a missing Redis, or the one line that says what to type. */
export function decide({ present, isRoot, hasTerminal, hasApt, hasSudo, wantsInstall, script }) {
  if (present) return 'present';
  const missing = 'Redis 7.0 (or Valkey 7.2) or newer is missing; type:';
  if (!hasApt)
    return `${missing} ${process.platform === 'darwin' ? 'brew install redis' : 'your package manager’s install of redis, or set REDIS_URL'}`;
  if (isRoot && (wantsInstall || !hasTerminal)) return 'install';
  if (wantsInstall && hasSudo) return 'sudo';
  if (wantsInstall) return `${missing} apt-get install -y redis-server (as root)`;
  return `${missing} npm ${['start', 'test'].includes(script) ? script : `run ${script}`} -- --install`;
}

export async function installRedis() {
  console.error(
    'Installing redis-server from Debian’s packages (apt-get); its service is neither started nor enabled …',
  );
  const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' };
  await run('apt-get', ['update', '-q'], { env });
  const allowStarts = denyStarts();
  try {
    await run('apt-get', ['install', '-q', '-y', '--no-install-recommends', 'redis-server'], { env });
  } finally {
    allowStarts();
    await disableService();
  }
  if (isServiceEnabled()) throw new Error('the service redis-server is enabled; type: systemctl disable redis-server');
}

/**
 * invoke-rc.d and systemd's helper for maintainer scripts both ask policy-rc.d. Ours denies Redis alone and passes
 * everything else on to the one that was there, so that it does no harm should we die before taking it back.
 */
function denyStarts() {
  const policy = '/usr/sbin/policy-rc.d';
  const saved = `${policy}.before-signalbox`;
  if (existsSync(policy) && !existsSync(saved)) renameSync(policy, saved);
  const script = `#!/bin/sh\ncase "$*" in *redis*) exit 101;; esac\n[ ! -x ${saved} ] || exec ${saved} "$@"\nexit 0\n`;
  writeFileSync(policy, script, { mode: 0o755 });
  return () => {
    if (existsSync(saved)) renameSync(saved, policy);
    else rmSync(policy, { force: true });
  };
}

/** By Debian's own helpers, which work without a running systemd too. Missing ones have enabled nothing. */
async function disableService() {
  // The helper works for maintainer scripts only, and knows them by this variable.
  const env = { ...process.env, DPKG_MAINTSCRIPT_PACKAGE: 'redis-server' };
  const ignore = () => {}; // what it comes to is checked by isServiceEnabled
  await run('deb-systemd-helper', ['disable', 'redis-server.service'], { env }).catch(ignore);
  if (existsSync('/etc/init.d/redis-server')) await run('update-rc.d', ['redis-server', 'disable']).catch(ignore);
}

function isServiceEnabled() {
  const units = '/etc/systemd/system';
  if (!existsSync(units)) return false;
  return readdirSync(units)
    .filter((name) => name.endsWith('.wants'))
    .some((name) => readdirSync(join(units, name)).includes('redis-server.service'));
}

function isProgram(name) {
  const folders = [
    ...(process.env.PATH ?? '').split(delimiter),
    '/usr/local/bin',
    '/usr/bin',
    '/usr/sbin',
    '/opt/homebrew/bin',
  ];
  return folders.some((folder) => {
    try {
      accessSync(join(folder, name), constants.X_OK);
      return folder !== '';
    } catch {
      return false;
    }
  });
}

// As root, by `sudo` from above.
if (process.argv[1] === fileURLToPath(import.meta.url)) await installRedis();
