import type { Line } from './line.js';
import { feedLines } from './lines/feed.js';
import { limitLines } from './lines/limit.js';
import { lockLines } from './lines/lock.js';
import { queueLines } from './lines/queue.js';

export const lines: readonly Line[] = [...queueLines, ...feedLines, ...lockLines, ...limitLines];
