import { spawn } from 'node:child_process';

/**
 * Runs a program to its end with its output on our stderr, so that stdout stays the caller's. A signal that ends the
 * set-up ends the program too: an `npm ci` that goes on alone would surprise whoever pressed Ctrl-C.
 */
export function run(program, args, { env = process.env, cwd } = {}) {
  return new Promise((resolve, reject) => {
    let child;
    let signalled;
    const pass = (name) => {
      signalled = name;
      child?.kill(name);
    };
    // Before the start: the program may be at work before spawn returns.
    process.on('SIGINT', pass);
    process.on('SIGTERM', pass);
    child = spawn(program, args, { cwd, env, stdio: ['inherit', 2, 2] });
    child.once('error', reject);
    child.once('exit', (code, signal) => {
      process.off('SIGINT', pass);
      process.off('SIGTERM', pass);
      if (signalled) process.exit(signalled === 'SIGINT' ? 130 : 143);
      if (code === 0) resolve();
      else reject(new Error(`${[program, ...args].join(' ')} ended with ${code ?? signal}`));
    });
  });
}
