"""For tests of programs with tasks: jobs in memory, and a server.

With pytest there are the fixtures redstalk_memory and redstalk_server.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from .memory import AsyncMemoryClient, Memory, MemoryJob

if TYPE_CHECKING:
    from .app import App

__all__ = ["Memory", "MemoryJob", "in_memory", "server"]

_START = 30  # seconds


@contextlib.contextmanager
def in_memory(app: App) -> Iterator[Memory]:
    """Keep the jobs that tasks of the app send in memory, where drain runs them, instead of a server."""
    memory = Memory(app)
    replaced: Any = app
    client, async_client = app.client, app.async_client
    replaced.client, replaced.async_client = memory.client, lambda: AsyncMemoryClient(memory.client)
    try:
        yield memory
    finally:
        replaced.client, replaced.async_client = client, async_client


@contextlib.contextmanager
def server(*options: str, program: str = "") -> Iterator[str]:
    """Run redstalkd with a store in memory on a free port, and yield its address.

    The program is by default that of the variable REDSTALKD, or the one in PATH. FileNotFoundError: there is none.
    """
    program = program or os.environ.get("REDSTALKD") or shutil.which("redstalkd") or ""
    if not program:
        raise FileNotFoundError("redstalkd is not in PATH")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    command = [program, "-l", "127.0.0.1", "-p", str(port), "--store", "memory:", *options]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            _await(port, process)
            yield f"127.0.0.1:{port}"
        finally:
            process.kill()


def _await(port: int, process: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + _START
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            if process.poll() is not None or time.monotonic() > end:
                raise RuntimeError("redstalkd does not start") from None
            time.sleep(0.01)
