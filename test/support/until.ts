import { setTimeout as wait } from 'node:timers/promises';

/** Waits for a moment that announces itself nowhere (a process that is gone, a file). Fails with what it waited for. */
export async function until(happened: () => unknown | Promise<unknown>, limitMs = 15_000): Promise<void> {
  const deadline = performance.now() + limitMs;
  while (!(await happened())) {
    if (performance.now() > deadline) throw new Error(`not within ${limitMs} ms: ${happened}`);
    await wait(10);
  }
}
