import { setTimeout as wait } from 'node:timers/promises';
import { App } from '../app.js';
import type { Config } from '../config.js';
import { Ops } from '../ops/index.js';
import { createLog } from '../ops/log.js';
import { banner, placeOf, withoutPassword } from './banner.js';
import { CliError, exit } from './exit.js';
import { print, printJson } from './output.js';
import { packageVersion } from './package.js';
import { type SettingFlags, settingsFrom } from './settings.js';
import { onStopSignals } from './signals.js';

export interface UpFlags extends SettingFlags {
  readonly json?: boolean;
}

/** The daemon as a process: from the settings to the exit code. Answers when it has stopped. */
export async function up(flags: UpFlags): Promise<number> {
  const config = settingsFrom(flags);
  const log = createLog(config.ops.logLevel, `${process.pid}`);
  const ops = new Ops(log, packageVersion());
  const app = new App({ config, log, http: ops.http });
  const stopped = new Promise<NodeJS.Signals>((resolve) =>
    onStopSignals(resolve, () => {
      log.error({}, 'stopped at once; what was running is found again by the next start');
      process.exit(exit.failure);
    }),
  );
  // Whoever reads the banner may go before the daemon does.
  process.stdout.on('error', () => undefined);
  await ops.start();
  const started = app.start();
  // A signal while it starts stops what is there so far; what the start says of that is of no interest any more.
  const early = await Promise.race([started, stopped]).catch((error) => failed(app, config, error));
  started.catch(() => undefined);
  if (early === undefined) {
    log.info({ id: app.daemon, version: packageVersion(), ...app.gateway.address() }, 'up');
    await announce(app, config, flags);
  }
  log.info({ signal: await stopped }, 'stopping');
  await app.stop();
  await ops.stop();
  log.info({}, 'stopped');
  return exit.ok;
}

async function announce(app: App, config: Config, { json }: UpFlags): Promise<void> {
  const place = placeOf(app.gateway.address());
  const socket = app.store.managed?.path;
  if (!json) return print(banner(config, place, socket));
  const { ws, http } = place;
  const redis =
    socket === undefined ? { url: withoutPassword(config.redis.url ?? '') } : { socket, stateDir: config.stateDir };
  await printJson({ ws, http, ...redis, pid: process.pid });
}

/** Ends what the failed start has started, and says what is in the way in the words of whoever started it. */
async function failed(app: App, { gateway: { host, port } }: Config, error: unknown): Promise<never> {
  await Promise.race([app.stop().catch(() => undefined), wait(15_000, undefined, { ref: false })]);
  const { code, message } = error as NodeJS.ErrnoException;
  if (code === 'EADDRINUSE') {
    throw new CliError(`port ${port} of ${host} is in use`, {
      advice: 'stop what listens there (another Signalbox?), or choose a port by --port; 0 takes a free one',
    });
  }
  if (code === 'EACCES' || code === 'EADDRNOTAVAIL') {
    throw new CliError(`cannot listen on ${host}, port ${port}: ${message}`, {
      advice: 'choose others by --host and --port',
    });
  }
  throw new CliError(`the daemon could not start: ${message}`);
}
