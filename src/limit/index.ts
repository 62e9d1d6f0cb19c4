export { define } from './define.js';
export { get } from './get.js';
export { list } from './list.js';
export { reserve } from './reserve.js';
export { settle } from './settle.js';
