"""A call of a handler, which another thread can end."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import inspect
import os
import threading
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextvars import Context, copy_context
from functools import partial
from typing import Any

from .forks import end_child

#: What a handler has returned, or its exception.
Outcome = tuple[Any, "BaseException | None"]


class HandlerTimeout(BaseException):
    """Raised in a handler when its time is over. One that waits in C, as for a socket, gets it after that."""

    def __str__(self) -> str:
        return "timeout"


class Call:
    """A call of a handler. If it is to end, a coroutine is cancelled; a function gets an exception, but only when its time is over."""

    def __init__(self) -> None:
        self.awaitable: Awaitable[Any] | None = None  # what the handler has returned, if it is to be awaited
        self.context: Context = copy_context()
        self._lock = threading.Lock()
        self._thread = 0  # that runs it
        self._cause = ""
        self._cancel: Callable[[], object] | None = None  # cancels the coroutine

    def run(self, handler: Callable[[Any], Any], job: Any) -> Outcome:
        """Call the handler in this thread, up to an awaitable that it returns."""
        process = os.getpid()
        result, error = self.context.run(self._run, handler, job)
        if os.getpid() != process:
            end_child(error)
        return result, error

    def _run(self, handler: Callable[[Any], Any], job: Any) -> Outcome:
        self._thread = threading.get_ident()
        try:
            try:
                result = handler(job)
                if inspect.isawaitable(result):
                    self.awaitable = result
                elif inspect.isgenerator(result) or inspect.isasyncgen(result):
                    raise TypeError("the handler is a generator, so nothing of it has run")
            finally:
                self._returned()
        except BaseException as error:  # SystemExit of a handler is its failure too
            self.awaitable = None
            return None, error
        return result, None

    def _returned(self) -> None:
        """Raise no exception in the thread from now on."""
        with self._lock:
            if self._cause == "timeout":
                _raise(self._thread, None)
            self._thread = 0

    def go_on(self, loop: asyncio.AbstractEventLoop, awaitable: Awaitable[Any], then: Callable[[Any, BaseException | None], None]) -> None:
        """Await what the handler has returned in an event loop, which then gets the outcome. Call it from another thread."""
        begin = partial(self._begin, loop, awaitable, then)
        loop.call_soon_threadsafe(begin, context=self.context)

    def _begin(self, loop: asyncio.AbstractEventLoop, awaitable: Awaitable[Any], then: Callable[[Any, BaseException | None], None]) -> None:
        def ended(task: asyncio.Task[Outcome]) -> None:
            with self._lock:
                self._cancel = None
            then(*(None, asyncio.CancelledError()) if task.cancelled() else task.result())

        task = loop.create_task(Guarded(awaitable).outcome())
        with self._lock:
            self._cancel = partial(loop.call_soon_threadsafe, task.cancel)
            if self._cause:
                loop.call_soon(task.cancel)  # after its first step
        task.add_done_callback(ended)

    def end(self, cause: str) -> None:
        """End the call, from any thread, if that is possible."""
        with self._lock:
            self._cause = cause
            if self._cancel:
                with contextlib.suppress(RuntimeError):  # the loop has ended
                    self._cancel()
            elif self._thread and cause == "timeout":
                _raise(self._thread, HandlerTimeout)


class Guarded:
    """Awaits step by step, so that no step runs in a process that a handler has forked: only the parent settles jobs."""

    def __init__(self, awaitable: Awaitable[Any]) -> None:
        self._awaitable = awaitable

    async def outcome(self) -> Outcome:
        """Return the outcome. An exception, such as SystemExit, would end the event loop."""
        return await self

    def __await__(self) -> Generator[Any, Any, Outcome]:
        process, coroutine = os.getpid(), self._coroutine()
        step: Callable[[], Any] = partial(coroutine.send, None)
        while True:
            awaited, outcome = _step(step)
            if os.getpid() != process:
                end_child(outcome[1] if outcome else RuntimeError("a coroutine cannot go on in a new process"))
            if outcome:
                return outcome
            try:
                yield awaited
                step = partial(coroutine.send, None)
            except BaseException as thrown:
                step = partial(coroutine.throw, thrown)
            if os.getpid() != process:
                end_child(None)

    async def _coroutine(self) -> Any:
        return await self._awaitable


def _step(step: Callable[[], Any]) -> tuple[Any, Outcome | None]:
    """Return what a coroutine awaits now, or else its outcome."""
    try:
        return step(), None
    except StopIteration as stop:
        return None, (stop.value, None)
    except BaseException as error:
        return None, (None, error)


def _raise(thread: int, exception: type[BaseException] | None) -> None:
    """Make a thread raise an exception soon. Only CPython can do that."""
    with contextlib.suppress(AttributeError):
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(exception) if exception else None)
