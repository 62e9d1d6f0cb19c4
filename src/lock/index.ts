export { acquire } from './acquire.js';
export { break } from './break.js';
export { check } from './check.js';
export { define } from './define.js';
export { get } from './get.js';
export { list } from './list.js';
export { release } from './release.js';
