import { sharedLimit } from './a1-shared-limit.js';
import { overload } from './a25-overload.js';
import { deadWaiters } from './l18-dead-waiters.js';
import { closeCall } from './l19-close-call.js';
import { runScenarios } from './run.js';

runScenarios({ together: [], alone: [sharedLimit, deadWaiters, closeCall, overload] });
