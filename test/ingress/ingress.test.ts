import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { Client } from '../../src/redis/connection.js';
import type { LogEvent } from '../../src/redis/log-entry.js';
import { upTo } from '../feed/world.js';
import { startRedis, type TestRedis } from '../support/redis.js';
import { until } from '../support/until.js';
import { Daemon, LinkProxy, logged, numbersOf } from './world.js';

let redis: TestRedis;
let service: Client;
const daemons: Daemon[] = [];

beforeAll(async () => {
  redis = await startRedis();
});
afterAll(() => redis.stop());
beforeEach(() => {
  service = redis.client();
});
afterEach(async () => {
  await Promise.all(daemons.splice(0).map((daemon) => daemon.stop().catch(() => undefined)));
  await redis.client().flushall();
});

async function start(name = 'd1', options: ConstructorParameters<typeof Daemon>[2] = {}): Promise<Daemon> {
  const daemon = new Daemon(redis, name, options);
  daemons.push(daemon);
  return await daemon.start();
}
const say = (n: number): Promise<number> => service.publish('signalbox:default:svc.said', JSON.stringify({ n }));
const events = (): Promise<LogEvent[]> => logged(service);
const ofType = async (type: string): Promise<LogEvent[]> => (await events()).filter((event) => event.type === type);
async function all(count: number, limitMs?: number): Promise<void> {
  await until(async () => new Set(numbersOf(await events())).size >= count, limitMs);
}
/** Publishes without a pause until stopped; answers how many. */
function chatter(): () => Promise<number> {
  let on = true;
  let n = 0;
  const done = (async () => {
    while (on) {
      await say(++n);
      if (n % 20 === 0) await new Promise((resolve) => setTimeout(resolve, 2));
    }
  })();
  return async () => {
    on = false;
    await done;
    return n;
  };
}

describe('what services publish', () => {
  test('becomes events in order, in the namespace of the channel', async () => {
    await start();
    for (const n of upTo(200)) say(n);
    await service.publish('signalbox:other:x', '1');
    await all(200);
    expect(numbersOf(await events())).toEqual(upTo(200));
    expect((await logged(service, 'other')).map(({ type }) => type)).toContain('x');
    const [event] = await ofType('svc.said');
    expect(JSON.parse(event!.line).event).toMatchObject({ source: 'redis:publish', type: 'svc.said', data: { n: 1 } });
  });

  test('the first message to a namespace nobody appends to yet is not lost', async () => {
    await start();
    await say(1);
    await all(1);
  });

  test('a CloudEvent that is repeated is appended once', async () => {
    await start();
    const event = JSON.stringify({ specversion: '1.0', id: 'i', source: 's', type: 'order.paid', data: { n: 1 } });
    await service.publish('signalbox:default:any', event);
    await service.publish('signalbox:default:any', event);
    await say(2);
    await all(2);
    expect(numbersOf(await events())).toEqual([1, 2]);
  });

  test('what cannot be an event is told with channel, reason and size, and never with its content', async () => {
    await start();
    await service.publish('signalbox:default:a.b', 'secret{');
    await service.publish('signalbox:default:task.completed', '{"secret":1}');
    await service.publish('signalbox:default:', '"secret"');
    await service.publish('signalbox:default:a', `"${'secret'.repeat(20_000)}"`);
    await service.publish('signalbox:default:b', `"${'secret'.repeat(50_000)}"`);
    await say(1);
    await all(1);
    const rejected = await ofType('ingress.rejected');
    expect(rejected.map(({ data, subject, own }) => [data, subject, own])).toEqual(
      [
        { channel: 'signalbox:default:a.b', reason: 'notJson', bytes: 7 },
        { channel: 'signalbox:default:task.completed', reason: 'reservedType', bytes: 12 },
        { channel: 'signalbox:default:', reason: 'malformedType', bytes: 8 },
        { channel: 'signalbox:default:a', reason: 'tooLarge', bytes: 120_002 },
        { channel: 'signalbox:default:b', reason: 'tooLarge', bytes: 300_002 },
      ].map((data) => [data, data.channel, true]),
    );
    expect(rejected.map(({ line }) => line).join()).not.toContain('secret');
  });

  test('a flood of garbage makes ten events a second, the rest is counted', async () => {
    await start();
    const begun = performance.now();
    await Promise.all(upTo(5000).map(() => service.publish('signalbox:default:a', 'garbage')));
    await say(1);
    await all(1);
    let sent = 5000;
    const counted = async (): Promise<number> => {
      const data = (await ofType('ingress.rejected')).map((event) => event.data as { more?: number });
      return data.reduce((sum, { more = 0 }) => sum + 1 + more, 0);
    };
    await until(async () => {
      await service.publish('signalbox:default:a', 'garbage');
      sent++;
      return (await counted()) > 5000;
    });
    expect(await counted()).toBeLessThanOrEqual(sent);
    const seconds = (performance.now() - begun) / 1000;
    expect((await ofType('ingress.rejected')).length).toBeLessThanOrEqual(10 * (seconds + 2));
  });

  test('an unknown namespace is dropped, counted, and named once', async () => {
    const daemon = await start();
    for (const name of ['nope', 'nope', 'UPPER', 'x'.repeat(70)]) await service.publish(`signalbox:${name}:a`, '1');
    await service.publish('signalbox:', '1');
    await say(1);
    await all(1);
    expect(daemon.unknown).toEqual(['nope', '']);
    expect(daemon.ingress.stats().dropped).toBe(5);
    expect(await service.exists('sb:{nope}:log')).toBe(0);
  });
});

describe('one appender a namespace', () => {
  test('of three daemons one appends, and every message once', async () => {
    for (const name of ['d1', 'd2', 'd3']) await start(name);
    for (const n of upTo(500)) say(n);
    await all(500);
    expect(numbersOf(await events())).toEqual(upTo(500));
    expect(daemons.filter(({ appending }) => appending).length).toBe(1);
    expect(await ofType('ingress.gap')).toEqual([]);
  });

  test('when it dies another goes on within seconds, exactly where the log stands', async () => {
    for (const name of ['d1', 'd2', 'd3']) await start(name);
    await say(0);
    await until(() => daemons.some(({ appending }) => appending));
    const stop = chatter();
    for (let round = 0; round < 2; round++) {
      const at = daemons.findIndex(({ appending }) => appending);
      const before = numbersOf(await events()).length;
      await all(before + 300);
      daemons.splice(at, 1)[0]!.die();
      await until(() => daemons.some(({ appending }) => appending), 4000);
    }
    const count = await stop();
    await all(count + 1);
    expect(numbersOf(await events())).toEqual([0, ...upTo(count)]);
    expect(await ofType('ingress.gap')).toEqual([]);
  });

  test('a clean stop hands over at once', async () => {
    await start('d1');
    await say(0);
    await until(() => daemons[0]!.appending);
    await start('d2');
    await until(() => daemons[1]!.ingress.stats().up);
    const stop = chatter();
    await all(200);
    await daemons[0]!.stop();
    await until(() => daemons[1]!.appending, 400);
    const count = await stop();
    await all(count + 1);
    expect(numbersOf(await events())).toEqual([0, ...upTo(count)]);
    expect(await ofType('ingress.gap')).toEqual([]);
  });

  test('one that was frozen cannot write any more when it thaws', async () => {
    let frozen: Promise<void> | undefined;
    await start('d1', {
      calls: async (call) => {
        await frozen;
        return call();
      },
    });
    await say(1);
    await all(1);
    await start('d2');
    let thaw = (): void => undefined;
    frozen = new Promise((resolve) => {
      thaw = resolve;
    });
    for (const n of upTo(50).slice(1)) await say(n);
    await until(() => daemons[1]!.appending, 4000);
    await all(50);
    thaw();
    await until(() => !daemons[0]!.appending);
    await say(51);
    await all(51);
    expect(numbersOf(await events())).toEqual(upTo(51));
  });

  test('a reply that is lost after the work was done does not double anything', async () => {
    let calls = 0;
    await start('d1', {
      calls: async (call) => {
        const reply = await call();
        if (++calls % 7 === 0) throw new Error('Command timed out');
        return reply;
      },
    });
    const stop = chatter();
    await all(1500);
    const count = await stop();
    await all(count);
    expect(numbersOf(await events())).toEqual(upTo(count));
  });

  test('FLUSHALL under load: it goes on with the new store', async () => {
    await start();
    const stop = chatter();
    await all(300);
    await service.flushall();
    await all(300);
    const count = await stop();
    await until(async () => numbersOf(await events()).at(-1) === count);
    const numbers = numbersOf(await events());
    expect(numbers).toEqual(upTo(count).slice(-numbers.length));
  });

  test('a daemon that starts after all were away tells how long nobody listened', async () => {
    const first = await start('d1');
    await say(1);
    await all(1);
    await first.stop();
    const left = Date.now();
    await say(2);
    await new Promise((resolve) => setTimeout(resolve, 100));
    await start('d2');
    await until(async () => (await ofType('ingress.gap')).length === 1);
    const { since, until: till } = (await ofType('ingress.gap'))[0]!.data as { since: string; until: string };
    expect(Date.parse(since)).toBeLessThanOrEqual(left + 50);
    expect(Date.parse(till)).toBeGreaterThanOrEqual(left + 50);
    await say(3);
    await all(2);
    expect(numbersOf(await events())).toEqual([1, 3]);
  });
});

describe('a lost link', () => {
  const gapBetween = async (from: number, to: number): Promise<void> => {
    const [gap, ...more] = await ofType('ingress.gap');
    const { via, since, until: till } = gap!.data as { via: string; since: string; until: string };
    expect(via).toBe('pubsub');
    expect(Date.parse(since)).toBeLessThanOrEqual(from);
    expect(Date.parse(till)).toBeGreaterThanOrEqual(to);
    expect(more).toEqual([]);
  };

  test('that Redis cuts is subscribed again, and the gap is told', async () => {
    const daemon = await start();
    await say(1);
    await all(1);
    const cut = Date.now();
    await service.call('CLIENT', 'KILL', 'TYPE', 'pubsub');
    await until(async () => (await ofType('ingress.gap')).length === 1);
    await gapBetween(cut, cut);
    await say(2);
    await all(2);
    expect(daemon.ingress.stats()).toMatchObject({ up: true, cuts: 1, waiting: 0 });
  });

  test('is nobody’s loss while another daemon hears', async () => {
    for (const name of ['d1', 'd2']) await start(name);
    await say(0);
    await all(1);
    const stop = chatter();
    for (let round = 0; round < 5; round++) {
      const before = numbersOf(await events()).length;
      await all(before + 100);
      await until(() => daemons.every(({ ingress }) => ingress.stats().up));
      daemons.find(({ appending }) => appending)?.link?.disconnect(true);
    }
    const count = await stop();
    await all(count + 1);
    expect(numbersOf(await events())).toEqual([0, ...upTo(count)]);
    expect(await ofType('ingress.gap')).toEqual([]);
  });

  test('F14: that goes silent is found dead by its own PING, marked, and comes back', async () => {
    const proxy = await LinkProxy.open(redis);
    const daemon = await start('d1', { path: proxy.path });
    await say(1);
    await all(1);
    proxy.silence(true);
    const silent = Date.now();
    await say(2);
    await until(() => !daemon.ingress.stats().up, 3 * 300 + 500);
    proxy.silence(false);
    const heard = Date.now();
    await until(() => daemon.ingress.stats().up, 6000);
    await until(async () => (await ofType('ingress.gap')).length === 1);
    await gapBetween(silent, heard);
    await say(3);
    await all(2);
    expect(numbersOf(await events())).toEqual([1, 3]);
    proxy.close();
  });

  test('Redis itself was away: gap, then on', async () => {
    await start();
    await say(1);
    await all(1);
    await redis.restart();
    await until(() => daemons[0]!.ingress.stats().up);
    await until(async () => (await service.ping().catch(() => '')) === 'PONG');
    await say(2);
    await all(1);
  });
});

describe('a flood', () => {
  test('that is faster than the log costs bounded memory, and the hole is told in place with its count', async () => {
    let slow = true;
    const daemon = await start('d1', {
      tapeBytes: 100_000,
      calls: async (call) => {
        while (slow) await new Promise((resolve) => setTimeout(resolve, 5));
        return call();
      },
    });
    slow = false;
    await say(1);
    await all(1);
    slow = true;
    for (const n of upTo(3000).slice(1)) say(n);
    await until(() => daemon.ingress.stats().waiting > 100);
    await until(() => service.ping().then(() => daemon.ingress.stats().bytes > 90_000));
    expect(daemon.ingress.stats().bytes).toBeLessThanOrEqual(100_500);
    slow = false;
    await until(async () => (await ofType('ingress.gap')).length === 1);
    await say(3001);
    await until(async () => numbersOf(await events()).at(-1) === 3001);
    const rows = (await events()).filter(({ type }) => type !== 'epoch.began');
    const at = rows.findIndex(({ type }) => type === 'ingress.gap');
    const { lost, since, until: till } = rows[at]!.data as { lost: number; since: string; until: string };
    const before = numbersOf(rows.slice(0, at));
    const after = numbersOf(rows.slice(at));
    expect(before).toEqual(upTo(before.length));
    expect(after[0]).toBe(before.length + lost + 1);
    expect(after.at(-1)).toBe(3001);
    expect(Date.parse(since)).toBeLessThanOrEqual(Date.parse(till));
    expect(daemon.ingress.stats()).toMatchObject({ waiting: 0, bytes: 0 });
  });
});

test('nothing is left behind when it stops', async () => {
  const daemon = await start();
  await say(1);
  await all(1);
  await daemon.stop();
  daemons.splice(0);
  expect(await service.hget('sb:{default}:ingress', 'daemon')).toBe('');
  await until(async () => !String(await service.call('CLIENT', 'LIST')).includes('psub=1'));
});
