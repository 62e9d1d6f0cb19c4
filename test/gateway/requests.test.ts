import { describe, expect, it, vi } from 'vitest';
import { bounds } from '../../src/gateway/bounds.js';
import { Pipeline } from '../../src/gateway/pipeline.js';
import { commandProbe, faultProbe } from '../../src/gateway/probes.js';
import { client, type Line, station, useStations } from './support.js';

useStations();

describe('a message', () => {
  it('may have 64 lines, answered each once', async () => {
    const at = await station();
    const one = await client(at);
    one.send(...Array.from({ length: 64 }, (_, i) => ({ id: i + 1, op: 'echo', params: { text: `${i}` } })));
    await Promise.all(Array.from({ length: 64 }, (_, i) => one.reply(i + 1)));
    expect(one.lines.filter((line) => line.ok).map((line) => line.ok.text)).toEqual(
      Array.from({ length: 64 }, (_, i) => `${i}`),
    );
  });

  it('of 65 lines is one bad frame and none of it is run', async () => {
    const at = await station();
    const one = await client(at);
    one.send(...Array.from({ length: 65 }, (_, i) => ({ id: i + 1, op: 'echo' })));
    expect((await one.push('error')).error.code).toBe('BAD_FRAME');
    await one.call('ping');
    expect(one.lines.filter((line) => line.id !== undefined)).toHaveLength(1);
  });

  it('may end in a newline, or in the carriage return of a terminal', async () => {
    const at = await station();
    const one = await client(at);
    one.ws.send('{"id":1,"op":"ping"}\n');
    one.ws.send('{"id":2,"op":"ping"}\r\n{"id":3,"op":"ping"}\r\n');
    await Promise.all([one.reply(1), one.reply(2), one.reply(3)]);
    expect(one.lines.some((line) => line.op === 'error')).toBe(false);
  });

  it('beyond gateway.lineBytes is closed with 1009, one of exactly that size is read', async () => {
    const at = await station();
    const one = await client(at);
    const around = '{"id":1,"op":"echo","params":{"text":""}}'.length;
    const room = 1024 * 1024 - around;
    one.send({ id: 1, op: 'echo', params: { text: 'x'.repeat(room) } });
    expect((await one.reply(1)).ok?.text.length).toBe(room);
    one.send({ id: 2, op: 'echo', params: { text: 'x'.repeat(room + 1) } });
    expect((await one.closed).code).toBe(1009);
  });

  it('has a number, the same for its lines and another for the next', async () => {
    const at = await station();
    const one = await client(at);
    // The first line of a connection has to wait for the namespace: it still counts for its own message.
    one.send({ id: 1, op: 'message' }, { id: 2, op: 'message' });
    one.send({ id: 3, op: 'message' });
    await Promise.all([1, 2, 3].map((id) => one.reply(id)));
    const [a, b, c] = at.messages.sort((x, y) => x - y);
    expect([a === b, b === c]).toEqual([true, false]);
  });
});

describe('an id', () => {
  it('in flight is refused to another request and still answered to its own', async () => {
    const at = await station();
    const one = await client(at);
    one.send({ id: 5, op: 'held' });
    one.send({ id: 5, op: 'ping' });
    expect((await one.reply(5)).error.code).toBe('DUPLICATE_ID');
    await at.until(() => at.released.length === 1);
    at.released[0]!();
    expect(await one.line((line: Line) => line.id === 5 && line.ok)).toBeDefined();
    one.send({ id: 5, op: 'echo', params: { text: 'free again' } });
    await one.line((line: Line) => line.ok?.text === 'free again');
  });

  it('may be missing for feed.ack: silent when done, an error push when not', async () => {
    const at = await station();
    const one = await client(at);
    one.send({ op: 'feed.ack', params: { good: true } }, { op: 'feed.ack', params: { good: false } });
    expect((await one.push('error')).error.code).toBe('NOT_FOUND');
    one.send({ op: 'feed.ack', params: {} });
    await one.line((line) => line.error?.code === 'BAD_REQUEST' && line.error.path === 'good');
    await one.call('ping');
    expect(one.lines.filter((line) => line.op === 'error')).toHaveLength(2);
    for (let i = 0; i < 5; i++) one.send({ op: 'feed.ack', params: { good: false } });
    expect((await one.call('ping')).ok).toBeDefined(); // A failed ack is no bad frame.
  });

  it('beyond the bound of requests in flight is LIMIT', async () => {
    const at = await station();
    const one = await client(at);
    const max = one.lines[0].limits.requests;
    for (let id = 1; id <= max; id += 64) {
      one.send(...Array.from({ length: 64 }, (_, i) => ({ id: id + i, op: 'held' })));
    }
    one.send({ id: max + 1, op: 'ping' });
    expect((await one.reply(max + 1)).error).toMatchObject({ code: 'LIMIT', details: { max } });
  });
});

describe('a failure', () => {
  it('of every code keeps its advice, delay and details', async () => {
    const at = await station();
    const one = await client(at);
    const { error } = await one.call('fail', { code: 'HELD', afterMs: 12 });
    expect(error).toMatchObject({ code: 'HELD', retry: true, afterMs: 12, details: { why: 'asked' } });
    expect((await one.call('fail', { code: 'CONFLICT' })).error).toMatchObject({ code: 'CONFLICT', retry: false });
  });

  it.each(['now', 'later', 'text', 'circle'])('of ours (%s) is INTERNAL with a ref that is reported', async (how) => {
    const at = await station();
    const one = await client(at);
    const faults: { ref: string; where: string }[] = [];
    const take = (fault: unknown) => faults.push(fault as (typeof faults)[0]);
    faultProbe.subscribe(take);
    const { error } = await one.call('crash', { how });
    faultProbe.unsubscribe(take);
    expect(error.code).toBe('INTERNAL');
    expect(error.message).not.toContain('boom');
    expect(faults).toMatchObject([{ ref: error.details.ref, where: 'crash' }]);
  });

  it('without a subscriber goes to stderr', async () => {
    const at = await station();
    const one = await client(at);
    const said = vi.spyOn(console, 'error').mockImplementation(() => undefined);
    const { error } = await one.call('crash', { how: 'now' });
    expect(String(said.mock.calls[0]?.[0])).toContain(error.details.ref);
    said.mockRestore();
  });

  it('of a hook, or of who waits for a fate, is reported and ends nothing', async () => {
    const at = await station();
    const one = await client(at);
    const said = vi.spyOn(console, 'error').mockImplementation(() => undefined);
    at.brokenHooks = true;
    one.send({ id: 1, op: 'ping' });
    at.deliver(at.connection(), '{"op":"tasks","n":1}');
    await one.line((line) => line.n === 1);
    at.connection().close(1012, 'test', 'drained');
    await one.closed;
    expect(at.fates.length).toBe(1);
    expect(said.mock.calls.length).toBeGreaterThanOrEqual(2);
    said.mockRestore();
    at.brokenHooks = false;
    expect((await (await client(at)).call('ping')).ok).toBeDefined();
  });

  it('of the link to Redis is UNAVAILABLE, and TIMEOUT when it may have happened', async () => {
    const at = await station();
    const one = await client(at);
    expect((await one.call('crash', { how: 'unsent' })).error).toMatchObject({ code: 'UNAVAILABLE', retry: true });
    for (const how of ['closed', 'late'])
      expect((await one.call('crash', { how })).error).toMatchObject({ code: 'TIMEOUT', retry: true });
  });

  it('to fit a line is TOO_LARGE, and the connection goes on', async () => {
    const at = await station();
    const one = await client(at);
    const said = vi.spyOn(console, 'error').mockImplementation(() => undefined);
    const fits = 1024 * 1024 - '{"id":1,"ok":{"text":""}}'.length;
    expect((await one.call('sized', { bytes: fits })).ok.text.length).toBe(fits);
    expect((await one.call('sized', { bytes: fits + 1 })).error.code).toBe('TOO_LARGE');
    expect((await one.call('ping')).ok).toBeDefined();
    said.mockRestore();
  });
});

describe('a namespace', () => {
  it('is default, and the first one used holds for the connection', async () => {
    const at = await station();
    const one = await client(at);
    expect((await one.call('where')).ok.namespace).toBe('default');
    expect((await one.call('where', { namespace: 'default' })).ok.namespace).toBe('default');
    expect((await one.call('where', { namespace: 'other' })).error.code).toBe('CONFLICT');
    const two = await client(at);
    expect((await two.call('where', { namespace: 'other' })).ok.namespace).toBe('other');
    expect((await two.call('where')).ok.namespace).toBe('other');
  });

  it('beside a session is its own, another FORBIDDEN', async () => {
    const at = await station();
    const one = await client(at);
    expect((await one.call('session.open', { agent: 'a', namespace: 'lab' })).ok.namespace).toBe('lab');
    expect((await one.call('mine')).ok.namespace).toBe('lab');
    expect((await one.call('where', { namespace: 'lab' })).ok.namespace).toBe('lab');
    expect((await one.call('where', { namespace: 'default' })).error.code).toBe('FORBIDDEN');
  });

  it('that a watcher named is the one its session may be in', async () => {
    const at = await station();
    const one = await client(at);
    await one.call('where', { namespace: 'lab' });
    expect((await one.call('session.open', { agent: 'a', namespace: 'default' })).error.code).toBe('CONFLICT');
    expect((await one.call('session.open', { agent: 'a' })).ok.namespace).toBe('lab');
  });

  it('does not hold after a ping, a session.open that failed, or a refusal of the namespace itself', async () => {
    const at = await station();
    const one = await client(at);
    await one.call('ping');
    expect((await one.call('session.open', { agent: 'refused', namespace: 'lab' })).error.code).toBe('BAD_KEY');
    expect((await one.call('where', { namespace: 'too-many' })).error.code).toBe('LIMIT');
    expect((await one.call('where', { namespace: 'free' })).ok.namespace).toBe('free');
  });

  it.each(['', 'A', 'a b', '*', 'a}', 'x'.repeat(65), '__proto__', 7, null])(
    'named %j is BAD_REQUEST',
    async (namespace) => {
      const at = await station();
      const one = await client(at);
      for (const op of ['where', 'session.open']) {
        const { error } = await one.call(op, { namespace, ...(op === 'where' ? {} : { agent: 'a' }) });
        expect(error).toMatchObject({ code: 'BAD_REQUEST', path: 'namespace' });
      }
    },
  );

  it('is no field of a command that needs a session, nor of ping', async () => {
    const at = await station();
    const one = await client(at);
    await one.call('session.open', { agent: 'a' });
    for (const op of ['mine', 'ping']) {
      expect((await one.call(op, { namespace: 'default' })).error).toMatchObject({
        code: 'BAD_REQUEST',
        path: 'namespace',
      });
    }
  });
});

describe('a session', () => {
  it('is needed where the command says so', async () => {
    const at = await station();
    const one = await client(at);
    expect((await one.call('mine')).error.code).toBe('NO_SESSION');
    await one.call('session.open', { agent: 'a' });
    expect((await one.call('mine')).ok).toBeDefined();
    await one.call('session.close');
    expect((await one.call('mine')).error.code).toBe('NO_SESSION');
    expect((await one.call('where')).ok).toBeDefined();
  });

  it('is there for what stands behind session.open, in the same message and in the next ones, in its order', async () => {
    const at = await station();
    const one = await client(at);
    one.send({ id: 1, op: 'session.open', params: { agent: 'a' } }, { id: 2, op: 'mine' }, { id: 3, op: 'message' });
    one.send({ id: 4, op: 'message' });
    one.send({ id: 5, op: 'mine' }, { id: 6, op: 'session.close' }, { id: 7, op: 'where' });
    await Promise.all([1, 2, 3, 4, 5, 6, 7].map((id) => one.reply(id)));
    const replies = one.lines.filter((line) => line.id !== undefined);
    expect(replies.filter((line) => line.error)).toEqual([]);
    expect(replies[0]!.id).toBe(1);
    // Each still counts for the message it came in.
    expect(at.messages[1]! - at.messages[0]!).toBe(1);
  });

  it('that is refused leaves what stands behind it without one; another may stand behind it', async () => {
    const at = await station();
    const one = await client(at);
    one.send({ id: 1, op: 'session.open', params: { agent: 7 } }, { id: 2, op: 'mine' }, { id: 3, op: 'where' });
    one.send({ id: 4, op: 'session.open', params: { agent: 'a', namespace: 'too-many' } }, { id: 5, op: 'mine' });
    one.send({ id: 6, op: 'session.open', params: { agent: 'a' } }, { id: 7, op: 'mine' });
    const replies = await Promise.all([1, 2, 3, 4, 5, 6, 7].map((id) => one.reply(id)));
    expect(replies.map(({ error }) => error?.code)).toEqual([
      'BAD_REQUEST',
      'NO_SESSION',
      undefined,
      expect.stringMatching(/^(LIMIT|CONFLICT)$/),
      'NO_SESSION',
      undefined,
      undefined,
    ]);
  });

  it('that is slow to open holds no more than may be in flight', async () => {
    const at = await station();
    const one = await client(at);
    const many = Array.from({ length: bounds.requestsMax + 10 }, (_, i) => ({ id: i + 2, op: 'mine' }));
    one.send({ id: 1, op: 'session.open', params: { agent: 'slow' } });
    for (let from = 0; from < many.length; from += 64) one.send(...many.slice(from, from + 64));
    expect((await one.reply(bounds.requestsMax + 2)).error.code).toBe('LIMIT');
    for (const release of at.released) release();
    expect((await one.reply(2)).ok).toBeDefined();
    expect((await one.reply(bounds.requestsMax)).ok).toBeDefined();
  });

  it('lost under the open socket is told, and refused by SESSION_LOST until a new one is opened', async () => {
    const at = await station();
    const one = await client(at);
    await one.call('session.open', { agent: 'a' });
    await one.call('work');
    expect(at.gateway.registry.lost('of-a', 'expired')).toBe(true);
    expect(await one.push('lost')).toEqual({ op: 'lost', kind: 'session', name: 'of-a', reason: 'expired' });
    for (const op of ['mine', 'ping', 'where', 'session.close']) {
      expect((await one.call(op)).error?.code, op).toBe('SESSION_LOST');
    }
    expect((await one.call('queue.complete', { tasks: [{ task: 't', fence: 1 }] })).ok).toEqual({ tasks: [] });
    expect((await one.call('lock.release', { grant: 'g' })).error.code).toBe('NOT_OWNER');
    expect([...at.workers.values()].map((workers) => workers.disposed)).toEqual([true]);
    expect(at.gateway.registry.bySession('of-a')).toBeUndefined();
    await one.call('session.open', { agent: 'b' });
    expect((await one.call('mine')).ok).toBeDefined();
  });

  it('opened on a newer connection closes the older one with 4409', async () => {
    const at = await station();
    const older = await client(at);
    await older.call('session.open', { agent: 'a' });
    const newer = await client(at);
    await newer.call('session.open', { agent: 'a' });
    expect((await older.closed).code).toBe(4409);
    expect(older.lines.at(-1)).toMatchObject({ op: 'closed', code: 4409 });
    await at.until(() => at.endings.length === 1);
    expect(at.endings[0]!.how).toBe('replaced');
    expect(at.gateway.registry.push('of-a', '{"op":"cancel"}')).toBe(true);
    await newer.push('cancel');
  });

  it('taken over by another daemon closes its connection here, unless that is the newer one', async () => {
    const at = await station();
    const one = await client(at);
    await one.call('session.open', { agent: 'a' });
    at.gateway.registry.replace({ id: 'of-a', binding: at.bindings });
    expect((await one.call('mine')).ok).toBeDefined();
    at.gateway.registry.replace({ id: 'of-a', binding: at.bindings + 1 });
    expect((await one.closed).code).toBe(4409);
  });
});

describe('probes', () => {
  it('tell name, code and time of every request while somebody listens', async () => {
    const at = await station();
    const one = await client(at);
    const seen: unknown[] = [];
    const take = (event: unknown) => seen.push(event);
    commandProbe.subscribe(take);
    await one.call('echo');
    await one.call('fail', { code: 'LIMIT' });
    await one.call('nonsense');
    commandProbe.unsubscribe(take);
    await one.call('echo');
    expect(seen).toMatchObject([
      { name: 'echo', code: 'ok', micros: expect.any(Number) },
      { name: 'fail', code: 'LIMIT' },
      { name: '', code: 'UNKNOWN_OP' },
    ]);
  });

  it('are not needed: a pipeline of no commands refuses every op', () => {
    expect(() => new Pipeline(new Map())).not.toThrow();
  });
});
