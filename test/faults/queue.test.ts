import { expect, test } from 'vitest';
import { idleQueue } from './q1-idle-queue.js';
import { lostReplies } from './q3-lost-replies.js';
import { dyingStream } from './q4-dying-stream.js';

test.each([idleQueue, lostReplies, dyingStream])(
  '$id $title',
  async ({ id, short }) => {
    const measured = await short();
    expect(measured).toMatch(/\S/);
    console.log(`${id}: ${measured}`);
  },
  60_000,
);
