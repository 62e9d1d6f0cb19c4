import { parseArgs } from 'node:util';
import { App } from '../app.js';
import { loadConfig } from '../config.js';
import { createLog } from '../ops/log.js';

export async function up(): Promise<void> {
  const { values } = parseArgs({ args: process.argv.slice(3), options: { port: { type: 'string' }, 'state-dir': { type: 'string' }, 'redis-url': { type: 'string' } }, strict: false });
  const config = loadConfig({ env: process.env, flags: { port: values.port, stateDir: values['state-dir'], redisUrl: values['redis-url'] } });
  const log = createLog(config.ops.logLevel, 'd');
  const app = new App({ config, log, http: () => (_, response) => void response.end('ok') });
  process.on('SIGTERM', () => void app.stop().then(() => process.exit(0)));
  await app.start();
  const { host, port } = app.gateway.address();
  process.stdout.write(`listening ws://${host}:${port}/v1/ws ${app.store.managed?.path}\n`);
}
