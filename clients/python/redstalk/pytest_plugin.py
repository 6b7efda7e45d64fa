"""The fixtures of redstalk for pytest, which loads them when the package is installed."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import pytest

from .app import App
from .testing import Memory, in_memory, server


@pytest.fixture
def redstalk_memory() -> Iterator[Callable[[App], Memory]]:
    """Call it with an App: until the end of the test its tasks send jobs to the Memory that it returns."""
    with contextlib.ExitStack() as stack:
        yield lambda app: stack.enter_context(in_memory(app))


@pytest.fixture(scope="session")
def redstalk_server() -> Iterator[str]:
    """The address of a server with a store in memory. Without redstalkd, the test is skipped."""
    with contextlib.ExitStack() as stack:
        try:
            address = stack.enter_context(server())
        except FileNotFoundError as error:
            pytest.skip(str(error))
        yield address
