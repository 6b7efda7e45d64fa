/** The base of all errors of this package. */
export class RedstalkError extends Error {
  override get name(): string {
    return this.constructor.name;
  }
}

/** The server replied with an error; `code` is its first word, such as `NOT_FOUND` or `JOB_TOO_BIG`. */
export class ServerError extends RedstalkError {
  constructor(readonly code: string, command: string) {
    super(`${code} (${command})`);
  }
}

/** The job or tube does not exist, or this connection does not hold the job. */
export class NotFoundError extends ServerError {}

/** No job arrived in time. */
export class TimedOutError extends ServerError {}

/** The job has no `keep`, so that nothing is left of it at its end. */
export class NotKeptError extends ServerError {}

/** The TTR of a job that this connection holds ends within a second, so the server returned from the reserve. */
export class DeadlineSoonError extends ServerError {}

/** No server accepts puts at the moment. */
export class DrainingError extends ServerError {}

/** A put of a member of a batch that is sealed. */
export class BatchSealedError extends ServerError {}

/** A put with `onDuplicate: 'fail'` found its key taken by the job `id`. */
export class DuplicateError extends ServerError {
  constructor(readonly id: string, command: string) {
    super('DUPLICATE', command);
  }
}

/** User and secret were refused, or the user lacks the right. */
export class UnauthorizedError extends ServerError {}

/** The server lacks a feature; nothing was done. */
export class UnsupportedError extends RedstalkError {
  constructor(readonly feature: string, readonly capability: string) {
    super(`the server does not support ${feature} (capability ${capability})`);
  }
}

/** No server could be reached for `wait` milliseconds; the command was not sent. */
export class UnavailableError extends RedstalkError {}

/** The connection was lost after a command was sent: it may have been done or not. */
export class UnknownOutcomeError extends RedstalkError {}

/** The client was closed before the command was done. */
export class ClosedError extends RedstalkError {}

/** The reason of a job's `signal`: another worker may have the job. */
export class JobLostError extends RedstalkError {}

/** The reason of a job's `signal`: somebody has deleted the job, which cancels it. */
export class JobDeletedError extends JobLostError {}

/** The reason of a job's `signal`: the time of its processor is over. If that throws then, this is the failure, with what was thrown as `cause`. */
export class JobTimeoutError extends RedstalkError {
  constructor() {
    super('timeout');
  }
}

/** Thrown by a processor: the job is ready again at once, and has not failed. The next attempt begins with the last checkpoint. */
export class NotFinishedError extends RedstalkError {}

/** Thrown by a processor: the job is buried at once, without another attempt. */
export class UnrecoverableError extends RedstalkError {}

/** The job that was waited for has ended without being done: it is deleted, expired, dead, moved, or parked, as `how` says. */
export class JobFailedError extends RedstalkError {
  constructor(failedReason: string, readonly how: string) {
    super(failedReason);
  }
}

const passingCodes = ['INTERNAL_ERROR', 'OUT_OF_MEMORY', 'DRAINING'];

/** Whether a reply says that the server cannot do it at the moment. */
export function isPassingReply(error: unknown): boolean {
  return error instanceof ServerError && passingCodes.includes(error.code);
}

const classes: Record<string, typeof ServerError> = {
  NOT_FOUND: NotFoundError,
  TIMED_OUT: TimedOutError,
  NOT_KEPT: NotKeptError,
  DEADLINE_SOON: DeadlineSoonError,
  DRAINING: DrainingError,
  BATCH_SEALED: BatchSealedError,
  UNAUTHORIZED: UnauthorizedError,
  FORBIDDEN: UnauthorizedError,
};

/** The error for a reply, given by its words. */
export function errorOf(words: string[], command: string): ServerError {
  const code = words[0] ?? '';
  if (code === 'DUPLICATE') return new DuplicateError(words[1] ?? '', command);
  return new (classes[code] ?? ServerError)(code, command);
}
