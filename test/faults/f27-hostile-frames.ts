import { randomBytes } from 'node:crypto';
import { connect, type Socket } from 'node:net';
import { check, scenario } from './scenario.js';
import { onStage, rssOf, sleep } from './support.js';

interface Lengths {
  /** Random inputs beside the ones with a name. */
  readonly random: number;
  readonly fragments: number;
}

function header(bytes: number, { opcode = 1, fin = true, masked = true, rsv = 0 } = {}): Buffer {
  const first = (fin ? 0x80 : 0) | (rsv << 4) | opcode;
  const mask = masked ? 0x80 : 0;
  if (bytes < 126) return Buffer.from([first, mask | bytes]);
  if (bytes < 65_536) return Buffer.from([first, mask | 126, bytes >> 8, bytes & 255]);
  const long = Buffer.alloc(10);
  long[0] = first;
  long[1] = mask | 127;
  long.writeBigUInt64BE(BigInt(bytes), 2);
  return long;
}
const frame = (body: string | Buffer, options: Parameters<typeof header>[1] = {}): Buffer => {
  const bytes = Buffer.from(body);
  // A mask of zeros leaves the bytes as they are.
  const key = options.masked === false ? Buffer.alloc(0) : Buffer.alloc(4);
  return Buffer.concat([header(bytes.length, options), key, bytes]);
};
const closeFrame = (code: number): Buffer => frame(Buffer.from([code >> 8, code & 255]), { opcode: 8 });

/** Inputs with a story; each is sent to a socket of its own, before and after a session was opened there. */
function inputs({ fragments }: Lengths): [string, Buffer][] {
  const tiny = Buffer.concat(
    Array.from({ length: fragments }, (_, i) => frame('x', { opcode: i === 0 ? 1 : 0, fin: false })),
  );
  const deep = `${'['.repeat(100_000)}${']'.repeat(100_000)}`;
  const call = (params: string): string => `{"id":9,"op":"queue.enqueue","params":${params}}`;
  const texts = [
    '',
    '{}',
    '[]',
    'null',
    '"x"',
    '1',
    'not json',
    deep,
    '{"id":1e999}',
    '{"id":1,"op":"__proto__","params":{}}',
    '{"__proto__":{"id":1},"op":"ping"}',
    '{"id":-1,"op":"ping"}',
    '{"id":1,"op":"ping","params":[]}',
    call('{"queue":"\\u0000","tasks":[]}'),
    call('{"queue":"q","tasks":[{"payload":1,"__proto__":{"x":1}}]}'),
    call(`{"queue":"q","tasks":[{"payload":${'[1,'.repeat(40)}1${']'.repeat(40)}}]}`),
    '{"id":1,"op":"constructor"}',
    '{"id":1}'.repeat(100),
  ];
  return [
    ['an unmasked frame', frame('{}', { masked: false })],
    ['reserved bits', frame('{}', { rsv: 7 })],
    ['a reserved opcode', frame('{}', { opcode: 3 })],
    ['close code 1006', closeFrame(1006)],
    ['close code 0', closeFrame(0)],
    ['invalid UTF-8', frame(Buffer.from([0xc3, 0x28, 0xff]))],
    ['a header that announces 1 GiB', header(1 << 30)],
    ['a long control frame', frame(Buffer.alloc(200), { opcode: 9 })],
    ['a continuation of nothing', frame('x', { opcode: 0 })],
    [`${fragments} fragments that never end`, tiny],
    ['a binary message', frame('{"id":1,"op":"ping"}', { opcode: 2 })],
    [
      '10,000 subscriptions',
      frame(
        Array.from(
          { length: 60 },
          (_, i) => `{"id":${i + 10},"op":"feed.subscribe","params":{"types":["a.${i}"]}}`,
        ).join('\n'),
      ),
    ],
    ['a line of 2 MiB', frame('x'.repeat(2 * 1024 * 1024))],
    ...texts.map((text): [string, Buffer] => [text.slice(0, 40), frame(text)]),
  ];
}

function random(): Buffer {
  const bytes = randomBytes(Math.floor(Math.random() ** 3 * 4000));
  return Math.random() < 0.5
    ? bytes
    : frame(bytes, { opcode: Math.random() < 0.8 ? 1 : Math.floor(Math.random() * 16) });
}

/** A socket that has been upgraded, and has a session if asked for. */
async function upgraded(port: number, session: boolean): Promise<Socket> {
  const socket = connect(port, '127.0.0.1');
  socket.on('error', () => undefined);
  socket.write(
    `GET /v1/ws HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: ${randomBytes(16).toString('base64')}\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: signalbox.v1\r\n\r\n`,
  );
  let text = '';
  const wanted = session ? '"resumed":false' : '"op":"hello"';
  await new Promise<void>((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error(`no ${wanted} on a fresh socket: ${text.slice(-300)}`)), 10_000);
    socket.on('data', (data) => {
      const before = text.includes('"op":"hello"');
      text = `${text}${data}`.slice(-5000);
      if (session && !before && text.includes('"op":"hello"'))
        socket.write(frame('{"id":1,"op":"session.open","params":{"agent":"hostile"}}'));
      if (!text.includes(wanted)) return;
      clearTimeout(timer);
      resolve();
    });
  });
  return socket;
}

export const hostileFrames = scenario<Lengths>({
  id: 'F27',
  title:
    'bad bytes, frames and JSON before and after session.open: the same process, its memory, and a healthy neighbour',
  short: { random: 150, fragments: 20_000 },
  full: { random: 100_000, fragments: 200_000 },
  run: (lengths) =>
    onStage(async ({ daemon }) => {
      const one = await daemon();
      const port = Number(new URL(one.url).port);
      const neighbour = await one.session({ agent: 'neighbour', ttlMs: 5000 });
      let slowest = 0;
      let healthy = true;
      const beat = (async () => {
        while (healthy) {
          const from = performance.now();
          await neighbour.call('ping');
          slowest = Math.max(slowest, performance.now() - from);
          await sleep(20);
        }
      })();
      const throwAt = async (bytes: Buffer, session: boolean): Promise<void> => {
        const socket = await upgraded(port, session);
        socket.write(bytes);
        await Promise.race([new Promise((resolve) => socket.once('close', resolve)), sleep(40)]);
        socket.destroy();
      };
      const named = inputs(lengths);
      for (const session of [false, true]) for (const [, bytes] of named) await throwAt(bytes, session);
      await sleep(500);
      const rest = rssOf(one.pid);
      for (let i = 0; i < lengths.random; i += 10) {
        await Promise.all(Array.from({ length: 10 }, (_, k) => throwAt(random(), (i + k) % 2 === 0)));
      }
      await sleep(1500);
      healthy = false;
      await beat;
      check(one.process.exitCode === null, `the daemon ended:\n${one.output()}`);
      const grown = Math.round((rssOf(one.pid) - rest) / 1024 / 1024);
      check(grown < 60, `the daemon grew by ${grown} MiB`);
      check(slowest < 1000, `the neighbour waited ${Math.round(slowest)} ms for a ping`);
      check(!/TypeError|RangeError|"msg":"a fault"/.test(one.output()), `a fault:\n${one.output().slice(-1500)}`);
      return `${2 * named.length + lengths.random} hostile inputs, same process, ${grown} MiB more, slowest ping of the neighbour ${Math.round(slowest)} ms`;
    }),
});
