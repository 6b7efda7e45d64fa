"""Batches: sets of jobs after which other jobs run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import request
from .job import JobId, Stats
from .options import PutOptions

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .aio_commands import AsyncCommands
    from .commands import Commands


class Batch:
    """A batch on the server, as :meth:`Client.batch` returns it. The first command creates it."""

    def __init__(self, client: Commands, name: str) -> None:
        self.name = name
        self._client = client

    def add(self, body: bytes | str, **options: Unpack[PutOptions]) -> JobId:
        """Put a job that is a member. After seal it raises BatchSealedError."""
        options["batch"] = self.name
        return self._client.put(body, **options)

    def then(self, body: bytes | str, **options: Unpack[PutOptions]) -> JobId:
        """Put a job that runs when the batch is sealed and all members are deleted. Once that is impossible it is buried."""
        options["after"] = self.name
        return self._client.put(body, **options)

    def then_all(self, body: bytes | str, **options: Unpack[PutOptions]) -> JobId:
        """Put a job that runs when the batch is sealed and all members have ended, however they did."""
        options["after_all"] = self.name
        return self._client.put(body, **options)

    def seal(self) -> None:
        """Say that no more members come. The jobs after the batch do not run before."""
        self._client._ask(request.batch("seal-batch", self.name, "SEALED", request.nothing))

    def stats(self) -> Stats:
        """Return the state and the counts of the batch, and the first jobs after it."""
        return self._client._ask(request.batch("stats-batch", self.name, "OK", request.typed))

    def cancel(self) -> int:
        """Seal the batch, delete the members that are not reserved, and return their number."""
        command = request.batch("cancel-batch", self.name, "CANCELLED", request.count, repeat=False)
        return self._client._ask(command)


class AsyncBatch:
    """A batch on the server, as :meth:`AsyncClient.batch` returns it. The first command creates it."""

    def __init__(self, client: AsyncCommands, name: str) -> None:
        self.name = name
        self._client = client

    async def add(self, body: bytes | str, **options: Unpack[PutOptions]) -> JobId:
        """Put a job that is a member. After seal it raises BatchSealedError."""
        options["batch"] = self.name
        return await self._client.put(body, **options)

    async def then(self, body: bytes | str, **options: Unpack[PutOptions]) -> JobId:
        """Put a job that runs when the batch is sealed and all members are deleted. Once that is impossible it is buried."""
        options["after"] = self.name
        return await self._client.put(body, **options)

    async def then_all(self, body: bytes | str, **options: Unpack[PutOptions]) -> JobId:
        """Put a job that runs when the batch is sealed and all members have ended, however they did."""
        options["after_all"] = self.name
        return await self._client.put(body, **options)

    async def seal(self) -> None:
        """Say that no more members come. The jobs after the batch do not run before."""
        await self._client._ask(request.batch("seal-batch", self.name, "SEALED", request.nothing))

    async def stats(self) -> Stats:
        """Return the state and the counts of the batch, and the first jobs after it."""
        return await self._client._ask(request.batch("stats-batch", self.name, "OK", request.typed))

    async def cancel(self) -> int:
        """Seal the batch, delete the members that are not reserved, and return their number."""
        command = request.batch("cancel-batch", self.name, "CANCELLED", request.count, repeat=False)
        return await self._client._ask(command)
