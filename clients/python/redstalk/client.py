"""The synchronous client."""

from __future__ import annotations

import select
import socket
import ssl
import threading
import time
from collections import deque
from collections.abc import Iterable
from types import TracebackType
from typing import Any, TypeVar

from .commands import Commands
from .errors import ClosedError, Error
from .forks import renew_in_child
from .job import JobOrID
from .operations import MAX_BATCH, Operations, addresses_of
from .request import DEFAULT_TUBE, Burst, Pending, Request
from .session import Address, Close, Connect, Exchange, Idle, Sleep, Steps

T = TypeVar("T")

_CHUNK = 1 << 18


def tubes_of(watch: str | Iterable[str]) -> list[str]:
    return [watch] if isinstance(watch, str) else list(watch)


class Transport:
    """A socket that carries out the actions of a session."""

    def __init__(self, tls: ssl.SSLContext | None) -> None:
        self._tls = tls
        self._socket: socket.socket | None = None
        self._poll = select.poll()

    def perform(self, action: Any) -> bytes | None:
        match action:
            case Exchange(data, timeout):
                return self._exchange(data, timeout)
            case Idle():
                self._check()
            case Connect(address, timeout):
                self._connect(address, timeout)
            case Sleep(seconds):
                time.sleep(seconds)
            case Close():
                self.close()
        return None

    def _connect(self, address: Address, timeout: float) -> None:
        self.close()
        if isinstance(address, str):
            sock = socket.socket(socket.AF_UNIX)
            sock.settimeout(timeout)
            sock.connect(address)
        else:
            sock = socket.create_connection(address, timeout)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self._tls:
            name = address if isinstance(address, str) else address[0]
            sock = self._tls.wrap_socket(sock, server_hostname=name)
        self._socket = sock
        self._poll.register(sock, select.POLLIN)

    def _exchange(self, data: bytes, timeout: float) -> bytes:
        sock = self._open()
        if sock.gettimeout() != timeout:
            sock.settimeout(timeout)
        if data:
            sock.sendall(data)
        return sock.recv(_CHUNK)

    def _check(self) -> None:
        """Raise OSError if the server has closed the connection; what it sends unasked is an error too."""
        sock = self._open()
        if not self._poll.poll(0):
            return
        sock.settimeout(0)
        try:
            sock.recv(1)
        except (BlockingIOError, ssl.SSLWantReadError):  # only TLS's own messages
            return
        raise ConnectionResetError("the server closed the connection")

    def _open(self) -> socket.socket:
        if self._socket is None:
            raise ConnectionResetError("not connected")
        return self._socket

    def finish(self) -> None:
        """Half-close the connection from any thread: a reserve that waits ends, or still returns its job."""
        if self._socket is not None:
            try:
                socket.socket.shutdown(self._socket, socket.SHUT_WR)
            except OSError:
                pass

    def close(self) -> None:
        if self._socket is not None:
            sock, self._socket, self._poll = self._socket, None, select.poll()
            try:
                sock.close()
            except OSError:  # somebody else has closed the descriptor
                pass

    def abandon(self) -> Transport:
        """Close the descriptor of this process alone, and return a new transport."""
        if self._socket is not None:
            self._socket.close()
        return Transport(self._tls)


class Client(Commands):
    """A client of redstalk or beanstalkd.

    ``address`` is a host and a port, or a str such as "a:11300,b:11300" or "unix:PATH", or a list of addresses of instances that
    serve the same jobs. It connects with the first command, and again when the connection is lost. Threads can share a
    client: they take turns, and commands that can be repeated share a round trip.

    ``encoding`` is that of bodies that are str; with None all bodies are bytes, as are those that it cannot decode. Times are in seconds: ``wait`` is how long a
    call waits for a server, ``reply_timeout`` how long for a reply.

    After a fork the child connects anew, and holds none of the jobs of its parent.
    """

    def __init__(
        self,
        address: Address | Iterable[Address] = ("127.0.0.1", 11300),
        encoding: str | None = "utf-8",
        use: str = DEFAULT_TUBE,
        watch: str | Iterable[str] = DEFAULT_TUBE,
        *,
        tls: ssl.SSLContext | None = None,
        user: str = "",
        secret: str = "",
        name: str = "",
        wait: float = 10,
        connect_timeout: float = 5,
        reply_timeout: float = 10,
    ) -> None:
        self._session = Operations(
            encoding, addresses=addresses_of(address), use=use, watch=tubes_of(watch), user=user, secret=secret, name=name,
            wait=wait, connect_timeout=connect_timeout, reply_timeout=reply_timeout,
        )  # fmt: skip
        self._transport = Transport(tls)
        self._lock = threading.Lock()
        self._calls: deque[Pending[Any]] = deque()  # that wait for the lock
        renew_in_child(self)

    def _forked(self) -> None:
        self._lock = threading.Lock()  # another thread of the parent may have it
        self._calls.clear()
        self._session.forked()
        self._transport = self._transport.abandon()

    @property
    def leases(self) -> bool:
        """Whether jobs are reserved by leases, as of the last connection."""
        return self._session.leases

    def _run(self, steps: Steps[T]) -> T:
        with self._lock:
            if self._session.closed:
                raise ClosedError("the client was closed")
            return self._carry_out(steps)

    def _ask(self, question: Request[T]) -> T:
        [call] = self.ask_all([question])
        return call.value()

    def touching(self, job: JobOrID, progress: str | None) -> Request[None]:
        """Return the command that touch sends."""
        return self._session.touch(job, progress)

    def ask_all(self, questions: Iterable[Request[T]]) -> list[Pending[T]]:
        """Carry out requests, and return them with their results or exceptions."""
        calls = [Pending(question) for question in questions]
        self._calls.extend(call for call in calls if call.request.shares)
        for call in calls:
            if not call.done:
                with self._lock:
                    self._finish(call)
        return calls

    def _finish(self, call: Pending[Any]) -> None:
        """Carry out a call and others that wait, unless another thread has done so. The lock is held."""
        if call.done:
            return
        calls = [call]
        while call.request.shares and self._calls and len(calls) < MAX_BATCH:
            other = self._calls.popleft()
            if other is not call and not other.done:
                calls.append(other)
        try:
            if self._session.closed:
                raise ClosedError("the client was closed")
            if len(calls) > 1:
                self._carry_out(self._session.run(Burst(calls)))
            else:
                call.succeed(self._carry_out(self._session.run(call.request)))
        except Exception as error:  # another one is for this thread alone, and the others carry on
            for one in calls:
                if not one.done:
                    one.fail(error)

    def _carry_out(self, steps: Steps[T]) -> T:
        perform = self._transport.perform
        try:
            action = next(steps)
            while True:
                try:
                    result = perform(action)
                except BaseException as error:
                    action = steps.throw(error)
                else:
                    action = steps.send(result)
        except StopIteration as stop:
            value: T = stop.value
            return value

    def hand_over(self) -> None:
        """Do not give back at close the jobs that are held now: another client finishes them by their leases."""
        self._session.held.clear()

    def interrupt(self) -> None:
        """Close the client for good, from any thread. A reserve that waits raises ClosedError, or returns a job that arrives now."""
        self._session.closed = True
        self._transport.finish()

    def close(self) -> None:
        """Close the connection. Jobs that are reserved go back, which is no failure."""
        with self._lock:
            try:
                if not self._session.closed:
                    self._carry_out(self._session.give_back())
            except (Error, OSError):
                pass  # they come again after their TTR
            finally:
                self._session.closed = True
                self._transport.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()
