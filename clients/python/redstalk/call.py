"""A call of a handler, which another thread can end."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import inspect
import threading
from collections.abc import Awaitable, Callable
from typing import Any


class HandlerTimeout(BaseException):
    """Raised in a handler when its time is over. One that waits in C, as for a socket, gets it after that."""

    def __str__(self) -> str:
        return "timeout"


class Call:
    """A call of a handler. If it is to end, a coroutine is cancelled; a function gets an exception, but only when its time is over."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._thread = 0  # that runs it
        self._cause = ""
        self._cancel: Callable[[], object] | None = None  # cancels the coroutine

    def run(self, handler: Callable[[Any], Any], job: Any) -> tuple[Any, BaseException | None]:
        """Return what the handler returns, or its exception."""
        self._thread = threading.get_ident()
        try:
            try:
                result = handler(job)
                if inspect.isawaitable(result):
                    self._returned()
                    result = asyncio.run(self._awaited(result))
                elif inspect.isgenerator(result) or inspect.isasyncgen(result):
                    raise TypeError("the handler is a generator, so nothing of it has run")
            finally:
                self._returned()
        except BaseException as error:  # SystemExit of a handler is its failure too
            return None, error
        return result, None

    async def _awaited(self, result: Awaitable[Any]) -> Any:
        work, loop = asyncio.ensure_future(result), asyncio.get_running_loop()
        with self._lock:
            self._cancel = lambda: loop.call_soon_threadsafe(work.cancel)
            if self._cause:
                work.cancel()
        return await work

    def end(self, cause: str) -> None:
        """End the call, from any thread, if that is possible."""
        with self._lock:
            self._cause = cause
            if self._cancel:
                with contextlib.suppress(RuntimeError):  # the loop has ended
                    self._cancel()
            elif self._thread and cause == "timeout":
                _raise(self._thread, HandlerTimeout)

    def _returned(self) -> None:
        """Raise no exception in the thread from now on."""
        with self._lock:
            if self._cause == "timeout":
                _raise(self._thread, None)
            self._thread, self._cancel = 0, None


def _raise(thread: int, exception: type[BaseException] | None) -> None:
    """Make a thread raise an exception soon. Only CPython can do that."""
    with contextlib.suppress(AttributeError):
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(exception) if exception else None)
