import { expect, test } from 'vitest';
import type { Pressure, Signalbox } from '../../src/client/index.js';
import { client, queue, useDaemon } from './real.js';

useDaemon();

const bounds = { low: 2, high: 400, critical: 900, minRate: 0, delayPerTaskMs: 300, delayMaxMs: 300 };

async function admitted(sb: Signalbox): Promise<string> {
  const name = queue();
  await sb.queue.configure({ queue: name, admission: bounds });
  return name;
}

test('R12: a producer slows itself by the advised delay: one request a delay, however many ask meanwhile', async () => {
  const told: Pressure[] = [];
  const sb = await client({ onPressure: (pressure) => told.push(pressure) });
  const name = await admitted(sb);
  const times: number[] = [];
  const put = async (): Promise<void> => {
    await sb.enqueue(name, times.length);
    times.push(performance.now());
  };
  for (let i = 0; i < 5; i++) await put();
  // The second one brought level 1: from there on each waits.
  const gaps = times.slice(1).map((at, i) => at - times[i]!);
  expect(gaps[0]).toBeLessThan(250);
  for (const gap of gaps.slice(1)) expect(gap).toBeGreaterThanOrEqual(295);
  expect(told[0]).toMatchObject({ queue: name, level: 1, delayMs: 300 });

  // A hundred at once are one request more.
  const from = performance.now();
  await Promise.all(Array.from({ length: 100 }, () => sb.enqueue(name, 1)));
  expect(performance.now() - from).toBeGreaterThanOrEqual(250);
  expect(performance.now() - from).toBeLessThan(2000);
  // Other queues are not slowed.
  const other = queue();
  const before = performance.now();
  for (let i = 0; i < 5; i++) await sb.enqueue(other, i);
  expect(performance.now() - before).toBeLessThan(290);
});

test('pressure that another producer brought slows it too, and its end sets it free at once', async () => {
  let calm: () => void = () => {};
  const isCalm = new Promise<void>((resolve) => {
    calm = resolve;
  });
  let pressed: () => void = () => {};
  const isPressed = new Promise<void>((resolve) => {
    pressed = resolve;
  });
  const sb = await client({ onPressure: ({ level }) => (level > 0 ? pressed() : calm()) });
  const other = await client({ agent: 'other' });
  const name = queue();
  await sb.queue.configure({ queue: name, admission: { ...bounds, delayPerTaskMs: 60_000, delayMaxMs: 60_000 } });
  await sb.enqueue(name, 1);
  await other.enqueue(name, 2);
  await isPressed;
  let isThrough = false;
  const waiting = sb.enqueue(name, 3).then(() => {
    isThrough = true;
  });
  await sb.ping();
  await other.queue.purge({ queue: name });
  expect(isThrough).toBe(false);
  await isCalm;
  await waiting;
});

test('a call by hand is not slowed, and what it hears slows the rest', async () => {
  const sb = await client();
  const name = await admitted(sb);
  const from = performance.now();
  for (let i = 0; i < 5; i++) await sb.queue.enqueue({ queue: name, tasks: [{ payload: i }] });
  expect(performance.now() - from).toBeLessThan(290);
  await sb.enqueue(name, 1);
  expect(performance.now() - from).toBeGreaterThanOrEqual(295);
});
