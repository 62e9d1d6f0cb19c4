import { pino } from 'pino';

/** What the rest of the program may say. Payloads, results and tokens are never among the fields. */
export interface Log {
  debug(fields: object, message: string): void;
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  error(fields: object, message: string): void;
}

/** JSON lines on standard error: standard output belongs to the banner and to the CLI's answers. */
export function createLog(level: string, daemon: string): Log {
  return pino(
    { level, base: { daemon }, timestamp: pino.stdTimeFunctions.isoTime },
    pino.destination({ dest: 2, sync: false }),
  );
}
