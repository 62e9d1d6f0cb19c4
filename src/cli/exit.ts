import { CommanderError } from 'commander';
import { Closed } from '../client/errors.js';
import { ConfigError } from '../config.js';
import { Refusal } from '../errors.js';

/** 75 is EX_TEMPFAIL of sysexits: nothing is wrong with the command, it should be given again later. */
export const exit = { ok: 0, failure: 1, usage: 2, busy: 75 } as const;

/** Set by an action that ends with another code than 0. */
export interface Outcome {
  code: number;
}

/** A failure the CLI itself found. `message` says what was wrong and with which value, `advice` what to do. */
export class CliError extends Error {
  override readonly name = 'CliError';
  readonly code: number;
  readonly advice: string | undefined;

  constructor(message: string, { code = exit.failure, advice }: { code?: number; advice?: string } = {}) {
    super(message);
    this.code = code;
    this.advice = advice;
  }
}

export const wrongUsage = (message: string, advice?: string): CliError =>
  new CliError(message, { code: exit.usage, ...(advice === undefined ? {} : { advice }) });

/** What is printed of an error, and the exit code it ends with. */
export interface Failure {
  readonly exit: number;
  readonly message: string;
  readonly advice?: string;
  /** The refusal as the daemon sent it. */
  readonly error?: object;
  /** Somebody has printed it already. */
  readonly silent?: boolean;
}

export function failureOf(error: unknown): Failure {
  if (error instanceof CommanderError)
    return { exit: error.exitCode === 0 ? exit.ok : exit.usage, message: '', silent: true };
  if (error instanceof CliError) {
    return {
      exit: error.code,
      message: error.message,
      ...(error.advice === undefined ? {} : { advice: error.advice }),
    };
  }
  if (error instanceof ConfigError) {
    const advice = '`signalbox config docs` lists every setting';
    return {
      exit: exit.failure,
      message: `the configuration is wrong:\n  ${error.message.replaceAll('\n', '\n  ')}`,
      advice,
    };
  }
  if (error instanceof Refusal) return ofRefusal(error);
  if (error instanceof Closed) return ofClosed(error);
  return { exit: exit.failure, message: error instanceof Error ? error.message : String(error) };
}

function ofRefusal(refusal: Refusal): Failure {
  const { code, message, retry, path, afterMs, details } = refusal;
  const about = path === undefined ? '' : ` (${path})`;
  const more = details === undefined ? '' : ` ${JSON.stringify(details)}`;
  const failure = { message: `${code}: ${message}${about}${more}`, error: refusal.toWire() };
  if (code === 'BAD_REQUEST' || code === 'UNKNOWN_OP') return { ...failure, exit: exit.usage };
  if (code === 'UNAUTHENTICATED') return { ...failure, exit: exit.failure, advice: tokenAdvice };
  // INTERNAL is worth another try, but nothing to wait for.
  if (!retry || code === 'INTERNAL') return { ...failure, exit: exit.failure };
  return { ...failure, exit: exit.busy, advice: `try again${afterMs === undefined ? ' later' : ` in ${afterMs} ms`}` };
}

const tokenAdvice = 'give the token of the daemon by --token or $SIGNALBOX_TOKEN';

function ofClosed({ code, message }: Closed): Failure {
  if (code === 1012 || code === 1013) return { exit: exit.busy, message, advice: 'try again later' };
  if (code === 4401) return { exit: exit.failure, message, advice: tokenAdvice };
  return { exit: exit.failure, message };
}
