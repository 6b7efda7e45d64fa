"""One run of a worker: it fetches jobs and has them handled, and shuts down."""

from __future__ import annotations

import asyncio
import functools
import inspect
import logging
import queue
import random
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

from .backoff import Backoff
from .call import HandlerTimeout
from .client import Client
from .errors import BadFormatError, ClosedError, Error, ForbiddenError, NotFoundError, TimedOutError, UnsupportedError
from .held import Timers, WorkerJob, beat
from .job import Job
from .operations import MAX_BATCH
from .report import named, report
from .settler import FIRST_PAUSE, LONGEST_PAUSE, Settler
from .threads import Crew, Loop

Handler = Callable[[WorkerJob], Any]

_TAKE_WAIT = 5  # seconds that a reserve waits
_LAST_SECOND = 1.0  # for handlers after they were cancelled at shutdown
_GRACE = 10.0  # seconds for handlers after their time is over
_EARLY = 0.1  # seconds by which a heartbeat can be early, so that many go out together
_BETWEEN_LOOKS = 0.02
_REFUSED = (BadFormatError, ForbiddenError, UnsupportedError)  # so the worker cannot start
_FEW = 10  # threads that start coroutines and settle their jobs


class Run:
    """One call of Worker.run: coroutines run in the loop that is given, or in one of its own."""

    def __init__(
        self, connect: Callable[[], Client], handler: Handler, tubes: dict[str, int], concurrency: int, backoff: Backoff, timeout: float,
        shutdown_timeout: float, first: Iterable[Callable[[Client], None]], signals: queue.SimpleQueue[int], loop: asyncio.AbstractEventLoop | None,
    ) -> None:  # fmt: skip
        self.connect, self.handler, self.tubes, self.concurrency = connect, handler, tubes, concurrency
        self.timeout, self.shutdown_timeout, self.first, self.signals = timeout, shutdown_timeout, first, signals
        self.settler = Settler(connect(), backoff)
        self.toucher = connect()  # touches jobs with a lease
        self.clients: list[Client] = []  # that fetch
        self.fetchers: list[threading.Thread] = []
        self.few = Crew("redstalk", _FEW)
        self.handlers = self.few if _is_coroutine_function(handler) else Crew("redstalk-handler", concurrency)
        self.own_loop = Loop()
        self.loop = (lambda: loop) if loop else self.own_loop.get
        self.free = threading.Semaphore(concurrency)
        self.held: dict[WorkerJob, Callable[[], object]] = {}  # from the reserve on, with what follows when it is settled
        self.waiting: set[Client] = set()  # in a reserve, which is to be interrupted at shutdown
        self.lock = threading.Lock()
        self.stopping = threading.Event()
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
        self.own_loop.stop()
        self.handlers.stop()
        self.few.stop()
        for client in [*self.clients, self.settler.client, self.toucher]:
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
        """Do what comes first, and start the threads that fetch: with leases one for all handlers, else one for each."""
        pause = FIRST_PAUSE
        while not self.stopping.is_set():
            try:
                self.settler.client.capabilities()
                for do in self.first:
                    do(self.settler.client)
                break
            except _REFUSED:
                raise
            except Error as error:
                pause = self._pause(error, pause)
        leases = self.settler.client.leases
        for _ in range(0 if self.stopping.is_set() else 1 if leases else self.concurrency):
            client = self.connect()
            self.clients.append(client)
            self.fetchers.append(self._thread(functools.partial(self._fetch, client, leases)))

    def _pause(self, error: Exception, pause: float) -> float:
        if not self.stopping.is_set():
            report(logging.WARNING, "no jobs can be fetched: %s", error)
            self.stopping.wait(pause)
        return min(2 * pause, LONGEST_PAUSE)

    def _fetch(self, client: Client, leases: bool) -> None:
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
            if count > len(jobs):
                self.free.release(count - len(jobs))
            self._assign([self._hold(job, self.toucher, self.free.release) for job in jobs])

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
        settled = threading.Event()
        self._process(self._hold(job, client, settled.set))
        settled.wait()

    def _hold(self, job: Job, client: Client, settled: Callable[[], object]) -> WorkerJob:
        held = WorkerJob(job, client, self.limits, self.beats, self.stopping)
        with self.lock:
            self.held[held] = settled
        return held

    def _assign(self, jobs: list[WorkerJob]) -> None:
        """Process jobs in other threads; give them back if there are none."""
        try:
            while jobs:
                self.handlers.assign(functools.partial(self._process, jobs[0]))
                del jobs[0]
        finally:
            for job in jobs:
                self.settler.give_back(job)
                self._let_go(job)

    def _process(self, job: WorkerJob) -> None:
        """Call the handler for a job and settle it, here or when its coroutine has ended."""
        try:
            if self.stopping.is_set():
                self.settler.give_back(job)
            elif self._in_time(job) and self._goes_on(job):
                return
        except BaseException as error:  # such as one that was set in this thread from another one
            self._not_settled(job, error)
        self._let_go(job)

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

    def _goes_on(self, job: WorkerJob) -> bool:
        """Call the handler. Report whether a coroutine goes on; if not, the job is settled."""
        self.beats.add(job, job.touched + job.ttr / 3)
        job.set_timeout(self.timeout)
        result, error = job.call.run(self.handler, job)
        if job.call.awaitable is None:
            self._settle(job, result, error)
            return False
        job.call.go_on(self.loop(), job.call.awaitable, functools.partial(self._has_ended, job))
        return True

    def _has_ended(self, job: WorkerJob, result: Any, error: BaseException | None) -> None:
        """Settle the job of a coroutine in another thread."""

        def end() -> None:
            try:
                self._settle(job, result, error)
            except BaseException as fault:
                self._not_settled(job, fault)
            self._let_go(job)

        try:
            self.few.assign(end)
        except RuntimeError:
            end()

    def _settle(self, job: WorkerJob, result: Any, error: BaseException | None) -> None:
        self._leave_alone(job)
        self.settler.settle(job, error, result)

    def _not_settled(self, job: WorkerJob, error: BaseException) -> None:
        report(logging.ERROR, "job %d is not settled, so it may come again: %s", job.id, named(error), error=error)

    def _let_go(self, job: WorkerJob) -> None:
        self._leave_alone(job)
        with self.lock:
            settled = self.held.pop(job)
        settled()

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
        report(logging.ERROR, "the handler of job %d of tube %s ignores that its time is over; it takes up a slot until it returns", job.id, job.tube)
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
        self.settler.ended = True
        with self.lock:
            left = [job for job in self.held if not job.settled]
        threads = [threading.Thread(target=self.settler.give_back, args=(job,), daemon=True) for job in left]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return len(left)

    def _join(self, timeout: float, until_signal: bool = False) -> bool:
        """Wait until no job is held, and none can be fetched."""
        end = time.monotonic() + timeout
        while (busy := self._is_busy()) and time.monotonic() < end:
            if until_signal and not self.signals.empty():
                return False
            time.sleep(_BETWEEN_LOOKS)
        return not busy

    def _is_busy(self) -> bool:
        return any(thread.is_alive() for thread in self.fetchers) or bool(self.held)


def _is_coroutine_function(handler: Handler) -> bool:
    """Report whether to call the handler runs nothing of it."""
    return inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(getattr(handler, "__call__", None))
