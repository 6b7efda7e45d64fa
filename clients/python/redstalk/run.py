"""One run of a worker: the threads that fetch and handle jobs, and the shutdown."""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import queue
import random
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, NoReturn

from .backoff import Backoff
from .call import HandlerTimeout
from .client import Client
from .errors import ClosedError, Error, NotFoundError, TimedOutError
from .held import Timers, WorkerJob, beat
from .job import Job
from .operations import MAX_BATCH
from .report import named, report
from .settler import FIRST_PAUSE, LONGEST_PAUSE, Settler

Handler = Callable[[WorkerJob], Any]

_TAKE_WAIT = 5  # seconds that a reserve waits
_LAST_SECOND = 1.0  # for handlers after they were cancelled at shutdown
_GRACE = 10.0  # seconds for handlers after their time is over
_EARLY = 0.1  # seconds by which a heartbeat can be early, so that many go out together


class Run:
    """One call of Worker.run."""

    def __init__(
        self, connect: Callable[[], Client], handler: Handler, tubes: dict[str, int], concurrency: int,
        backoff: Backoff, timeout: float, shutdown_timeout: float, signals: queue.SimpleQueue[int],
    ) -> None:  # fmt: skip
        self.connect, self.handler, self.tubes, self.concurrency = connect, handler, tubes, concurrency
        self.timeout, self.shutdown_timeout, self.signals = timeout, shutdown_timeout, signals
        self.settler = Settler(connect(), backoff)
        self.toucher = connect()  # touches jobs with a lease
        self.fetchers: list[Client] = []
        self.jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self.free = threading.Semaphore(concurrency)
        self.held: set[WorkerJob] = set()
        self.waiting: set[Client] = set()  # in a reserve, which is to be interrupted at shutdown
        self.lock = threading.Lock()
        self.stopping = threading.Event()
        self.threads: list[threading.Thread] = []
        self.fault: BaseException | None = None  # of a thread, without which the worker cannot work
        self.beats = Timers("redstalk-heartbeats", beat, early=_EARLY)
        self.limits = Timers("redstalk-timeouts", self._times_over)

    def serve(self) -> int:
        starter = self._thread(self._start)
        try:
            self._await_signal()
        finally:
            self._stop_fetching()
        starter.join()
        left = self._shutdown()
        self.settler.ended = True
        self.beats.stop()
        self.limits.stop()
        for client in [*self.fetchers, self.settler.client, self.toucher]:
            client.interrupt()
        if self.fault is not None:
            raise self.fault
        return left

    def _stop_fetching(self) -> None:
        self.stopping.set()
        with self.lock:
            waiting = list(self.waiting)
        for client in waiting:
            client.interrupt()

    def _await_signal(self) -> None:
        while True:
            try:
                self.signals.get(timeout=1)  # the handler runs late if the signal came to another thread
                return
            except queue.Empty:
                continue

    def _thread(self, target: Callable[[], None]) -> threading.Thread:
        thread = threading.Thread(target=self._guarded, args=(target,), daemon=True)
        thread.start()
        return thread

    def _guarded(self, target: Callable[[], None]) -> None:
        """Call the target, and end the run if that raises an exception."""
        try:
            target()
        except BaseException as error:
            self.fault = error if self.fault is None else self.fault
            if not self.stopping.is_set():
                self.signals.put(0)

    def _start(self) -> None:
        """Start the threads: with leases one that fetches for all handlers, else one for each."""
        pause = FIRST_PAUSE
        while not self.stopping.is_set():
            try:
                self.settler.client.capabilities()
                break
            except Error as error:
                pause = self._pause(error, pause)
        leases = self.settler.client.leases
        for _ in range(1 if leases else self.concurrency):
            client = self.connect()
            self.fetchers.append(client)
            self.threads.append(self._thread(functools.partial(self._fetch, client, leases)))
        if leases:
            self.threads += [self._thread(self._handle_queue) for _ in range(self.concurrency)]

    def _pause(self, error: Exception, pause: float) -> float:
        if not self.stopping.is_set():
            report(logging.WARNING, "no jobs can be fetched: %s", error)
            self.stopping.wait(pause)
        return min(2 * pause, LONGEST_PAUSE)

    def _fetch(self, client: Client, leases: bool) -> None:
        try:
            self._fetch_until_stopped(client, leases)
        finally:
            if leases:
                for _ in range(self.concurrency):
                    self.jobs.put(None)

    def _fetch_until_stopped(self, client: Client, leases: bool) -> None:
        pause = FIRST_PAUSE
        while not self.stopping.is_set():
            try:
                if leases:
                    self._fetch_many(client)
                else:
                    self._fetch_one(client)
                pause = FIRST_PAUSE
            except (ClosedError, TimedOutError):
                continue
            except Error as error:
                pause = self._pause(error, pause)

    def _fetch_many(self, client: Client) -> None:
        """Take as many jobs as handlers are free."""
        count = 1 if self.free.acquire(timeout=1) else 0
        while 0 < count < MAX_BATCH and self.free.acquire(blocking=False):
            count += 1
        jobs: list[Job] = []
        try:
            if count:
                client.watch_only(self.tubes)
                jobs = self._reserve(client, count)
                client.hand_over()
        finally:
            for job in jobs:
                self.jobs.put(job)
            if count > len(jobs):
                self.free.release(count - len(jobs))

    def _reserve(self, client: Client, count: int) -> list[Job]:
        with self.lock:
            if self.stopping.is_set():
                return []
            self.waiting.add(client)
        try:
            return client.reserve_batch(count, _TAKE_WAIT)
        finally:
            with self.lock:
                self.waiting.discard(client)

    def _fetch_one(self, client: Client) -> None:
        """Take a job and handle it, on the connection to which it belongs."""
        job: Job | None = None
        weights = self.tubes
        if len(set(weights.values())) > 1:
            client.watch_only(random.choices(list(weights), list(weights.values())))
            try:
                job = client.reserve(0)
            except TimedOutError:
                pass
        if job is None:
            client.watch_only(weights.keys())
            jobs = self._reserve(client, 1)
            if not jobs:
                return
            job = jobs[0]
        try:
            info = client.stats_job(job)
        except NotFoundError:
            return
        failures = info.get("failures", info["releases"] + info["timeouts"])
        job.info = {"tube": info["tube"], "pri": info["pri"], "ttr": info["ttr"], "failures": failures}
        self._process(WorkerJob(job, client, self.limits, self.beats, self.stopping))

    def _handle_queue(self) -> None:
        while (job := self.jobs.get()) is not None:
            try:
                self._process(WorkerJob(job, self.toucher, self.limits, self.beats, self.stopping))
            finally:
                self.free.release()

    def _process(self, job: WorkerJob) -> None:
        """Call the handler for a job and settle it."""
        with self.lock:
            self.held.add(job)
        try:
            if self.stopping.is_set():
                self.settler.give_back(job)
            elif self._in_time(job):
                self._handle(job)
        except BaseException as error:  # such as one that was set in this thread from another one
            report(logging.ERROR, "job %d is not settled, so it may come again: %s", job.id, named(error), error=error)
        finally:
            self._leave_alone(job)
            with self.lock:
                self.held.discard(job)

    def _in_time(self, job: WorkerJob) -> bool:
        """Report whether the job is still held. Touch it if that is not sure."""
        if time.monotonic() - job.touched <= job.ttr / 3:
            return True
        try:
            job.touch()
            return True
        except Error as late:
            report(logging.INFO, "job %d arrived too late and is not handled: %s", job.id, late)
            return False

    def _handle(self, job: WorkerJob) -> None:
        self.beats.add(job, job.touched + job.ttr / 3)
        job.set_timeout(self.timeout)
        process = os.getpid()
        result, error = job.call.run(self.handler, job)
        if os.getpid() != process:
            _end_child(error)
        self._leave_alone(job)
        self.settler.settle(job, error, result)

    def _leave_alone(self, job: WorkerJob) -> None:
        self.beats.remove(job)
        self.limits.remove(job)

    def _times_over(self, jobs: list[WorkerJob]) -> dict[WorkerJob, float]:
        return {job: due for job in jobs if (due := self._time_over(job))}

    def _time_over(self, job: WorkerJob) -> float | None:
        """End a handler whose time is over, and later give up on it."""
        if not job.cancelled.is_set():
            job.cancel("timeout")
            return time.monotonic() + _GRACE
        report(logging.ERROR, "the handler of job %d of tube %s ignores that its time is over; it takes up a thread until it returns", job.id, job.tube)
        self.beats.remove(job)
        settle = functools.partial(self.settler.settle, job, HandlerTimeout())
        threading.Thread(target=settle, daemon=True).start()
        return None

    def _shutdown(self) -> int:
        if self._join(self.shutdown_timeout, until_signal=True):
            return 0
        with self.lock:
            left = list(self.held)
        for job in left:
            job.cancel("shutdown")
        if self._join(_LAST_SECOND):
            return 0
        unfinished = 0
        with self.lock:
            left = list(self.held)
        for job in left:
            if not job.settled:
                unfinished += 1
                self.settler.give_back(job)
        return unfinished

    def _join(self, timeout: float, until_signal: bool = False) -> bool:
        """Wait until all threads have ended."""
        end = time.monotonic() + timeout
        for thread in self.threads:
            while thread.is_alive() and time.monotonic() < end:
                if until_signal and not self.signals.empty():
                    return False
                thread.join(0.05)
        return not any(thread.is_alive() for thread in self.threads)


def _end_child(error: BaseException | None) -> NoReturn:
    """End a process that a handler has forked and that returns from it: only the parent settles the job."""
    done = error is None or isinstance(error, SystemExit) and not error.code
    if not done:
        report(logging.ERROR, "a process that a handler has forked ends", error=error)
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
    os._exit(0 if done else 1)
