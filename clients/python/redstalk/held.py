"""Jobs that a worker holds, and the thread that touches them."""

from __future__ import annotations

import logging
import threading
import time
from typing import Any

from .client import Client
from .errors import Error, NotFoundError
from .job import Job
from .report import named, report

_SHORTEST_TTR = 1.0
_LONGEST_SLEEP = 60.0  # seconds


class Skip(Exception):
    """Raised by a handler: bury the job, for this reason."""


class Snooze(Exception):
    """Raised by a handler: deliver the job again after so many seconds, at least one. That is no failure."""

    def __init__(self, seconds: float = 1) -> None:
        super().__init__(seconds)
        self.seconds = max(seconds, 1)


class WorkerJob:
    """A job as a handler gets it."""

    def __init__(self, job: Job, client: Client) -> None:
        self.id = job.id
        self.body = job.body
        self.lease = job.lease  #: a fencing token: it grows with each delivery; empty with beanstalkd
        #: Set when the job is no longer held, or at the end of a shutdown: stop working on it.
        self.cancelled = threading.Event()
        self.job = job
        self.client = client  # that finishes and touches it
        self.info: dict[str, Any] = job.info
        # What the worker needs, whatever the handler does with info.
        self._priority: int | None = job.info.get("pri")
        self._ttr = max(float(job.info.get("ttr", _SHORTEST_TTR)), _SHORTEST_TTR)
        self._retries = bool(job.info.get("retry"))
        self._failures = int(job.info.get("failures", 0))
        self.touched = job.reserved_at  # when the TTR started, or earlier
        self.lost = False
        self._settled = False
        self._lock = threading.Lock()

    @property
    def tube(self) -> str:
        return str(self.info["tube"])

    @property
    def meta(self) -> dict[str, str]:
        """The headers of the put."""
        return dict(self.info.get("meta", {}))

    @property
    def reason(self) -> str:
        """Why the job failed the last time; empty if it has not, or with beanstalkd."""
        return str(self.info.get("reason", ""))

    @property
    def failures(self) -> int:
        """How often the job has failed before."""
        return self._failures

    @property
    def ttr(self) -> float:
        return self._ttr

    @property
    def priority(self) -> int | None:
        """The priority; None if the server has not said it."""
        return self._priority

    @property
    def retries(self) -> bool:
        """Whether the server has waits for the time after a failure."""
        return self._retries

    @property
    def settled(self) -> bool:
        return self._settled

    def claim(self) -> bool:
        """Report whether the caller is to settle the job: the first one is."""
        with self._lock:
            first = not self._settled
            self._settled = True
            return first

    def touch(self) -> None:
        """Start the TTR again. A worker does that by itself."""
        sent = time.monotonic()
        self.client.touch(self.job)
        self.touched = sent

    def lose(self) -> None:
        self.lost = True
        self.cancelled.set()


class Heartbeats:
    """Touches jobs at a third of their TTR, in a thread."""

    def __init__(self) -> None:
        self._due: dict[WorkerJob, float] = {}  # by time.monotonic()
        self._next = 0.0  # when the thread wakes up
        self._changed = threading.Condition()
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name="redstalk-heartbeats", daemon=True)
        self._thread.start()

    def add(self, job: WorkerJob) -> None:
        with self._changed:
            self._due[job] = job.touched + job.ttr / 3
            if self._due[job] < self._next:
                self._changed.notify()

    def remove(self, job: WorkerJob) -> None:
        with self._changed:
            self._due.pop(job, None)

    def stop(self) -> None:
        with self._changed:
            self._stopped = True
            self._changed.notify()
        self._thread.join()

    def _run(self) -> None:
        while job := self._wait():
            try:
                due = self._beat(job)
            except BaseException as error:  # this thread must go on for the other jobs
                report(logging.ERROR, "job %d is touched no more: %s", job.id, named(error))
                due = None
                job.lose()
            with self._changed:
                if due is None:
                    self._due.pop(job, None)
                elif job in self._due:
                    self._due[job] = due

    def _wait(self) -> WorkerJob | None:
        """Wait for the next job that is due; None at the end."""
        with self._changed:
            while not self._stopped:
                job = min(self._due, key=self._due.__getitem__, default=None)
                wait = self._due[job] - time.monotonic() if job else _LONGEST_SLEEP
                if wait <= 0:
                    return job
                self._next = time.monotonic() + wait
                self._changed.wait(wait)
        return None

    def _beat(self, job: WorkerJob) -> float | None:
        """Touch a job and return when to do so again; None if it is lost."""
        try:
            job.touch()
            return job.touched + job.ttr / 3
        except NotFoundError:
            lost = True
        except Error as error:
            report(logging.WARNING, "cannot touch job %d: %s", job.id, named(error))
            lost = time.monotonic() >= job.touched + job.ttr
        if lost and not job.settled:
            job.lose()
        return None if lost else min(time.monotonic() + min(job.ttr / 10, 1), job.touched + job.ttr)
