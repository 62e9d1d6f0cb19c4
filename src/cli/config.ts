import type { Command } from 'commander';
import { describeConfig } from '../config.js';
import type { ConnectionFlags } from './connection.js';
import type { Outcome } from './exit.js';
import { print, printJson } from './output.js';
import { configured, type SettingFlags, settingsFrom } from './settings.js';

type Flags = SettingFlags & Pick<ConnectionFlags, 'json'>;

export function configCommand(program: Command, _outcome: Outcome): void {
  const config = program.command('config').description('check, print and explain the settings');
  const add = (name: string, about: string, run: (flags: Flags) => Promise<void>): void => {
    configured(config.command(name)).description(about).option('--json', 'print JSON').action(run);
  };
  add('check', 'say whether `up` would take the settings it is given here', async (flags) => {
    settingsFrom(flags);
    await (flags.json ? printJson({ ok: true }) : print('the configuration is fine'));
  });
  add('print', 'the settings in force, as a config file; secrets are left out', async (flags) => {
    const settings = withoutSecrets(settingsFrom(flags));
    await print(JSON.stringify(settings, null, flags.json ? 0 : 2));
  });
  add('docs', 'every setting with its default, unit and meaning', async (flags) => {
    if (flags.json) return printJson({ settings: describeConfig() });
    const { configPage } = await import('./documents.js');
    await print(configPage());
  });
  add('env', 'every setting as a variable of the environment', async (flags) => {
    const rows = describeConfig();
    if (flags.json) return printJson(Object.fromEntries(rows.map(({ env, default: preset }) => [env, preset ?? null])));
    for (const { env, default: preset, sentence, unit } of rows) {
      await print(`# ${sentence} (${unit})\n# ${env}=${shownDefault(preset)}`);
    }
  });
}

function shownDefault(preset: unknown): string {
  if (Array.isArray(preset)) return preset.join(',');
  return typeof preset === 'object' && preset !== null ? JSON.stringify(preset) : String(preset ?? '');
}

/** A copy; what the schema calls secret (a token, a URL with a password) is left out wherever it was set. */
function withoutSecrets(settings: object): object {
  const secrets = new Set(describeConfig().flatMap(({ path, secret }) => (secret ? [path] : [])));
  const copy = (value: unknown, path: string): unknown => {
    if (typeof value !== 'object' || value === null || Array.isArray(value)) return value;
    const entries = Object.entries(value).map(
      ([key, child]) => [key, path === '' ? key : `${path}.${key}`, child] as const,
    );
    return Object.fromEntries(
      entries.filter(([, full]) => !secrets.has(full)).map(([key, full, child]) => [key, copy(child, full)]),
    );
  };
  return copy(settings, '') as object;
}
