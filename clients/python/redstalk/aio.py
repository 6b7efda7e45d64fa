"""The asynchronous client."""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import Iterable
from types import TracebackType
from typing import Any, TypeVar

from .aio_commands import AsyncCommands
from .client import tubes_of
from .errors import ClosedError, Error
from .forks import renew_in_child
from .operations import Operations, addresses_of
from .request import DEFAULT_TUBE
from .session import Address, Close, Connect, Exchange, Idle, Sleep, Steps

T = TypeVar("T")

_CHUNK = 1 << 18


class AsyncTransport:
    """A stream that carries out the actions of a session."""

    def __init__(self, tls: ssl.SSLContext | None) -> None:
        self._tls = tls
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def perform(self, action: Any) -> bytes | None:
        match action:
            case Exchange(data, timeout):
                return await self._exchange(data, timeout)
            case Idle():
                self._check()
            case Connect(address, timeout):
                try:
                    await asyncio.wait_for(self._connect(address), timeout)
                except asyncio.TimeoutError as error:  # which Python 3.10 has as another class
                    raise TimeoutError(f"no connection after {timeout} s") from error
            case Sleep(seconds):
                await asyncio.sleep(seconds)
            case Close():
                self.close()
        return None

    async def _connect(self, address: Address) -> None:
        self.close()
        if isinstance(address, str):
            name = address if self._tls else None
            self._streams = await asyncio.open_unix_connection(address, ssl=self._tls, server_hostname=name)
        else:
            self._streams = await asyncio.open_connection(*address, ssl=self._tls)

    async def _exchange(self, data: bytes, timeout: float) -> bytes:
        reader, writer = self._open()
        limit = asyncio.get_running_loop().call_later(timeout, writer.transport.abort)
        try:
            if data:
                writer.write(data)
                await writer.drain()
            return await reader.read(_CHUNK)
        finally:
            limit.cancel()

    def _check(self) -> None:
        reader, writer = self._open()
        if reader.at_eof() or writer.is_closing():
            raise ConnectionResetError("the server closed the connection")

    def _open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._streams is None:
            raise ConnectionResetError("not connected")
        return self._streams

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None

    def abandon(self) -> AsyncTransport:
        """Close the descriptor of this process alone, and return a new transport.

        To close the stream would take the socket out of the epoll set, which the parent still uses.
        """
        if self._streams is not None:
            _abandoned.append(self._streams)  # also its destructor would
            descriptor = self._streams[1].get_extra_info("socket").fileno()
            if descriptor >= 0:
                null = os.open(os.devnull, os.O_RDWR)
                os.dup2(null, descriptor, inheritable=False)
                os.close(null)
        return AsyncTransport(self._tls)


_abandoned: list[object] = []


class AsyncClient(AsyncCommands):
    """A client of redstalk or beanstalkd for asyncio, with the arguments and methods of :class:`Client`.

    Tasks can share a client, and take turns: give one that waits for jobs its own. A command whose task is cancelled closes the
    connection; it may have been carried out.
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
        self._transport = AsyncTransport(tls)
        self._lock = asyncio.Lock()
        renew_in_child(self)

    def _forked(self) -> None:
        self._lock = asyncio.Lock()
        self._session.forked()
        self._transport = self._transport.abandon()

    async def _run(self, steps: Steps[T]) -> T:
        async with self._lock:
            if self._session.closed:
                raise ClosedError("the client was closed")
            return await self._carry_out(steps)

    async def _carry_out(self, steps: Steps[T]) -> T:
        try:
            action = next(steps)
            while True:
                try:
                    result = await self._transport.perform(action)
                except BaseException as error:
                    action = steps.throw(error)
                else:
                    action = steps.send(result)
        except StopIteration as stop:
            value: T = stop.value
            return value

    async def close(self) -> None:
        """Close the connection. Jobs that are reserved go back, which is no failure."""
        async with self._lock:
            try:
                await self._carry_out(self._session.give_back())
            except (Error, OSError):
                pass  # they come again after their TTR
            finally:
                self._session.closed = True
                self._transport.close()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()
