"""Does what the result of a handler means."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from .backoff import Backoff
from .client import Client
from .errors import ClosedError, Error, NotFoundError
from .held import Skip, Snooze, WorkerJob

log = logging.getLogger("redstalk")

FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0  # seconds


class Settler:
    """Deletes, releases or buries each job once."""

    def __init__(self, client: Client, backoff: Backoff) -> None:
        self.client = client  # for jobs with a lease; others belong to their own
        self.aborted = False  # handlers were cancelled, so their errors are no failures
        self.ended = False  # there is no time for further attempts
        self._backoff = backoff

    def settle(self, job: WorkerJob, error: BaseException | None) -> None:
        """Do what the result of the handler means, unless the job is settled."""
        self._once(job, lambda: self._result(job, error))

    def give_back(self, job: WorkerJob) -> None:
        """Make the job ready again, which is no failure, unless it is settled."""
        self._once(job, lambda: self._give_back(job))

    def _result(self, job: WorkerJob, error: BaseException | None) -> None:
        client = self.client if job.lease else job.client
        if error is None:
            client.delete(job.job)
        elif isinstance(error, Skip):
            log.warning("job %d skipped: %s", job.id, error)
            client.bury(job.job, job.info["pri"], reason=str(error))
        elif isinstance(error, Snooze):
            client.release(job.job, job.info["pri"], error.seconds, failure=False)
        elif self.aborted:
            self._give_back(job)
        else:
            self._fail(job, client, error)

    def _fail(self, job: WorkerJob, client: Client, error: BaseException) -> None:
        reason = f"{type(error).__name__}: {error}"
        log.warning("job %d failed: %s", job.id, reason, exc_info=error)
        wait = 0 if job.info.get("retry") else self._backoff(job.failures + 1)
        if wait is None:
            client.bury(job.job, job.info["pri"], reason=reason)
        else:
            client.release(job.job, job.info["pri"], wait, reason=reason)

    def _give_back(self, job: WorkerJob) -> None:
        if job.lease:
            self.client.release(job.job, job.info.get("pri"), failure=False)
        else:
            job.client.interrupt()  # the job goes back with its connection

    def _once(self, job: WorkerJob, do: Callable[[], None]) -> None:
        """Settle the job unless somebody has. With a lease try again until the TTR ends."""
        if not job.claim():
            return
        pause = FIRST_PAUSE
        while True:
            try:
                do()
                return
            except Error as error:
                over = time.monotonic() > job.touched + job.ttr
                if not job.lease or over or self.ended or isinstance(error, NotFoundError | ClosedError):
                    log.warning("cannot settle job %d, so it may come again: %s", job.id, error)
                    return
                time.sleep(pause)
                pause = min(2 * pause, LONGEST_PAUSE)
