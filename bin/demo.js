import { becomeCli } from './cli.js';

await becomeCli('demo');
