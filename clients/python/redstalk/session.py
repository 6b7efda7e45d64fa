"""What a client does, without input or output.

A session yields actions, which a client carries out: it sends their results or exceptions back. So the synchronous and the
asynchronous client reconnect and repeat in the same way.
"""

from __future__ import annotations

import random
import time
from collections.abc import Generator, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

from . import text
from .errors import (
    ClosedError,
    InvalidArgumentError,
    NotFoundError,
    UnauthorizedError,
    UnavailableError,
    UnknownOutcomeError,
    UnknownResponseError,
    UnsupportedError,
)
from .job import Job
from .protocol import Parser, Reply
from .request import DEFAULT_TUBE, Request

T = TypeVar("T")

Address = tuple[str, int] | str


@dataclass(slots=True)
class Connect:
    """Connect to an address: host and port, or the path of a Unix socket."""

    address: Address
    timeout: float


@dataclass(slots=True)
class Exchange:
    """Send data, if there is any, and return what arrives next; b"" at the end."""

    data: bytes
    timeout: float


@dataclass(slots=True)
class Idle:
    """Raise OSError if the server has closed the connection meanwhile."""


@dataclass(slots=True)
class Sleep:
    seconds: float


@dataclass(slots=True)
class Close:
    pass


Steps = Generator[Connect | Exchange | Idle | Sleep | Close, Any, T]

_AVOID = 10.0  # seconds for which an address that failed is tried only after the others
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 2.0
_MAX_HELD = 1 << 14


class Session:
    """The state of a client: where it is connected, and what it uses, watches and holds."""

    def __init__(
        self, addresses: list[Address], use: str, watch: Iterable[str], user: str, secret: str, name: str,
        wait: float, connect_timeout: float, reply_timeout: float,
    ) -> None:  # fmt: skip
        if not addresses:
            raise InvalidArgumentError("no address")
        self.addresses = random.sample(addresses, len(addresses))
        self.used = text.tube(use)
        self.watched: dict[str, int] = {text.tube(tube): 0 for tube in watch} or {DEFAULT_TUBE: 0}  # weights; 0: none
        self.closed = False
        self.connection = 0  # the number of the current connection, if connected
        self.awaited = 0  # jobs for whose end waits are under way
        self.held: dict[int, Job] = {}  # by id: reserved jobs that are not finished
        self.capabilities: frozenset[str] = frozenset()
        self._hello = [f"auth {text.word('user', user)} {text.word('secret', secret)}"] if user else []
        self._hello += [f"client {text.word('name', name)}"] if name else []
        self._wait, self._connect_timeout, self._reply_timeout = wait, connect_timeout, reply_timeout
        self._avoid: dict[Address, float] = {}
        self._address: Address | None = None  # if connected
        self._accepted = False  # whether the connection has put a job: if its server drains, its address can lead to another one
        self._using = ""
        self._watching: dict[str, int] = {}
        self._parser = Parser()

    @property
    def connected(self) -> bool:
        return self._address is not None

    @property
    def leases(self) -> bool:
        """Whether jobs are reserved by leases; known when connected."""
        return "lease" in self.capabilities and "info" in self.capabilities

    def run(self, request: Request[T]) -> Steps[T]:
        """Send a request until it is answered, or cannot be repeated."""
        deadline: float | None = None  # from the first loss on
        losses = 0
        while True:
            yield from self.connect(deadline)
            began = time.monotonic()
            if request.connection and request.connection != self.connection:
                raise NotFoundError("the connection to which the job belonged was lost")
            reply = yield from self._attempt(request, request.encoded(self.capabilities))
            if reply is None:
                now = time.monotonic()
                if deadline is None or now - began > self._wait:
                    deadline, losses = now + self._wait, 0
                if now > deadline:
                    raise UnavailableError("the connection was lost again and again")
                yield Sleep(min(losses * _FIRST_PAUSE, _LONGEST_PAUSE))
                losses += 1
                continue
            if reply.word == "DRAINING" and request.fails_over and (self.leases or not self.held) and (self._another() or self._accepted):
                yield from self._drop()
                continue
            self._accepted = self._accepted or request.fails_over and reply.word == "INSERTED"
            try:
                return request.result(reply)
            except UnknownResponseError:
                yield from self._drop()
                raise

    def _attempt(self, request: Request[T], data: bytes) -> Steps[Reply | None]:
        """Return the reply, or None if the request is to be sent again."""
        sent = False
        try:
            if request.tube and request.tube != self._using:
                yield from self._command(f"use {request.tube}", "USING")
                self._using = request.tube
            if not request.repeat:
                yield Idle()
            sent = True
            reply = yield from self._exchange(data, request.wait)
            while request.lacks(reply):
                reply = yield from self._exchange(b"", request.wait)
            return reply
        except OSError as error:
            yield from self._drop()
            if self.closed:
                raise ClosedError("the client was closed") from error
            if sent and not request.repeat:
                verb = request.line.split(" ")[0]
                raise UnknownOutcomeError(f"{verb}: the connection was lost, so it may have been carried out") from error
            return None
        except GeneratorExit:
            raise
        except BaseException:  # interrupted in the middle: the next reply would be taken for another one
            yield from self._drop()
            raise

    def connect(self, deadline: float | None = None) -> Steps[None]:
        """Connect to one of the addresses, with growing waits, unless connected."""
        deadline = deadline or time.monotonic() + self._wait
        pause = _FIRST_PAUSE
        while not self.connected:
            failures: list[str] = []
            for address in sorted(self.addresses, key=lambda at: max(self._avoid.get(at, 0) - time.monotonic(), 0)):
                if self.closed:
                    raise ClosedError("the client was closed")
                try:
                    yield from self._dial(address)
                    return
                except OSError as error:
                    failures.append(f"{address}: {error}")
                    self._avoid[address] = time.monotonic() + _AVOID
                    yield from self._drop()
                except BaseException:
                    yield from self._drop()
                    raise
            if time.monotonic() + pause > deadline:
                raise UnavailableError("no server is available: " + "; ".join(failures))
            yield Sleep(pause * random.uniform(0.5, 1))
            pause = min(2 * pause, _LONGEST_PAUSE)

    def _dial(self, address: Address) -> Steps[None]:
        yield Connect(address, self._connect_timeout)
        self._parser = Parser()
        self._accepted = False
        self._using, self._watching = DEFAULT_TUBE, {DEFAULT_TUBE: 0}
        for line in self._hello:
            reply = yield from self._exchange(line.encode() + b"\r\n")
            if line.startswith("auth ") and reply.word == "UNKNOWN_COMMAND":
                raise UnsupportedError("auth")
            if reply.word == "UNAUTHORIZED":
                raise UnauthorizedError("the user or the secret is wrong")
        reply = yield from self._exchange(b"capabilities\r\n")
        self.capabilities = frozenset(text.names(reply.body)) if reply.word == "OK" else frozenset()
        self.connection += 1
        if not self.leases:
            self.held.clear()
        yield from self.update_watches()
        self._address = address

    def update_watches(self) -> Steps[None]:
        """Make the connection watch what the client watches."""
        for tube, weight in self.watched.items():
            if self._watching.get(tube) != weight:
                suffix = f" {weight}" if weight and "weights" in self.capabilities else ""
                yield from self._command(f"watch {tube}{suffix}", "WATCHING")
                self._watching[tube] = weight
        for tube in [tube for tube in self._watching if tube not in self.watched]:
            yield from self._command(f"ignore {tube}", "WATCHING")
            del self._watching[tube]

    def _command(self, line: str, word: str) -> Steps[None]:
        reply = yield from self._exchange(line.encode() + b"\r\n")
        if reply.word != word:
            raise reply.error()

    def _exchange(self, data: bytes, wait: float = 0) -> Steps[Reply]:
        timeout = wait + self._reply_timeout
        while True:
            reply = None if data else self._parser.next()
            if reply:
                return reply
            received = yield Exchange(data, timeout)
            if not received:
                raise ConnectionResetError("the server closed the connection")
            self._parser.feed(received)
            data = b""

    def _drop(self) -> Steps[None]:
        self._address = None
        yield Close()

    def drop(self) -> Steps[None]:
        """Close the connection. Jobs without a lease go back."""
        yield from self._drop()

    def forked(self) -> None:
        """Forget the connection and the jobs of the parent process."""
        self._address = None
        self.held.clear()

    def _another(self) -> bool:
        """Avoid the current address, and report whether another one has not failed recently."""
        if self._address:
            self._avoid[self._address] = time.monotonic() + _AVOID
        return any(self._avoid.get(address, 0) < time.monotonic() for address in self.addresses)

    def hold(self, job: Job) -> None:
        """Remember a reserved job without its body, so that it can be finished by its id."""
        self.held[job.id] = Job(job.id, b"", job.lease, job.info, job.reserved_at, job.connection)
        if len(self.held) > _MAX_HELD:
            del self.held[next(iter(self.held))]


