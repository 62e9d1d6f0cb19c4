import { Refusal } from '../errors.js';
import { defineCommand } from '../protocol/command.js';
import { lua } from '../redis/script.js';
import { BulkParams, BulkResult, runBulk } from './purge.js';

const script = lua(import.meta.url, './redrive.lua', ['queue', 'set', 'kind', 'tenant', 'cursor', 'kindsMax']);

export const redrive = defineCommand({
  name: 'queue.redrive',
  about: 'Bring dead and expired tasks back with attempts at 0, by id or a page by filter; go on with the cursor.',
  allowed: 'session',
  params: BulkParams,
  result: BulkResult,
  fails: ['KEY_CONFLICT', 'LIMIT', 'CONFLICT', 'NOT_FOUND', 'INVALID', 'BAD_REQUEST'],
  run: (params, { namespace, config }) => {
    if (params.state && params.state !== 'dead' && params.state !== 'expired') {
      throw new Refusal('INVALID', `only dead and expired tasks are redriven, not ${params.state}`);
    }
    const sets = params.state ? [params.state] : ['dead', 'expired'];
    return runBulk(script, params, sets, namespace, [config.queue.kindsMax]);
  },
});
