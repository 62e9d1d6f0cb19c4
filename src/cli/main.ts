import { up } from './up.js';

void up();
