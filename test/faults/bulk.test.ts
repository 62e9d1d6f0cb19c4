import { hostileFrames } from './f27-hostile-frames.js';
import { bigVerbs } from './q28-big-verbs.js';
import { leaks } from './q29-leaks.js';
import { runScenarios } from './run.js';

runScenarios({ together: [], alone: [bigVerbs, leaks, hostileFrames] });
