export { publish } from './publish.js';
export { read } from './read.js';
export { subscribe } from './subscribe.js';
export { unsubscribe } from './unsubscribe.js';
