import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { expect, test } from 'vitest';
import { Closed, connect, Refusal, type Status } from '../../src/client/index.js';
import { refuse, silence } from './fake-daemon.js';
import { client, fakeDaemon, rejection, useRig } from './rig.js';

useRig();

test('connect opens a session with what it was given, and the token is on the upgrade', async () => {
  const daemon = await fakeDaemon();
  const sb = await client(daemon, { namespace: 'n1', tenant: 't1', ttlMs: 2000, token: 'secret', labels: { a: 'b' } });
  const { params, peer } = await daemon.asked('session.open');
  expect(params).toEqual({
    agent: 'a1',
    namespace: 'n1',
    tenant: 't1',
    ttlMs: 2000,
    token: 'secret',
    labels: { a: 'b' },
  });
  expect(peer.headers.authorization).toBe('Bearer secret');
  expect(sb.identity).toEqual({ session: 's1', key: 'k1' });
});

test('without an agent there is no session, and reads name the namespace', async () => {
  const daemon = await fakeDaemon();
  daemon.on['queue.stats'] = () => ({ queues: [] });
  const sb = await client(daemon, { agent: undefined as unknown as string, namespace: 'n1' });
  await sb.queue.stats({});
  await sb.ping();
  expect(daemon.all('session.open')).toHaveLength(0);
  expect((await daemon.asked('queue.stats')).params).toEqual({ namespace: 'n1' });
  expect((await daemon.asked('ping')).params).toEqual({});
});

test('an option that is there but undefined is one that is not', async () => {
  const daemon = await fakeDaemon();
  daemon.on['queue.get'] = () => ({});
  const statuses: Status[] = [];
  const sb = await client(daemon, {
    agent: undefined,
    namespace: 'n',
    backoff: { baseMs: undefined, capMs: undefined },
    onStatus: (status: Status) => statuses.push(status),
  } as object);
  await sb.queue.get({ task: 't', namespace: undefined } as never);
  expect((await daemon.asked('queue.get')).params).toEqual({ task: 't', namespace: 'n' });
  daemon.peer.cut();
  await daemon.connection(1);
  expect(statuses).toContainEqual(expect.objectContaining({ state: 'reconnecting', delayMs: expect.closeTo(25, -2) }));
});

test('a session of an earlier process is resumed', async () => {
  const daemon = await fakeDaemon();
  const sb = await client(daemon, { resume: { session: 'old', key: 'k9' } });
  expect((await daemon.asked('session.open')).params.resume).toEqual({ session: 'old', key: 'k9' });
  expect(sb.identity).toEqual({ session: 'old', key: 'k9' });
});

test('connect gives up after its time and says why', async () => {
  const error = await rejection(connect({ url: 'ws://127.0.0.1:1/v1/ws', agent: 'a', connectTimeoutMs: 150 }));
  expect(error).toBeInstanceOf(Closed);
  expect(error.message).toContain('ECONNREFUSED');
});

test('connect waits for a daemon that is not up yet, and tries the next address', async () => {
  const daemon = await fakeDaemon();
  const sb = await client(daemon, { url: ['ws://127.0.0.1:1/v1/ws', daemon.url] });
  expect(sb.identity?.session).toBe('s1');
});

test('a refused session ends the connecting with that refusal', async () => {
  const daemon = await fakeDaemon();
  daemon.on['session.open'] = () => refuse('UNAUTHENTICATED');
  const error = await rejection(client(daemon));
  expect(error).toBeInstanceOf(Refusal);
  expect(error.code).toBe('UNAUTHENTICATED');
  expect(daemon.peers).toHaveLength(1);
});

test('a session that cannot be opened for the moment is tried again', async () => {
  const daemon = await fakeDaemon();
  daemon.on['session.open'] = ({ peer }) =>
    peer.number === 0
      ? refuse('UNAVAILABLE', { retry: true, afterMs: 1 })
      : { session: 's', key: 'k', ttlMs: 1000, holdings: [] };
  const sb = await client(daemon);
  expect(sb.identity?.session).toBe('s');
});

test.each([
  [401, 4401],
  [403, 4400],
  [400, 4400],
])('an upgrade refused with HTTP %i is final', async (status, code) => {
  const server = createServer().on('upgrade', (_request, socket) =>
    socket.end(`HTTP/1.1 ${status} No\r\nContent-Length: 0\r\n\r\n`),
  );
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const url = `ws://127.0.0.1:${(server.address() as AddressInfo).port}/`;
  const error = await rejection(connect({ url, agent: 'a' }));
  server.close();
  expect(error).toMatchObject({ name: 'Closed', code });
});

test('an upgrade refused with 503 is tried again after the stated time', async () => {
  const daemon = await fakeDaemon();
  let tries = 0;
  const server = createServer().on('upgrade', (_request, socket) => {
    tries++;
    socket.end('HTTP/1.1 503 Draining\r\nRetry-After: 0\r\nContent-Length: 0\r\n\r\n');
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const url = `ws://127.0.0.1:${(server.address() as AddressInfo).port}/`;
  await client(daemon, { url: [url, daemon.url] });
  server.close();
  expect(tries).toBe(1);
});

test('the stated time of one address does not hold up the next; after a round of all of them it counts', async () => {
  const daemon = await fakeDaemon();
  const tries: number[] = [];
  const urls: string[] = [];
  const servers = [0, 1].map((number) =>
    createServer().on('upgrade', (_request, socket) => {
      tries.push(number);
      socket.end('HTTP/1.1 503 Draining\r\nRetry-After: 30\r\nContent-Length: 0\r\n\r\n');
    }),
  );
  for (const server of servers) {
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    urls.push(`ws://127.0.0.1:${(server.address() as AddressInfo).port}/`);
  }
  const statuses: Status[] = [];
  const onStatus = (status: Status): void => void statuses.push(status);
  await rejection(client(daemon, { url: urls, connectTimeoutMs: 500, onStatus }));
  expect(tries).toEqual([0, 1]);
  expect(statuses[0]).toMatchObject({ state: 'reconnecting', delayMs: expect.closeTo(10, -1.4) });
  expect(statuses[1]).toMatchObject({ state: 'reconnecting', delayMs: 30_000 });
  await client(daemon, { url: [...urls, daemon.url] });
  expect(tries).toEqual([0, 1, 0, 1]);
  for (const server of servers) server.close();
});

test('the signal ends the connecting, and later the client', async () => {
  const daemon = await fakeDaemon();
  daemon.on['session.open'] = () => silence;
  const early = new AbortController();
  const connecting = rejection(client(daemon, { signal: early.signal }));
  await daemon.asked('session.open');
  early.abort();
  expect((await connecting).name).toBe('Closed');

  delete daemon.on['session.open'];
  const late = new AbortController();
  const statuses: Status[] = [];
  const sb = await client(daemon, { signal: late.signal, onStatus: (status) => statuses.push(status) });
  late.abort();
  expect((await sb.closed).code).toBe(1000);
  expect(statuses.map(({ state }) => state)).toEqual(['open', 'closed']);
});
