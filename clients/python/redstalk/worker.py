"""A worker: it takes jobs and calls handlers in threads, or in an event loop."""

from __future__ import annotations

import asyncio
import inspect
import queue
import signal
import threading
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from .backoff import Backoff, exponential
from .client import Client
from .held import limit
from .run import Handler, Run
from .session import Address


class Worker:
    """Takes jobs from tubes and calls a handler, for up to ``concurrency`` jobs at a time.

    ``tubes`` are names, or names with weights: with {"urgent": 6, "bulk": 1} six of seven jobs come from the first while both
    have jobs. A handler that returns has done the job, so it is deleted; an exception is a failure. Functions run in
    threads, and all coroutines in one event loop. ``settings`` are those of :class:`Client`.

    ``timeout`` is how long a handler can run, in seconds, unless it calls ``set_timeout`` of its job; 0 is no limit. Then
    ``cancelled`` of the job is set, and the handler is interrupted: a coroutine is cancelled, a function gets a :class:`HandlerTimeout`. If it raises anything
    but Skip, Snooze or NotFinished then, or does not return within ten seconds, the job fails with the reason "timeout".
    """

    def __init__(
        self,
        address: Address | Iterable[Address] = ("127.0.0.1", 11300),
        tubes: Mapping[str, int] | Iterable[str] = ("default",),
        concurrency: int = 10,
        *,
        backoff: Backoff | None = None,
        timeout: float = 1800,
        shutdown_timeout: float = 25,
        **settings: Any,
    ) -> None:
        self.tubes = dict(tubes) if isinstance(tubes, Mapping) else dict.fromkeys([tubes] if isinstance(tubes, str) else tubes, 1)
        if not self.tubes or concurrency < 1 or min(self.tubes.values()) < 1:
            raise ValueError("a worker needs tubes with positive weights, and a positive concurrency")
        if not shutdown_timeout >= 0:
            raise ValueError(f"shutdown_timeout {shutdown_timeout!r}")
        inspect.signature(Client).bind(address, **settings)  # a wrong setting fails here
        self.concurrency = concurrency
        self.backoff = backoff or exponential()
        self.timeout, self.shutdown_timeout = limit(timeout), shutdown_timeout
        self._address, self._settings = address, settings
        self.first: list[Callable[[Client], None]] = []  #: what is called before the first job is taken, with a client
        self._signals: queue.SimpleQueue[int] = queue.SimpleQueue()

    def connect(self) -> Client:
        """Return a new client."""
        return Client(self._address, **self._settings)

    def stop(self) -> None:
        """Do what the first signal does, from any thread."""
        self._signals.put(0)

    def run(self, handler: Handler, signals: Iterable[int] = (signal.SIGINT, signal.SIGTERM)) -> int:
        """Take jobs until a signal comes, or stop is called. Return the number of handlers that did not return in time.

        Then it takes no more jobs, sets ``stopping`` of those that it has, and waits for the handlers, up to shutdown_timeout. After that, or at a second signal, it sets
        ``cancelled`` of their jobs, and a second later it gives their jobs back: they are ready at once, and have not failed.

        What a handler or the backoff raises is a failure of its job alone. While no jobs can be fetched, that is logged. If the
        worker cannot work at all, as when no thread can be started, it ends with that exception.

        Signals come to the main thread. In another one only stop ends the worker.
        """

        def received(number: int, _: Any) -> None:
            self._signals.put(number)

        before = {number: signal.signal(number, received) for number in _received_here(signals)}
        try:
            return self._new_run(handler, None).serve()
        finally:
            for number, old in before.items():
                signal.signal(number, old)

    async def run_async(self, handler: Handler, signals: Iterable[int] = (signal.SIGINT, signal.SIGTERM)) -> int:
        """Do what run does, with coroutines in the event loop of the caller. If it is cancelled, it stops first, as at a signal."""
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[int] = loop.create_future()
        threading.Thread(target=self._run_for, args=(handler, loop, ended), name="redstalk-worker", daemon=True).start()
        before = {number: signal.getsignal(number) for number in _received_here(signals)}
        for number in before:
            loop.add_signal_handler(number, self._signals.put, number)
        try:
            return await self._end_of(ended)
        finally:
            for number, old in before.items():
                loop.remove_signal_handler(number)
                signal.signal(number, old)

    def _run_for(self, handler: Handler, loop: asyncio.AbstractEventLoop, ended: asyncio.Future[int]) -> None:
        """Run, and tell an event loop that this has ended."""
        try:
            end = partial(ended.set_result, self._new_run(handler, loop).serve())
        except BaseException as error:
            end = partial(ended.set_exception, error)
        loop.call_soon_threadsafe(end)

    async def _end_of(self, ended: asyncio.Future[int]) -> int:
        cancelled: asyncio.CancelledError | None = None
        while not ended.done():
            try:
                await asyncio.wait([ended])
            except asyncio.CancelledError as error:
                cancelled = error
                self.stop()
        result = ended.result()
        if cancelled:
            raise cancelled
        return result

    def _new_run(self, handler: Handler, loop: asyncio.AbstractEventLoop | None) -> Run:
        limits = (self.timeout, self.shutdown_timeout)
        return Run(self.connect, handler, self.tubes, self.concurrency, self.backoff, *limits, self.first, self._signals, loop)


def _received_here(signals: Iterable[int]) -> Iterable[int]:
    return signals if threading.current_thread() is threading.main_thread() else ()
