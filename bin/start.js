import { becomeCli } from './cli.js';

await becomeCli('up');
