import { expect, test } from 'vitest';
import { hardDeath } from './f4-hard-death.js';
import { lostHistory } from './f8-lost-history.js';
import { deafReader } from './f11-deaf-reader.js';
import { redisOutage } from './f12-redis-outage.js';
import { silentLink } from './f14-silent-link.js';
import { slowSubscriber } from './f22-slow-subscriber.js';
import { stoppedReader } from './f26-stopped-reader.js';

test.each([hardDeath, lostHistory, deafReader, redisOutage, silentLink, slowSubscriber, stoppedReader])(
  '$id $title',
  async ({ id, short }) => {
    const measured = await short();
    expect(measured).toMatch(/\S/);
    console.log(`${id}: ${measured}`);
  },
  90_000,
);
