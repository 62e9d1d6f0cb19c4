export { list } from './list.js';
export { renew } from './renew.js';
export { revoke } from './revoke.js';
