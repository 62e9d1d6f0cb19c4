export { begin } from './begin.js';
export { fail } from './fail.js';
export { finish } from './finish.js';
export { get } from './get.js';
