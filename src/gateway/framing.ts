/**
 * Frames of RFC 6455 as a server sends them: not masked, not fragmented, not compressed. Written here and not by ws,
 * so that everything of one flush is one buffer and one system call; legal beside ws because without compression its
 * own frames (pong, close) go straight to the same socket.
 */
const textFrame = 0x81;
const pingFrame = 0x89;

/** Most bytes a frame's header takes. */
export const headerMax = 10;

export const headerBytes = (payloadBytes: number): number => (payloadBytes < 126 ? 2 : payloadBytes < 65_536 ? 4 : 10);

/** Writes the header of a text message of `payloadBytes` into `into` at `at`; answers the index behind it. */
export function writeHeader(into: Buffer, at: number, payloadBytes: number, first = textFrame): number {
  into[at] = first;
  if (payloadBytes < 126) {
    into[at + 1] = payloadBytes;
    return at + 2;
  }
  if (payloadBytes < 65_536) {
    into[at + 1] = 126;
    into[at + 2] = payloadBytes >>> 8;
    into[at + 3] = payloadBytes & 255;
    return at + 4;
  }
  into[at + 1] = 127;
  into.writeUInt32BE(0, at + 2);
  into.writeUInt32BE(payloadBytes, at + 6);
  return at + headerMax;
}

export function textHeader(payloadBytes: number): Buffer {
  const header = Buffer.allocUnsafe(headerBytes(payloadBytes));
  writeHeader(header, 0, payloadBytes);
  return header;
}

/** Bytes of a ping frame that carries `number` in decimal, and room for it. */
export const pingBytesMax = 2 + 16;

export function writePing(into: Buffer, at: number, number: number): number {
  const digits = `${number}`;
  writeHeader(into, at, digits.length, pingFrame);
  return at + 2 + into.write(digits, at + 2, 'latin1');
}

const digitsOnly = /^[1-9][0-9]{0,15}$/;

/** The number of the ping a pong answers, 0 if it is none of ours. */
export function pongNumber(data: Buffer): number {
  if (data.length === 0 || data.length > 16) return 0;
  const text = data.toString('latin1');
  return digitsOnly.test(text) ? Number(text) : 0;
}
