"""The threads of a worker, and its event loop."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import queue
import threading
from collections.abc import Callable

from .report import named, report

_LAST_MOMENT = 0.5  # seconds for tasks that are cancelled when the loop ends


class Crew:
    """Up to ``most`` threads that do what they are assigned. They start when they are needed."""

    def __init__(self, name: str, most: int) -> None:
        self._name, self._most = name, most
        self._work: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._threads = 0
        self._assigned = 0  # that is not done yet

    def assign(self, work: Callable[[], None]) -> None:
        """Do something in a thread. RuntimeError: none can be started."""
        with self._lock:
            if self._assigned >= self._threads < self._most:
                self._start()
            self._assigned += 1
        self._work.put(work)

    def _start(self) -> None:
        try:
            threading.Thread(target=self._run, name=self._name, daemon=True).start()
            self._threads += 1
        except RuntimeError as error:
            if not self._threads:
                raise
            report(logging.WARNING, "there are only %d threads: %s", self._threads, error)

    def stop(self) -> None:
        """End the threads when they have done what is assigned."""
        for _ in range(self._threads):
            self._work.put(None)

    def _run(self) -> None:
        while work := self._work.get():
            try:
                work()
            except BaseException as error:  # this thread must go on for others
                report(logging.ERROR, "%s", named(error), error=error)
            with self._lock:
                self._assigned -= 1


class Loop:
    """An event loop in a thread, which both start when they are needed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread(target=self._run, name="redstalk-loop", daemon=True)
        self._stopped = False

    def get(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread.start()
            return self._loop

    def stop(self) -> None:
        """Cancel the tasks that are left, and end the loop, unless one of them blocks it."""
        self._stopped = True
        if self._loop:
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(2 * _LAST_MOMENT)

    def _run(self) -> None:
        loop = self._loop
        assert loop
        asyncio.set_event_loop(loop)
        while not self._stopped:
            try:
                loop.run_forever()  # until stop, or what a callback of the user raises or stops
            except BaseException as error:
                report(logging.ERROR, "a callback has ended the event loop, which starts again: %s", named(error), error=error)
        tasks = asyncio.all_tasks(loop)
        for task in tasks:
            task.cancel()
        if tasks:
            loop.run_until_complete(asyncio.wait(tasks, timeout=_LAST_MOMENT))
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()
