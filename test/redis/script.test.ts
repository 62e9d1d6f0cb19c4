import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Client, openRedis, ScriptRunner } from '../../src/redis/connection.js';
import { commonArgs, lua, scripts } from '../../src/redis/script.js';
import '../../src/commands.js';
import '../../src/sweeps/index.js';
import { startRedis, type TestRedis } from '../support/redis.js';
import { until } from '../support/until.js';

let redis: TestRedis;
let client: Client;
beforeAll(async () => {
  redis = await startRedis();
  client = openRedis({ kind: 'socket', path: redis.path }, 'commands', 2000);
  client.on('error', () => undefined);
  await client.connect();
});
afterAll(async () => {
  client.disconnect();
  await redis.stop();
});

describe('a script file', () => {
  const turn = lua(import.meta.url, './turn.lua', ['mode', 'count']);

  test('gets its arguments as locals, its includes once, and keeps its flags first', () => {
    const common = `local ${[...commonArgs, 'mode', 'count'].join(', ')} = unpack(ARGV, 1, 7)`;
    expect(turn.lua).toContain(common);
    expect(turn.lua).toContain('local batchAt = 8\n');
    expect(turn.lua).not.toContain('@include');
    expect(turn.lua.match(/local function refuse/g)).toHaveLength(1);
    expect(turn.name).toBe('redis/turn');
    const flagged = scripts.filter(({ lua: text }) => text.startsWith('#!lua flags='));
    expect(flagged.length).toBeGreaterThan(5);
    for (const { lua: text } of flagged) expect(text.split('\n')[1]).toMatch(/^local daemon, fenceFloor/);
  });

  test('is known to the list of all, with a hash of its own', () => {
    // Test files that share a worker may load the same file.
    const hashes = new Map(scripts.map(({ name, sha }) => [name, sha]));
    for (const { name, sha } of scripts) expect([name, sha]).toEqual([name, hashes.get(name)]);
    expect(new Set(hashes.values()).size).toBe(hashes.size);
    expect(hashes.size).toBeGreaterThan(30);
  });

  test('every one compiles in Redis, under the hash that was computed here', async () => {
    for (const { name, lua: text, sha } of scripts)
      expect([name, await client.script('LOAD', text)]).toEqual([name, sha]);
  });
});

describe('the runner', () => {
  const echo = lua(import.meta.url, './echo.lua', ['word']);
  const args = ['d', '0', '', '1', '15000', 'w'] as const;

  test('loads everything when the connection becomes ready, and again after a reconnect', async () => {
    const own = openRedis({ kind: 'socket', path: redis.path }, 'commands', 2000);
    own.on('error', () => undefined);
    const runner = new ScriptRunner(own, [echo]);
    await client.script('FLUSH');
    await own.connect();
    const loaded = async (): Promise<boolean> => ((await client.script('EXISTS', echo.sha)) as number[])[0] === 1;
    await until(loaded);
    await client.script('FLUSH');
    await client.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
    await until(loaded);
    expect(await runner.run(echo, ['k'], args)).toBe('w');
    own.disconnect();
  });

  test('falls back on the text when Redis has forgotten the script, binary arguments included', async () => {
    const runner = new ScriptRunner(client, []);
    await client.script('FLUSH');
    expect(await runner.run(echo, ['k'], args)).toBe('w');
    await client.script('FLUSH');
    const all = await Promise.all(
      Array.from({ length: 20 }, (_, i) => runner.run(echo, ['k'], ['d', '0', '', '1', '15000', Buffer.from(`ü${i}`)])),
    );
    expect(all).toEqual(Array.from({ length: 20 }, (_, i) => `ü${i}`));
  });
});
