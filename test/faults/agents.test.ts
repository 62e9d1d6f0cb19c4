import { dyingAgents } from './a12-dying-agents.js';
import { poison } from './a14-poison.js';
import { crashingDaemons } from './crash-daemons.js';
import { runScenarios } from './run.js';

runScenarios({ together: [dyingAgents, poison], alone: [crashingDaemons] });
