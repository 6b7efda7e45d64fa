"""Jobs of an App in memory, for tests. Their handlers' results mean what they mean in a worker."""

from __future__ import annotations

import asyncio
import base64
import json
import re
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from . import request, text
from .backoff import exponential
from .call import Guarded
from .ended import Ended
from .errors import DuplicateError, InvalidArgumentError, NotFoundError, NotKeptError, TimedOutError, UnsupportedError
from .held import WorkerJob
from .job import Job, JobId, JobOrID
from .options import PutOptions, Tags
from .request import DEFAULT_DELAY, DEFAULT_PRIORITY, DEFAULT_TTR, Pending, Request
from .settler import Settler
from .text import Seconds

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .app import App

_UNITS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400, "": 1}
_PLAIN = ("tube", "priority", "ttr")  # the others are tags
_LACKING = ("batch", "after", "after_all")
_HOW = {"buried": "parked"}  # the others have the same name in a record


@dataclass(eq=False)
class MemoryJob:
    """A job that was put."""

    id: int
    body: bytes
    options: PutOptions  # with its tube

    #: waiting, reserved, done, deleted, buried (also if it has failed for good), or dead: it went to its dead-letter tube.
    state: str = "waiting"

    deliveries: int = 0
    reason: str = ""  # of the last failure
    error: BaseException | None = None  # the last exception of the handler
    waits: list[float] = field(default_factory=list)  #: after each failure that was followed by a retry, in seconds
    progress: str = ""
    checkpoint: bytes = b""
    result: bytes = b""
    failures: int = 0
    due: float = 0.0  # on the clock of the Memory
    ended: float = 0.0

    @property
    def type(self) -> str:
        """The name of the task."""
        return str(json.loads(self.body)["type"])

    @property
    def data(self) -> Any:
        """The arguments by name, or a list."""
        return json.loads(self.body)["data"]

    @property
    def value(self) -> Any:
        """What the task has returned; None if there is nothing."""
        return json.loads(self.result) if self.result else None


class Memory:
    """The jobs of an App. Their time is that of a clock of their own, which jumps to the next job that is due."""

    def __init__(self, app: App) -> None:
        self.jobs: list[MemoryJob] = []  #: all that were put, in this order
        self._app, self._now = app, 0.0
        self.client = MemoryClient(self)
        self._settler = Settler(self.client, exponential())  # type: ignore[arg-type]

    @property
    def waiting(self) -> list[MemoryJob]:
        """The jobs that drain would run, also those of the future."""
        return [job for job in self.jobs if job.state == "waiting"]

    def drain(self, *, most: int = 1000, raises: bool = True) -> list[MemoryJob]:
        """Run all jobs, also those that are put meanwhile and those of the future, without waiting, and return them.

        The exception of the first job that has failed for good is raised at the end, unless ``raises`` is false. RuntimeError:
        after so many deliveries there are still jobs.
        """
        return _checked([self.run(job) for job in self._deliveries(most)], raises)

    async def drain_async(self, *, most: int = 1000, raises: bool = True) -> list[MemoryJob]:
        """Do what drain does, with coroutines in this event loop."""
        return _checked([await self.run_async(job) for job in self._deliveries(most)], raises)

    def _deliveries(self, most: int) -> Iterator[MemoryJob]:
        error = None
        for _ in range(most):
            if not self.waiting:
                return
            yield (job := self.next())
            error = job.error or error
        if self.waiting:
            raise RuntimeError(f"there are still jobs after {most} deliveries") from error

    def next(self) -> MemoryJob:
        """Return the job that comes next. TimedOutError: there is none."""
        if not (waiting := self.waiting):
            raise TimedOutError("TIMED_OUT")
        job = min(waiting, key=lambda one: (max(one.due, self._now), one.options.get("priority", DEFAULT_PRIORITY), one.id))
        self._now = max(self._now, job.due)
        return job

    def run(self, job: MemoryJob) -> MemoryJob:
        """Run a job, where no event loop runs."""
        if _in_event_loop():
            raise RuntimeError("in an event loop, await drain_async or result_async")
        held = self._reserve(job)
        result, error = held.call.run(self._app.handle, held)
        if held.call.awaitable is not None:
            coroutine = Guarded(held.call.awaitable).outcome()
            result, error = held.call.context.run(lambda: asyncio.run(coroutine))
        return self._settle(job, held, result, error)

    async def run_async(self, job: MemoryJob) -> MemoryJob:
        held = self._reserve(job)
        result, error = held.call.run(self._app.handle, held)
        if held.call.awaitable is not None:
            coroutine = Guarded(held.call.awaitable).outcome()
            result, error = await held.call.context.run(lambda: asyncio.ensure_future(coroutine))
        return self._settle(job, held, result, error)

    def _reserve(self, job: MemoryJob) -> WorkerJob:
        job.state = "reserved"
        job.deliveries += 1
        options = job.options
        info = {"tube": options["tube"], "pri": options.get("priority", DEFAULT_PRIORITY), "ttr": options.get("ttr", DEFAULT_TTR),
                "deliveries": job.deliveries, "failures": job.failures, "reason": job.reason, "retry": options.get("retry"),
                "key": options.get("key", ""), "meta": options.get("meta", {}), "trace": options.get("trace", "")}  # fmt: skip
        if job.checkpoint:
            info["checkpoint"] = base64.b64encode(job.checkpoint)
        return WorkerJob(Job(job.id, job.body.decode(), "1", info, time.monotonic()), self._settler.client)

    def _settle(self, job: MemoryJob, held: WorkerJob, result: Any, error: BaseException | None) -> MemoryJob:
        if isinstance(error, KeyboardInterrupt):
            raise error
        job.error = error
        self._settler.settle(held, error, result)
        return job

    def put(self, body: bytes, priority: int, delay: Seconds, ttr: Seconds, options: PutOptions) -> JobId:
        tags = {key: value for key, value in options.items() if key not in _PLAIN}
        request.put(body, text.tube(options["tube"]), priority, delay, ttr, tags)  # type: ignore[arg-type]
        for name in _LACKING:
            if name in options:
                raise UnsupportedError(f"{name} in memory")
        _waits(options.get("retry"))
        if taken := self._with_key(options):
            id = JobId(taken.id)
            id.state = {"waiting": "READY", "reserved": "RESERVED", "buried": "BURIED"}.get(taken.state, "GONE")
            if options.get("on_duplicate") == "fail":
                raise DuplicateError(id)
            if options.get("on_duplicate") != "replace":
                return id
            self.end(taken, "deleted")
        wait = text.seconds(delay) if "at" not in options else max(options["at"].timestamp() - time.time(), 0)
        self.jobs.append(MemoryJob(len(self.jobs) + 1, body, options, due=self._now + wait))
        return JobId(len(self.jobs))

    def _with_key(self, options: PutOptions) -> MemoryJob | None:
        if "key" not in options:
            return None
        for job in reversed(self.jobs):
            if (job.options["tube"], job.options.get("key")) == (options["tube"], options["key"]):
                left = job.ended + text.seconds(job.options.get("key_ttl", 0)) - self._now
                return job if job.state in ("waiting", "reserved", "buried") or left > 0 else None
        return None

    def find(self, job: JobOrID) -> MemoryJob:
        id = request.id_of(job)
        if not 0 < id <= len(self.jobs):
            raise NotFoundError("NOT_FOUND")
        return self.jobs[id - 1]

    def end(self, job: MemoryJob, state: str) -> None:
        job.state, job.ended = state, self._now

    def come_again(self, job: MemoryJob, delay: Seconds, reason: str, failure: bool) -> None:
        wait = text.seconds(delay)
        if failure:
            job.failures += 1
            job.reason = reason
            waits = _waits(job.options.get("retry"))
            if waits is not None and job.failures > len(waits) or job.deliveries >= job.options.get("max_deliveries", 1 << 30):
                return self.end(job, "dead" if "dead" in job.options else "buried")
            wait = wait or (waits[job.failures - 1] if waits else 0)
            job.waits.append(wait)
        else:
            job.deliveries -= 1
        job.state, job.due = "waiting", self._now + wait


class MemoryClient:
    """The methods of a client that tasks and workers use."""

    def __init__(self, memory: Memory) -> None:
        self.memory = memory

    def capabilities(self) -> frozenset[str]:
        return frozenset(("meta", "results", "checkpoint", "progress"))

    def put(
        self, body: bytes, priority: int = DEFAULT_PRIORITY, delay: Seconds = DEFAULT_DELAY, ttr: Seconds = DEFAULT_TTR,
        *, tube: str = "default", **tags: Unpack[Tags],
    ) -> JobId:  # fmt: skip
        options = cast(PutOptions, {"tube": tube, "priority": priority, "ttr": ttr, **tags})
        return self.memory.put(body, priority, delay, ttr, options)

    def delete(self, job: JobOrID) -> None:
        self.memory.end(self.memory.find(job), "done")

    def finish(self, job: JobOrID, result: bytes) -> None:
        found = self.memory.find(job)
        found.result = result
        self.memory.end(found, "done")

    def bury(self, job: JobOrID, priority: int | None = None, *, reason: str = "") -> None:
        found = self.memory.find(job)
        found.reason = reason
        self.memory.end(found, "buried")

    def release(self, job: JobOrID, priority: int | None = None, delay: Seconds = 0, *, reason: str = "", failure: bool = True) -> None:
        self.memory.come_again(self.memory.find(job), delay, reason, failure)

    def checkpoint(self, job: JobOrID, data: bytes) -> None:
        self.memory.find(job).checkpoint = data

    def get_checkpoint(self, job: JobOrID) -> bytes:
        return self.memory.find(job).checkpoint

    def touching(self, job: JobOrID, progress: str | None) -> Request[None]:
        def read(_: Any) -> None:
            if progress is not None:
                self.memory.find(job).progress = progress

        return Request("", read)

    def ask_all(self, questions: Iterable[Request[Any]]) -> list[Pending[Any]]:
        calls = [Pending(question) for question in questions]
        for call in calls:
            call.succeed(call.request.read(None))  # type: ignore[arg-type]
        return calls

    def stats_job(self, job: JobOrID) -> dict[str, Any]:
        found = self.memory.find(job)
        return {**found.options, "id": found.id, "state": found.state, "failures": found.failures, "deliveries": found.deliveries}

    def wait(self, job: JobOrID, timeout: Seconds | None = None) -> Ended:
        """Run jobs until this one has ended."""
        while not (ended := self.ended(job)):
            self.memory.run(self.memory.next())
        return ended

    def ended(self, job: JobOrID) -> Ended | None:
        found = self.memory.find(job)
        if not text.seconds(found.options.get("keep", 0)):
            raise NotKeptError("NOT_KEPT")
        if found.state in ("waiting", "reserved"):
            return None
        return Ended(found.id, _HOW.get(found.state, found.state), found.result, found.reason)


class AsyncMemoryClient:
    """The methods of an AsyncClient that tasks use."""

    def __init__(self, client: MemoryClient) -> None:
        self._client = client

    async def capabilities(self) -> frozenset[str]:
        return self._client.capabilities()

    async def put(self, body: bytes, **options: Any) -> JobId:
        return self._client.put(body, **options)

    async def wait(self, job: JobOrID, timeout: Seconds | None = None) -> Ended:
        while not (ended := self._client.ended(job)):
            await self._client.memory.run_async(self._client.memory.next())
        return ended


def _checked(delivered: list[MemoryJob], raises: bool) -> list[MemoryJob]:
    """Return each job once. Raise the exception of the first that has failed for good, if that is wanted."""
    for job in delivered:
        if raises and job.state in ("buried", "dead") and job.error:
            raise job.error
    return list(dict.fromkeys(delivered))


def _waits(retry: Iterable[Seconds] | str | None) -> list[float] | None:
    """Return the waits of a retry list; None if there is none."""
    if retry is None:
        return None
    if not isinstance(retry, str):
        return [text.seconds(wait) for wait in retry]
    if exponential := re.fullmatch(r"exp\((\w+),(\w+),(\d+)\)", retry):
        first, longest = map(_seconds, exponential.groups()[:2])
        return [min(first * 2**n, longest) for n in range(int(exponential[3]))]
    return [_seconds(wait) for wait in retry.split(",")]


def _seconds(duration: str) -> float:
    parts = re.fullmatch(r"(\d+)(ms|[smhd]|)", duration)
    if not parts:
        raise InvalidArgumentError(f"duration {duration!r}")
    return int(parts[1]) * _UNITS[parts[2]]


def _in_event_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
