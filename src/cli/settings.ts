import type { Command } from 'commander';
import { type Config, loadConfig } from '../config.js';
import { collect, pairs } from './input.js';

export interface SettingFlags {
  readonly config?: string;
  readonly port?: string;
  readonly host?: string;
  readonly stateDir?: string;
  readonly ephemeral?: true;
  readonly redisUrl?: string;
  readonly set?: readonly string[];
}

/** The options that change settings, for `up` and for whoever has to come to the same settings as it. */
export function configured(command: Command): Command {
  return command
    .option('--config <file>', 'JSON file of settings ($SIGNALBOX_CONFIG)')
    .option('--state-dir <dir>', 'directory of the managed Redis ($SIGNALBOX_STATE_DIR)')
    .option('--redis-url <url>', 'use this Redis instead of a managed one ($REDIS_URL)')
    .option('--set <path=value>', 'any setting by its path; may be repeated', collect);
}

/** What `work` and `run` tell their commands is named like our settings, and is none. */
const ofChildren = /^SIGNALBOX_(TASK_|LOCK_(NAMES|FENCE)$)/;

export function settingsFrom(flags: SettingFlags, env: NodeJS.ProcessEnv = process.env): Config {
  const { config: file, port, host, stateDir, ephemeral, redisUrl, set } = flags;
  return loadConfig({
    file,
    env: Object.fromEntries(Object.entries(env).filter(([name]) => !ofChildren.test(name))),
    flags: { port, host, stateDir, ephemeral, redisUrl, ...pairs(set, '--set') },
  });
}
