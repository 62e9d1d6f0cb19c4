import { idleQueue } from './q1-idle-queue.js';
import { lostReplies } from './q3-lost-replies.js';
import { dyingStream } from './q4-dying-stream.js';
import { runScenarios } from './run.js';

runScenarios({ together: [lostReplies, dyingStream], alone: [idleQueue] });
