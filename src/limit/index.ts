export { define } from './define.js';
export { get } from './get.js';
export { list } from './list.js';
export { observe } from './observe.js';
export { penalize } from './penalize.js';
export { report } from './report.js';
export { reserve } from './reserve.js';
export { settle } from './settle.js';
