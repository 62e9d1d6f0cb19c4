import { run } from './program.js';

process.exitCode = await run(process.argv.slice(2));
// Sockets on their way down may take a moment; whatever takes longer is not waited for.
setTimeout(() => process.exit(), 1500).unref();
