"""Does what the result of a handler means."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from . import text
from .backoff import Backoff, exponential
from .client import Client
from .ended import MAX_RESULT
from .errors import (
    ClosedError,
    DrainingError,
    InternalError,
    NotFoundError,
    NotKeptError,
    OutOfMemoryError,
    UnavailableError,
    UnknownOutcomeError,
    UnknownResponseError,
    UnsupportedError,
)
from .held import NotFinished, Skip, Snooze, WorkerJob
from .report import named, report, text_of

FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0  # seconds

#: After these the next attempt can succeed; everything else is refused for good.
_PASSING = (UnavailableError, UnknownOutcomeError, UnknownResponseError, InternalError, OutOfMemoryError, DrainingError)


def _encoded(value: Any) -> tuple[bytes, str]:
    """Return a result as it is sent, or nothing and why it cannot be."""
    try:
        result = bytes(value) if isinstance(value, bytes | bytearray | memoryview) else json.dumps(value, separators=(",", ":")).encode()
    except BaseException as fault:  # of a class of the user
        return b"", named(fault)
    return (result, "") if len(result) <= MAX_RESULT else (b"", f"it has {len(result)} bytes")


class Settler:
    """Deletes, releases or buries each job once."""

    def __init__(self, client: Client, backoff: Backoff) -> None:
        self.client = client  # for jobs with a lease; others belong to their own
        self.ended = False  # there is no time for further attempts
        self._backoff = backoff

    def settle(self, job: WorkerJob, error: BaseException | None, value: Any = None) -> None:
        """Do what the result of the handler means, unless the job is settled."""
        if not job.claim():
            return
        if job.cause == "deleted":
            return report(logging.INFO, "job %d was deleted before its handler returned", job.id)
        if job.cause == "lost":
            how = "it has not failed" if error is None else named(error)
            return report(logging.WARNING, "job %d was lost before its handler returned: %s", job.id, how)
        if error is not None:
            job.send_progress()
        try:
            do = self._result(job, error, value)
        except BaseException as fault:  # of a class of the user
            do = self._failure(job, fault)
        self._carry_out(job, do)

    def give_back(self, job: WorkerJob) -> None:
        """Make the job ready again, which is no failure, unless it is settled."""
        if job.claim():
            self._carry_out(job, self._return(job))

    def _result(self, job: WorkerJob, error: BaseException | None, value: Any) -> Callable[[], None]:
        """Return what the result means. User code, such as a backoff, is called here, once."""
        client = self._client_of(job)
        if error is None:
            return self._done(client, job, value)
        if isinstance(error, Skip):
            reason = text_of(error)
            report(logging.WARNING, "job %d skipped: %s", job.id, reason)
            return partial(client.bury, job.job, job.priority, reason=reason)
        if isinstance(error, Snooze):
            wait = text.delay(error.seconds)
            return partial(client.release, job.job, job.priority, wait, failure=False)
        if isinstance(error, NotFinished) or job.cause == "shutdown":
            return self._return(job)
        return self._failure(job, error)

    def _done(self, client: Client, job: WorkerJob, value: Any) -> Callable[[], None]:
        """Return what finishes the job with a result, or deletes it if nothing is kept of it."""
        if value is None:
            return partial(client.delete, job.job)
        result, fault = _encoded(value)

        def finish() -> None:
            try:
                client.finish(job.job, result)
            except (NotKeptError, UnsupportedError):
                client.delete(job.job)
            else:
                if fault:
                    report(logging.WARNING, "job %d is done without its result: %s", job.id, fault)

        return finish

    def _failure(self, job: WorkerJob, error: BaseException) -> Callable[[], None]:
        reason, client = "timeout" if job.cause == "timeout" else named(error), self._client_of(job)
        report(logging.WARNING, "job %d failed: %s", job.id, reason, error=error)
        wait = 0 if job.retries else self._wait(job)
        if wait is None:
            return partial(client.bury, job.job, job.priority, reason=reason)
        return partial(client.release, job.job, job.priority, wait, reason=reason)

    def _wait(self, job: WorkerJob) -> int | None:
        """Return what the backoff says, or the default one if it raises an exception or its result is of no use."""
        try:
            wait = self._backoff(job.failures + 1)
            return None if wait is None else text.delay(wait)
        except BaseException as fault:
            report(logging.ERROR, "the backoff of the worker has failed, so job %d waits as by default: %s", job.id, named(fault), error=fault)
            return text.delay(exponential()(job.failures + 1) or 0)

    def _return(self, job: WorkerJob) -> Callable[[], None]:
        if job.lease:
            return partial(self.client.release, job.job, job.priority, failure=False)
        return job.client.interrupt  # the job goes back with its connection

    def _client_of(self, job: WorkerJob) -> Client:
        return self.client if job.lease else job.client

    def _carry_out(self, job: WorkerJob, do: Callable[[], None]) -> None:
        """Settle the job. With a lease try again until the TTR ends, unless the server refuses for good."""
        pause = FIRST_PAUSE
        while True:
            try:
                do()
                return
            except BaseException as error:
                over = time.monotonic() > job.touched + job.ttr
                passing = isinstance(error, _PASSING)
                if not passing or not job.lease or over or self.ended:
                    level = logging.WARNING if passing or isinstance(error, ClosedError) else logging.ERROR
                    if isinstance(error, NotFoundError):  # somebody else has settled or deleted it
                        level = logging.INFO
                    report(level, "cannot settle job %d, so it may come again: %s", job.id, named(error))
                    return
            time.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)
