import { ReplyError } from 'ioredis';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { Refusal } from '../../src/errors.js';
import { type Client, openRedis, ScriptRunner } from '../../src/redis/connection.js';
import { Namespace, toRefusal } from '../../src/redis/namespace.js';
import { lua, type Script } from '../../src/redis/script.js';
import { startRedis, type TestRedis } from '../support/redis.js';

const turn = lua(import.meta.url, './turn.lua', ['mode', 'count']);

describe('what a script or Redis answers, as a refusal', () => {
  const reply = (message: string): Error => Object.assign(new ReplyError(message), { message });

  test.each([
    ['NOT_FOUND refused', { code: 'NOT_FOUND', details: undefined }],
    ['STALE_FENCE {"yours":1,"current":2}', { code: 'STALE_FENCE', details: { yours: 1, current: 2 } }],
    [
      'OVERLOADED {"message":"full","afterMs":7,"depth":3}',
      { code: 'OVERLOADED', message: 'full', afterMs: 7, details: { depth: 3 } },
    ],
    ['BAD_REQUEST {"path":"cursor","message":"m"}', { code: 'BAD_REQUEST', path: 'cursor' }],
    ['BUSY Redis is busy running a script', { code: 'UNAVAILABLE' }],
    ['LOADING Redis is loading the dataset in memory', { code: 'UNAVAILABLE' }],
    ["READONLY You can't write against a read only replica.", { code: 'UNAVAILABLE' }],
    ["OOM command not allowed when used memory > 'maxmemory'.", { code: 'UNAVAILABLE' }],
    ["-OOM command not allowed when used memory > 'maxmemory'. script: abc", { code: 'UNAVAILABLE' }],
    ['TRYAGAIN Multiple keys request during rehashing of slot', { code: 'UNAVAILABLE' }],
    ['CLUSTERDOWN The cluster is down', { code: 'UNAVAILABLE' }],
    ['NOREPLICAS Not enough good replicas to write.', { code: 'UNAVAILABLE' }],
  ])('%s', (message, expected) => {
    const refusal = toRefusal(reply(message), 'x');
    expect(refusal).toBeInstanceOf(Refusal);
    expect(refusal).toMatchObject(expected);
  });

  test.each([
    'ERR user_script:3: attempt to index a nil value',
    'WRONGTYPE Operation against a key',
    'NOSUCHCODE x',
    'ERR Error running script',
  ])('a fault of ours stays one: %s', (message) => {
    const error = reply(message);
    expect(toRefusal(error, 'x')).toBe(error);
  });

  test.each([
    ['Command timed out', 'TIMEOUT'],
    ['Connection is closed.', 'TIMEOUT'],
    ["Stream isn't writeable and enableOfflineQueue options is false", 'UNAVAILABLE'],
    ['Reached the max retries per request limit (which is 0).', 'TIMEOUT'],
    ['connect ECONNREFUSED /x', 'UNAVAILABLE'],
    ['connect ENOENT /x', 'UNAVAILABLE'],
    ['connect ETIMEDOUT', 'UNAVAILABLE'],
    ['read ECONNRESET', 'TIMEOUT'],
    ['write EPIPE', 'TIMEOUT'],
  ])('of the driver: %s is %s', (message, code) => {
    expect(toRefusal(new Error(message), 'x')).toMatchObject({ code, retry: true });
  });

  test('a refusal stays what it is, and so does what is no error', () => {
    const refusal = new Refusal('HELD');
    expect(toRefusal(refusal, 'x')).toBe(refusal);
    expect(toRefusal('odd', 'x')).toBe('odd');
  });
});

describe('a namespace', () => {
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

  test('remembers the head and the highest fence of its scripts, and hands them to the next', async () => {
    const namespace = new Namespace('n', new ScriptRunner(client, []), { daemon: 'd', eventsMax: 1000 });
    expect(namespace.seenPosition).toBe('');
    const [epoch, , , , fences] = await namespace.call<[string, string, string, string, string[]]>(turn, ['emit', 2]);
    expect(namespace.seenPosition).toBe(`${epoch}:2`);
    await client.flushall();
    const again = await namespace.call<[string, string, string, string, string[]]>(turn, ['emit', 1]);
    expect(Number(again[4][0])).toBeGreaterThan(Number(fences[1]));
  });

  test('answers that overtake each other do not lower what it has seen', async () => {
    // Two scripts on their way; the second one's answer comes first, as after a NOSCRIPT of the first.
    const waiting: ((reply: unknown) => void)[] = [];
    const runner = { run: () => new Promise((resolve) => waiting.push(resolve)) } as unknown as ScriptRunner;
    const namespace = new Namespace('n', runner, { daemon: 'd', eventsMax: 1000 });
    const calls = [namespace.call({} as Script), namespace.call({} as Script)];
    waiting[1]!(['20', 'e:9', 'second']);
    await calls[1];
    waiting[0]!(['10', 'e:8', 'first']);
    await calls[0];
    expect(namespace.seenPosition).toBe('e:9');
    const asked: unknown[][] = [];
    Object.assign(runner, {
      run: async (_: unknown, __: unknown, args: unknown[]) => {
        asked.push(args);
        return ['21', 'f:3', ''];
      },
    });
    await namespace.call({} as Script);
    expect(asked[0]!.slice(1, 3)).toEqual(['20', 'e:9']);
    // A new epoch may stand lower: what is seen is what came last.
    expect(namespace.seenPosition).toBe('f:3');
  });

  test('a script of a broken store is an error with the script in it, and the client lives on', async () => {
    const namespace = new Namespace('broken', new ScriptRunner(client, []), { daemon: 'd', eventsMax: 1000 });
    await client.set('sb:{broken}:meta', 'no hash');
    await expect(namespace.call(turn, ['emit', 1])).rejects.toThrow(/WRONGTYPE/);
    await client.del('sb:{broken}:meta');
    await namespace.call(turn, ['emit', 1]);
  });
});
