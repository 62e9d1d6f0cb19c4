import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

/**
 * `npm start` as a user does it: it comes up, takes a PUBLISH from a service that knows only Redis, comes up again
 * quickly with what it had, and a signal to npm ends everything it started. Writes its counts to the file it is given.
 */
const root = fileURLToPath(new URL('..', import.meta.url));
const state = join(mkdtempSync(join(tmpdir(), 'sb-smoke-')), 'state dir');
const result = { passed: 0, failed: 0 };
const mine = new Set();

function check(holds, what) {
  result[holds ? 'passed' : 'failed'] += 1;
  console.log(`${holds ? 'ok' : 'NOT OK'} - ${what}`);
}

async function until(happened, what, limitMs = 30_000) {
  const deadline = Date.now() + limitMs;
  for (;;) {
    const value = await happened();
    if (value) return value;
    if (Date.now() > deadline) throw new Error(`not within ${limitMs / 1000} s: ${what}`);
    await wait(20);
  }
}

async function freePort() {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address();
  server.close();
  await once(server, 'close');
  return port;
}

const port = await freePort();
const env = { ...process.env, SIGNALBOX_PORT: String(port), SIGNALBOX_STATE_DIR: state };
delete env.REDIS_URL;

function statusOf(path) {
  return fetch(`http://127.0.0.1:${port}${path}`, { signal: AbortSignal.timeout(2000) }).then(
    async (response) => {
      await response.arrayBuffer();
      return response.status;
    },
    () => 0,
  );
}

/** pid and start time of a process and everything below it. */
function tree(top) {
  const rows = readdirSync('/proc').flatMap((pid) => processRow(pid) ?? []);
  const found = rows.filter(({ pid }) => pid === top);
  for (const { pid } of found) found.push(...rows.filter(({ parent }) => parent === pid));
  return found;
}

function processRow(pid) {
  try {
    const stat = readFileSync(`/proc/${Number(pid)}/stat`, 'utf8');
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    return fields[0] === 'Z' ? undefined : { pid: Number(pid), parent: Number(fields[1]), started: fields[19] };
  } catch {
    return undefined;
  }
}

const runs = ({ pid, started }) => processRow(pid)?.started === started;

async function start() {
  const since = Date.now();
  const npm = spawn('npm', ['start'], { cwd: root, env, detached: true, stdio: ['ignore', 'pipe', 'pipe'] });
  let output = '';
  for (const stream of [npm.stdout, npm.stderr]) stream.on('data', (data) => (output += data));
  const exited = once(npm, 'exit');
  try {
    await until(async () => npm.exitCode !== null || (await statusOf('/healthz')) === 200, 'healthz answers', 120_000);
    if (npm.exitCode !== null) throw new Error('npm start ended');
  } catch (error) {
    console.log(output);
    for (const row of tree(npm.pid)) mine.add(row);
    throw error;
  }
  const tookMs = Date.now() - since;
  const redis = JSON.parse(readFileSync(join(state, 'redis.json'), 'utf8')).pid;
  const rows = [...tree(npm.pid), ...tree(redis)];
  for (const row of rows) mine.add(row);
  return { npm, exited, tookMs, rows, redis, output: () => output };
}

async function watch(from) {
  const { WebSocket } = await import('ws');
  const socket = new WebSocket(`ws://127.0.0.1:${port}/v1/ws`, 'signalbox.v1');
  const lines = [];
  socket.on('message', (message) => {
    for (const line of String(message).split('\n')) if (line !== '') lines.push(JSON.parse(line));
  });
  await once(socket, 'open');
  socket.send(JSON.stringify({ id: 1, op: 'feed.subscribe', params: { types: ['deploy.finished'], from } }));
  const reply = await until(() => lines.find(({ id }) => id === 1), 'the reply to feed.subscribe');
  check(reply.ok !== undefined, `feed.subscribe from ${from}`);
  const event = () => until(() => lines.find(({ op }) => op === 'event'), 'the event');
  return { event, close: () => socket.terminate() };
}

/** Sends the signal and answers npm's exit code when everything that was started is gone. */
async function ended({ exited, rows, output }, send, how) {
  send();
  const limit = wait(30_000, ['not within 30 s']);
  const [code] = await Promise.race([exited, limit]);
  await until(() => !rows.some(runs), 'every process ends', 10_000).catch(() => {});
  const left = rows.filter(runs).map(({ pid }) => pid);
  if (code !== 0 || left.length > 0) console.log(output());
  check(left.length === 0, `${how} leaves no process${left.length > 0 ? ` (left: ${left.join(' ')})` : ''}`);
  return code;
}

try {
  const first = await start();
  check(true, `npm start comes up, healthz answers (${first.tookMs} ms)`);
  check((await statusOf('/readyz')) === 200, 'readyz answers 200');
  check(processRow(first.redis) !== undefined, 'the managed Redis runs');
  const watcher = await watch('new');
  const line = ['redis-cli', '--', 'PUBLISH', 'signalbox:default:deploy.finished', '{"version":"1.2"}'];
  await promisify(execFile)(process.execPath, [join(root, 'bin', 'signalbox.js'), ...line], { env, cwd: tmpdir() });
  const { event } = await watcher.event();
  check(event.data?.version === '1.2', 'a PUBLISH through signalbox redis-cli arrives in the feed');
  watcher.close();
  const code = await ended(first, () => first.npm.kill('SIGTERM'), 'SIGTERM to npm');
  check(code === 0, `and npm ends with 0 (${code})`);

  const second = await start();
  check(second.tookMs < 3000, `the second start takes less than 3 s (${second.tookMs} ms)`);
  const reader = await watch('all');
  check((await reader.event()).event.id === event.id, 'and still has the event');
  reader.close();
  await ended(second, () => process.kill(-second.npm.pid, 'SIGINT'), 'Ctrl-C');
} catch (error) {
  check(false, error.message);
} finally {
  // Only what was started here, and only while it is still that process.
  for (const row of mine) if (runs(row)) process.kill(row.pid, 'SIGKILL');
  rmSync(join(state, '..'), { recursive: true, force: true });
  if (process.argv[2]) writeFileSync(process.argv[2], JSON.stringify(result));
}
process.exit(result.failed === 0 ? 0 : 1);
