import { createInterface } from 'node:readline';
import { WebSocket } from 'ws';

/**
 * An agent's process, seen from outside: it owns a socket, answers pings, and passes lines between it and its parent.
 * Frozen with SIGSTOP it reads nothing and answers nothing; killed, the kernel closes its socket.
 */
let socket;
const say = (of, text) => process.stdout.write(`${of} ${text}\n`);

function open(own, url) {
  socket?.terminate();
  const mine = new WebSocket(url, 'signalbox.v1', { handshakeTimeout: 3000 });
  socket = mine;
  mine.on('open', () => say(own, 'open'));
  mine.on('message', (data) => {
    for (const line of String(data).split('\n')) say(own, `line ${line}`);
  });
  mine.on('close', (code, reason) => say(own, `closed ${code} ${String(reason)}`));
  mine.on('error', () => undefined);
}

createInterface({ input: process.stdin })
  .on('line', (text) => {
    const space = text.indexOf(' ');
    const word = text.slice(0, space);
    const rest = text.slice(space + 1);
    if (word === 'connect') open(...rest.split(' '));
    else if (word === 'send' && socket?.readyState === WebSocket.OPEN) socket.send(rest);
    else if (word === 'cut') socket?.terminate();
    else if (word === 'close') socket?.close(1000);
  })
  .on('close', () => process.exit(0));
