import { describe, expect, it } from 'vitest';
import { type Config, loadConfig } from '../../src/config.js';
import { Handshake } from '../../src/gateway/handshake.js';
import { Gateway } from '../../src/gateway/server.js';
import { TokenCheck } from '../../src/gateway/token.js';
import { Client, client, type Station, station, useStations, Wire } from './support.js';

useStations();

const token = 'right-token';

async function upgrade(at: Station, headers: Record<string, string> = {}, path?: string): Promise<string> {
  return await new Wire(at.port).upgrade(headers, path);
}

const status = (head: string): number => Number(head.split(' ')[1]);

describe('the upgrade', () => {
  it('is answered with 101 and hello at /v1/ws only', async () => {
    const at = await station();
    const watcher = await client(at);
    expect(watcher.lines[0]).toMatchObject({ op: 'hello', protocol: 'signalbox.v1', auth: 'none', heartbeatMs: 25000 });
    expect(watcher.lines[0].limits).toMatchObject({ lineBytes: 1024 * 1024, lines: 64, depth: 32 });
    expect(watcher.ws.protocol).toBe('signalbox.v1');
    expect(status(await upgrade(at, {}, '/v1/other'))).toBe(404);
  });

  it('leaves every other request to the handler it was given', async () => {
    const at = await station();
    expect(await (await fetch(`http://127.0.0.1:${at.port}/healthz`)).text()).toBe('ops');
  });

  it.each([
    '127.0.0.1',
    '127.1.2.3:7171',
    'localhost:1',
    'LOCALHOST',
    'a.localhost',
    '[::1]:7171',
    'box.internal:7171',
  ])('takes the host %s', async (host) => {
    const at = await station({ 'gateway.allowedHosts': ['box.internal'] });
    expect(status(await upgrade(at, { Host: host }))).toBe(101);
  });

  it.each([
    'attacker.test',
    'attacker.test:7171',
    'localhost.attacker.test',
    '10.0.0.1',
    '127.0.0.1.attacker.test',
    '',
  ])('refuses the host "%s" with 421, as DNS rebinding would send it', async (host) => {
    expect(status(await upgrade(await station(), { Host: host }))).toBe(421);
  });

  it('takes an absent Origin, the same origin and an allowed one', async () => {
    const at = await station({ 'gateway.allowedOrigins': ['https://board.example'] });
    expect(status(await upgrade(at))).toBe(101);
    expect(status(await upgrade(at, { Host: 'localhost:9', Origin: 'http://localhost:9' }))).toBe(101);
    expect(status(await upgrade(at, { Origin: 'https://board.example' }))).toBe(101);
  });

  it.each([
    'https://evil.example',
    'null',
    'https://board.example.evil.example',
    'http://board.example',
    'http://localhost:8',
  ])('refuses the origin %s with 403', async (Origin) => {
    const at = await station({ 'gateway.allowedOrigins': ['https://board.example'] });
    expect(status(await upgrade(at, { Host: 'localhost:9', Origin }))).toBe(403);
  });

  it('refuses a foreign host before it looks at the origin, and an origin before it looks at the token', async () => {
    const at = await station({ 'gateway.token': token });
    const wrong = { Authorization: 'Bearer wrong' };
    expect(status(await upgrade(at, { ...wrong, Host: 'attacker.test', Origin: 'null' }))).toBe(421);
    expect(status(await upgrade(at, { ...wrong, Origin: 'null' }))).toBe(403);
    expect(status(await upgrade(at, { ...wrong, 'Sec-WebSocket-Protocol': 'other' }))).toBe(400);
  });

  it('refuses one connection too many with 503 and Retry-After, and takes it when there is room again', async () => {
    const at = await station({ 'gateway.connectionsMax': 2 });
    const first = await client(at);
    await client(at);
    const head = await upgrade(at);
    expect(status(head)).toBe(503);
    expect(head).toMatch(/\r\nRetry-After: [1-9]/);
    first.ws.close();
    await at.until(() => at.endings.length === 1);
    expect(status(await upgrade(at))).toBe(101);
  });

  it('does not count loopback against the ceiling of an address', async () => {
    const at = await station({ 'gateway.connectionsPerAddressMax': 1 });
    await client(at);
    expect(status(await upgrade(at))).toBe(101);
  });

  it('refuses too many from one address with 429 and Retry-After, before it says that it drains', () => {
    const { gateway } = loadConfig({ flags: { 'gateway.connectionsPerAddressMax': 2, 'gateway.token': token } });
    const handshake = new Handshake(gateway, new TokenCheck(token));
    const from = (remoteAddress: string, localAddress = '10.0.0.1') =>
      ({ url: '/v1/ws', headers: { host: '10.0.0.1:7171' }, socket: { remoteAddress, localAddress } }) as never;
    const state = (count: number, draining = false) => ({ connections: 3, draining, connectionsOf: () => count });
    expect(handshake.check(from('10.0.0.9'), state(1))).toEqual({ authenticated: false });
    expect(handshake.check(from('10.0.0.9'), state(2, true)).refused).toMatchObject({
      status: 429,
      retryAfterSeconds: 5,
    });
    expect(handshake.check(from('::ffff:127.0.0.1'), state(2)).refused).toBeUndefined();
    expect(handshake.check(from('10.0.0.9'), state(1, true)).refused).toMatchObject({ status: 503 });
    // The address it came in on is no name that could have been rebound; another address is.
    expect(handshake.check(from('10.0.0.9', '10.0.0.2'), state(1)).refused).toMatchObject({ status: 421 });
  });

  it('takes the subprotocol from a list, and none at all; refuses only unknown ones naming its own', async () => {
    const at = await station();
    const both = await upgrade(at, { 'Sec-WebSocket-Protocol': 'other, signalbox.v1' });
    expect(both).toContain('\r\nSec-WebSocket-Protocol: signalbox.v1\r\n');
    const none = await upgrade(at);
    expect(status(none)).toBe(101);
    expect(none).not.toContain('Sec-WebSocket-Protocol');
    const wire = new Wire(at.port);
    expect(status(await wire.upgrade({ 'Sec-WebSocket-Protocol': 'signalbox.v2' }))).toBe(400);
    await wire.ended;
    expect(wire.received.toString()).toContain('signalbox.v1');
  });

  it.each([{ 'Sec-WebSocket-Key': 'short' }, { 'Sec-WebSocket-Version': '7' }, { Upgrade: 'h2c' }])(
    'refuses a malformed upgrade %o with 400',
    async (headers) => {
      expect(status(await upgrade(await station(), headers as unknown as Record<string, string>))).toBe(400);
    },
  );
});

describe('credentials', () => {
  it('come as Authorization: Bearer; a wrong one is 401', async () => {
    const at = await station({ 'gateway.token': token });
    expect(status(await upgrade(at, { Authorization: `Bearer ${token}` }))).toBe(101);
    for (const Authorization of ['Bearer wrong', 'Bearer', `Basic ${token}`, `Bearer ${token}x`, `Bearer ${token} x`]) {
      const head = await upgrade(at, { Authorization });
      expect(status(head), Authorization).toBe(401);
      expect(head).toContain('WWW-Authenticate: Bearer');
    }
  });

  it('are refused in the query, right or wrong', async () => {
    const at = await station({ 'gateway.token': token });
    for (const query of [`token=${token}`, `a=1&access_token=${token}`, 'TOKEN=x']) {
      expect(status(await upgrade(at, {}, `/v1/ws?${query}`)), query).toBe(400);
    }
    expect(status(await upgrade(at, {}, '/v1/ws?page=1'))).toBe(101);
  });

  it('are needed for everything but ping and session.open', async () => {
    const at = await station({ 'gateway.token': token });
    const watcher = await client(at);
    expect(watcher.lines[0].auth).toBe('required');
    expect((await watcher.call('ping')).ok).toBeDefined();
    for (const op of ['echo', 'where', 'mine', 'feed.subscribe', 'nonsense']) {
      expect((await watcher.call(op)).error?.code, op).toBe('UNAUTHENTICATED');
    }
    expect((await watcher.call('session.open', { agent: 'a' })).error.code).toBe('UNAUTHENTICATED');
    expect((await watcher.call('session.open', { agent: 'a', token: 'wrong' })).error.code).toBe('UNAUTHENTICATED');
    expect((await watcher.call('session.open', { agent: 'a', token })).ok).toBeDefined();
    expect((await watcher.call('echo', { text: 'now' })).ok).toEqual({ text: 'now' });
  });

  it('on the upgrade are good for session.open too', async () => {
    const at = await station({ 'gateway.token': token });
    const agent = await client(at, { headers: { Authorization: `Bearer ${token}` } });
    expect((await agent.call('session.open', { agent: 'a' })).ok).toBeDefined();
  });

  it('that do not come in time close the connection with 4401 and say so first', async () => {
    const at = await station({ 'gateway.token': token, 'gateway.authMs': 100 });
    const mute = await client(at);
    const inTime = await client(at);
    expect((await inTime.call('session.open', { agent: 'a', token })).ok).toBeDefined();
    expect((await mute.push('closed')).code).toBe(4401);
    expect((await mute.closed).code).toBe(4401);
    expect((await inTime.call('ping')).ok).toBeDefined();
  });
});

describe('listening', () => {
  it('beyond loopback without a token is refused at the start', async () => {
    const config = loadConfig();
    const open = { ...config, gateway: { ...config.gateway, host: '0.0.0.0', port: 0 } } as Config;
    const gateway = new Gateway({ config: open, commands: new Map(), hooks: {} as never, http: () => undefined });
    await expect(gateway.start()).rejects.toThrow(/gateway\.token/);
    await gateway.stop();
  });

  it('on a port that is taken is an error of start', async () => {
    const at = await station();
    await expect(station({ 'gateway.port': at.port })).rejects.toThrow(/EADDRINUSE/);
  });

  it('stops twice, and what never started', async () => {
    const at = await station();
    const one = new Client(at.url);
    await one.open();
    await at.gateway.stop();
    await at.gateway.stop();
    expect((await one.closed).code).toBe(1006);
  });
});
