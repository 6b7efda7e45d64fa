"""Jobs that a worker holds, and the threads that touch them and end their handlers."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import logging
import math
import threading
import time
from collections.abc import Callable
from typing import Any, Literal

from .call import Call
from .client import Client
from .errors import Error, NotFoundError, UnsupportedError
from .job import Job
from .protocol import Reply
from .report import named, report
from .request import Pending, Request

_SHORTEST_TTR = 1.0
_LONGEST_SLEEP = 60.0  # seconds
_BETWEEN_PROGRESS = 1.0  # seconds from one touch that sends a progress to the next, at least
_BETWEEN_LOOKS = 0.1


class Skip(Exception):
    """Raised by a handler: bury the job, for this reason."""


class Snooze(Exception):
    """Raised by a handler: deliver the job again after so many seconds, at least one. That is no failure."""

    def __init__(self, seconds: float = 1) -> None:
        super().__init__(seconds)
        self.seconds = max(seconds, 1)


class NotFinished(Exception):
    """Raised by a handler: the job is ready again at once, and goes on from its last checkpoint. That is no failure."""


#: Why a handler is to end: its job is no longer held, or was deleted; its time is over; the worker shuts down.
Cause = Literal["", "lost", "deleted", "timeout", "shutdown"]


class WorkerJob:
    """A job as a handler gets it."""

    def __init__(
        self, job: Job, client: Client, limits: Timers | None = None, beats: Timers | None = None, stopping: threading.Event | None = None
    ) -> None:  # fmt: skip
        self.id = job.id
        self.body = job.body
        self.lease = job.lease  #: a fencing token: it grows with each delivery; empty with beanstalkd
        #: Set when the handler is to end, for this cause.
        self.cancelled = threading.Event()
        self.cause: Cause = ""
        #: Set when the worker is told to stop: a handler that takes long saves a checkpoint and raises NotFinished then.
        self.stopping = stopping or threading.Event()
        self.job = job
        self.client = client  # that finishes and touches it
        self.info: dict[str, Any] = job.info
        # What the worker needs, whatever the handler does with info.
        self._tube = str(job.info.get("tube", ""))
        self._priority: int | None = job.info.get("pri")
        self._ttr = max(float(job.info.get("ttr", _SHORTEST_TTR)), _SHORTEST_TTR)
        self._retries = bool(job.info.get("retry"))
        self._failures = int(job.info.get("failures", 0))
        self._checkpoint = _delivered(job)
        self._progress: str | None = None  # that the next touch sends
        self._shown = 0.0  # when one was sent last
        self.touched = job.reserved_at  # when the TTR started, or earlier
        self.call = Call()
        self._limits, self._beats = limits, beats
        self._settled = False
        self._lock = threading.Lock()

    @property
    def tube(self) -> str:
        return self._tube

    @property
    def meta(self) -> dict[str, str]:
        """The headers of the put."""
        return dict(self.info.get("meta", {}))

    @property
    def key(self) -> str:
        """The deduplication key; empty if the job has none."""
        return str(self.info.get("key", ""))

    @property
    def trace(self) -> str:
        """The W3C traceparent of the put; empty if there is none."""
        return str(self.info.get("trace", ""))

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
        [call] = self.client.ask_all([self.touching()])
        call.value()

    def touching(self) -> Request[None]:
        """Return the command that starts the TTR again, and sends the progress."""
        sent, progress = time.monotonic(), self._progress
        if progress is not None:
            self._shown = sent
        command = self.client.touching(self.job, progress)
        read = command.read

        def touched(reply: Reply) -> None:
            read(reply)
            with self._lock:
                self.touched = max(self.touched, sent)
                if self._progress is progress:
                    self._progress = None

        command.read = touched
        return command

    def progress(self, text: str) -> None:
        """Say how far the job is, for whoever watches it: "4711/10000", "47%", or any text of up to 256 bytes.

        Call it as often as you like: it never waits, and the last text is sent about once a second, and when the handler fails. It is shown
        until the next delivery.
        """
        with self._lock:
            self._progress = str(text)
        if self._beats:
            self._beats.hasten(self, self._shown + _BETWEEN_PROGRESS)

    def send_progress(self) -> None:
        """Send the progress that is left, before the delivery ends."""
        if self._progress is not None:
            with contextlib.suppress(Error):
                self.touch()

    def checkpoint(self, value: Any) -> None:
        """Save a value as JSON, up to 64 KiB, for the next delivery of the job if this one does not end it; None removes it.

        Whatever happens to the worker or the server, that begins with it: see last_checkpoint. NotFoundError: the job is no longer held,
        nothing is saved, and the handler is told to end. UnsupportedError: the server saves no checkpoints.
        """
        data = b"" if value is None else json.dumps(value, separators=(",", ":")).encode()
        if self.cause in ("lost", "deleted"):
            raise NotFoundError("the job is no longer held")
        sent = time.monotonic()
        try:
            self.client.checkpoint(self.job, data)
        except NotFoundError:
            self.lose()
            raise
        with self._lock:
            self._checkpoint = data
            self.touched = max(self.touched, sent)

    def last_checkpoint(self) -> Any:
        """Return the value that was saved last, by this delivery or one before; None if there is none."""
        if self._checkpoint is None:
            self._checkpoint = self._asked()
        return json.loads(self._checkpoint) if self._checkpoint else None

    def _asked(self) -> bytes:
        """Ask for the checkpoint, if it did not come with the job; empty: there is none."""
        try:
            return self.client.get_checkpoint(self.id)
        except (NotFoundError, UnsupportedError):
            return b""

    async def stopped(self) -> None:
        """Wait in a coroutine until stopping is set."""
        while not self.stopping.is_set():
            await asyncio.sleep(_BETWEEN_LOOKS)

    def lose(self) -> None:
        """Make the handler of a job end that is no longer held."""
        try:
            self.client.stats_job(self.id)
            self.cancel("lost")
        except NotFoundError:
            self.cancel("deleted")
        except Error:
            self.cancel("lost")

    def set_timeout(self, seconds: float) -> None:
        """Change how long the handler can still run, from now on; 0 is no limit."""
        seconds = limit(seconds)
        if self._limits is None or self.cause:
            return
        self._limits.remove(self)
        if seconds:
            self._limits.add(self, time.monotonic() + seconds)

    def cancel(self, cause: Cause) -> None:
        """Make the handler end, unless it is to end already."""
        with self._lock:
            if self.cause:
                return
            self.cause = cause
        self.cancelled.set()
        self.call.end(cause)


def _delivered(job: Job) -> bytes | None:
    """Return the checkpoint that came with a job; empty if it has none, and None if that is not known."""
    if "checkpoint" in job.info:
        return base64.b64decode(job.info["checkpoint"])
    return b"" if job.info and "checkpoint-bytes" not in job.info else None


def limit(seconds: float) -> float:
    """Return a time that a handler can have."""
    if not 0 <= seconds < math.inf:
        raise ValueError(f"timeout {seconds!r}")
    return seconds


class Timers:
    """Calls a function with the jobs that are due, in a thread. The function returns when some of them are due again.

    Jobs can be due ``early`` by so many seconds, together with others.
    """

    def __init__(self, name: str, act: Callable[[list[WorkerJob]], dict[WorkerJob, float]], early: float = 0) -> None:
        self._due: dict[WorkerJob, float] = {}  # by time.monotonic()
        self._act, self._early = act, early
        self._next = 0.0  # when the thread wakes up
        self._changed = threading.Condition()
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def add(self, job: WorkerJob, due: float) -> None:
        with self._changed:
            self._due[job] = due
            if due < self._next:
                self._changed.notify()

    def hasten(self, job: WorkerJob, due: float) -> None:
        """Make a job due earlier, if it is due at all."""
        with self._changed:
            if due < self._due.get(job, 0.0):
                self._due[job] = due
                if due < self._next:
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
        while jobs := self._wait():
            try:
                due = self._act(jobs)
            except BaseException as error:  # this thread must go on for the other jobs
                due = {}
                for job in jobs:
                    report(logging.ERROR, "job %d is no longer looked after: %s", job.id, named(error))
                    job.cancel("lost")
            with self._changed:
                for job in jobs:
                    if job not in due:
                        self._due.pop(job, None)
                    elif job in self._due:
                        self._due[job] = min(due[job], self._due[job])

    def _wait(self) -> list[WorkerJob]:
        """Wait for the next jobs that are due; none at the end."""
        with self._changed:
            while not self._stopped:
                now = time.monotonic()
                self._next = min(self._due.values(), default=now + _LONGEST_SLEEP)
                if self._next <= now:
                    jobs = [job for job, due in self._due.items() if due <= now + self._early]
                    self._due.update(dict.fromkeys(jobs, math.inf))  # until the function has returned
                    return jobs
                self._changed.wait(min(self._next - now, _LONGEST_SLEEP))
        return []


def beat(jobs: list[WorkerJob]) -> dict[WorkerJob, float]:
    """Touch jobs, with one round trip for those that share a client. Return when to do so again, but for those that are lost."""
    by_client: dict[Client, list[WorkerJob]] = {}
    for job in jobs:
        by_client.setdefault(job.client, []).append(job)
    due = {}
    for client, some in by_client.items():
        calls = client.ask_all(job.touching() for job in some)
        due.update({job: at for job, call in zip(some, calls) if (at := _next_beat(job, call))})
    return due


def _next_beat(job: WorkerJob, touch: Pending[None]) -> float | None:
    """Return when to touch a job again; None if it is lost."""
    try:
        touch.value()
        return job.touched + job.ttr / 3
    except NotFoundError:
        if not job.settled:
            job.lose()
        return None
    except Error as error:
        report(logging.WARNING, "cannot touch job %d: %s", job.id, named(error))
        if time.monotonic() < job.touched + job.ttr:
            return min(time.monotonic() + min(job.ttr / 10, 1), job.touched + job.ttr)
        if not job.settled:
            job.cancel("lost")
        return None
