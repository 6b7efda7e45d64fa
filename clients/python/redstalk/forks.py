"""A new connection in a new process: on one that is shared with its parent, each would read the replies of the other."""

from __future__ import annotations

import os
import weakref
from typing import Protocol


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
