"""Servers for tests: processes on free loopback ports."""

from __future__ import annotations

import os
import random
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path

PROGRAM = os.environ.get("REDSTALKD") or str(Path(__file__).parents[3] / "bin" / "redstalkd")
ENGINES = ("memory", "embedded", "redis")


_locks: list[socket.socket] = []


def free_port() -> int:
    """Return a port that belongs to this process until it ends, also while its server is down.

    The system gives higher ports to outgoing connections. The UDP port with the same number, which no server here
    uses, is the lock that all tests of this project respect.
    """
    while True:
        address = ("127.0.0.1", random.randrange(12_000, 22_000))
        lock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            lock.bind(address)
            socket.create_server(address).close()
        except OSError:
            lock.close()
            continue
        _locks.append(lock)
        return address[1]


class Server:
    """A process that listens. Commands can have {port} and {dir}."""

    def __init__(self, *command: str) -> None:
        self.port = free_port()
        self.address = ("127.0.0.1", self.port)
        self.directory = tempfile.mkdtemp(prefix="redstalk-python-")
        self._command = [word.format(port=self.port, dir=self.directory) for word in command]
        self._process: subprocess.Popen[bytes] | None = None
        self._redis: Server | None = None
        self.start()

    def start(self) -> None:
        """Start the process, also again after kill, and wait until it accepts connections."""
        log = open(f"{self.directory}/log", "ab")
        with log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        end = time.monotonic() + 30
        while True:
            try:
                socket.create_connection(self.address, 1).close()
                return
            except OSError:
                if time.monotonic() > end or self._has_ended():
                    raise RuntimeError(Path(f"{self.directory}/log").read_text()) from None

    def _has_ended(self) -> bool:
        """Wait a moment and report whether the process has ended."""
        try:
            return self._process is None or self._process.wait(0.01) is not None
        except subprocess.TimeoutExpired:
            return False

    def kill(self) -> None:
        if self._process:
            self._process.kill()
            self._process.wait()
            self._process = None

    def stop(self) -> None:
        self.kill()
        if self._redis:
            self._redis.stop()
        shutil.rmtree(self.directory, ignore_errors=True)

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def redis() -> Server:
    return Server("redis-server", "--bind", "127.0.0.1", "--port", "{port}", "--save", "", "--dir", "{dir}")


def start(engine: str = "memory", *options: str) -> Server:
    """Start redstalkd with an engine, or beanstalkd."""
    if engine == "beanstalkd":
        return Server("beanstalkd", "-l", "127.0.0.1", "-p", "{port}")
    if engine != "redis":
        store = {"memory": "memory:", "embedded": "embedded:{dir}/data"}[engine]
        return Server(PROGRAM, "-p", "{port}", "--store", store, *options)
    behind = redis()
    try:
        server = Server(PROGRAM, "-p", "{port}", "--store", f"redis://127.0.0.1:{behind.port}/0", *options)
    except BaseException:
        behind.stop()
        raise
    server._redis = behind
    return server
