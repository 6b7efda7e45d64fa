"""A new connection in a new process: on one that is shared with its parent, each would read the replies of the other."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import weakref
from typing import NoReturn, Protocol

from .report import report


class Forked(Protocol):
    def _forked(self) -> None:
        """Leave the connection to the parent process. No other thread runs."""


_clients: weakref.WeakSet[Forked] = weakref.WeakSet()


def renew_in_child(client: Forked) -> None:
    """Tell a client when it is in a new process."""
    _clients.add(client)


def _in_child() -> None:
    for client in list(_clients):
        client._forked()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)


def end_child(error: BaseException | None) -> NoReturn:
    """End a process that a handler has forked and that returns from it: only the parent settles the job."""
    done = error is None or isinstance(error, SystemExit) and not error.code
    if not done:
        report(logging.ERROR, "a process that a handler has forked ends", error=error)
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
    os._exit(0 if done else 1)
