import { expect, test } from 'vitest';
import type { Case } from './scenario.js';

/** The longest that one scenario takes on a busy machine. */
const limitMs = 90_000;

async function run({ id, short }: Case): Promise<void> {
  const measured = await short();
  expect(measured).toMatch(/\S/);
  console.log(`${id}: ${measured}`);
}

/**
 * Scenarios as tests, each on a stage of its own. `together`: those that wait for most of their time run side by side; the
 * others hold delays or amounts against a bound, and have nothing of ours beside them.
 */
export function runScenarios({ together, alone }: { together: readonly Case[]; alone: readonly Case[] }): void {
  test.concurrent.each(together)('$id $title', run, limitMs);
  test.each(alone)('$id $title', run, limitMs);
}
