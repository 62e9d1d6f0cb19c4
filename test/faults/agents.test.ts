import { expect, test } from 'vitest';
import { dyingAgents } from './a12-dying-agents.js';
import { poison } from './a14-poison.js';
import { crashingDaemons } from './crash-daemons.js';

test.each([dyingAgents, poison, crashingDaemons])(
  '$id $title',
  async ({ id, short }) => {
    const measured = await short();
    expect(measured).toMatch(/\S/);
    console.log(`${id}: ${measured}`);
  },
  90_000,
);
