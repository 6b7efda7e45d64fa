"""Functions as tasks, for those who come from rq, dramatiq, arq or celery."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Callable, Coroutine, Iterable, Mapping
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, cast, overload

from . import envelope, request
from .aio import AsyncClient
from .client import Client
from .held import Skip, WorkerJob, limit
from .job import JobId, JobOrID
from .options import PutOptions, ScheduleOptions, check
from .request import DEFAULT_DELAY, DEFAULT_PRIORITY, DEFAULT_TTR
from .session import Address
from .text import Seconds
from .worker import Worker

if TYPE_CHECKING:
    from typing_extensions import Unpack

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

_current: ContextVar[WorkerJob] = ContextVar("the job whose task runs")


class App:
    """Tasks, and the server that has their jobs. ``settings`` are those of :class:`Client`."""

    def __init__(self, address: Address | Iterable[Address] = ("127.0.0.1", 11300), **settings: Any) -> None:
        self._address, self._settings = address, settings
        self.tasks: dict[str, Task[Any, Any]] = {}
        self.client = Client(address, **settings)
        self._async_clients: dict[asyncio.AbstractEventLoop, AsyncClient] = {}
        self._schedules: dict[str, request.Request[None]] = {}  # by name, with the command that sets each

    def async_client(self) -> AsyncClient:
        """Return the client of the running event loop."""
        for loop in [loop for loop in self._async_clients if loop.is_closed()]:
            del self._async_clients[loop]
        loop = asyncio.get_running_loop()
        if loop not in self._async_clients:
            self._async_clients[loop] = AsyncClient(self._address, **self._settings)
        return self._async_clients[loop]

    def task(
        self, *, name: str = "", timeout: float | None = None, **options: Unpack[PutOptions]
    ) -> Callable[[Callable[P, R]], Task[P, R]]:
        """Make a task of a function. Its arguments travel as JSON. The options, such as tube and retry, are those of a put.

        ``timeout`` is how long it can run, in seconds; 0 is no limit, and None that of the worker.
        """

        def decorate(function: Callable[P, R]) -> Task[P, R]:
            task = Task(self, name or function.__name__, function, options, timeout)
            if task.name in self.tasks:
                raise ValueError(f"two tasks are called {task.name}")
            self.tasks[task.name] = task
            return task

        return decorate

    def cron(
        self, expression: str = "", *, name: str = "", args: Iterable[Any] = (), kwargs: Mapping[str, Any] | None = None,
        **options: Unpack[ScheduleOptions],
    ) -> Callable[[Task[P, R]], Task[P, R]]:  # fmt: skip
        """Send a task at each time of a schedule, which has either an expression or ``every``. Workers set it when they start.

        ``name`` is that of the schedule, by default that of the task. The other options are those of a schedule; they replace those
        of the task, without its ``at`` and ``on_duplicate``.
        """
        check(options, ScheduleOptions.__optional_keys__ - {"cron"})
        if bool(expression) == ("every" in options):
            raise ValueError("a schedule has either an expression or every")

        def decorate(task: Task[P, R]) -> Task[P, R]:
            if not isinstance(task, Task):
                raise TypeError("put @app.cron above @app.task")
            chosen = name or task.name
            if chosen in self._schedules:
                raise ValueError(f"two schedules are called {chosen}")
            times = cast(ScheduleOptions, {**options, "cron": expression} if expression else options)
            self._schedules[chosen] = task.schedule(chosen, tuple(args), dict(kwargs or {}), times)
            return task

        return decorate

    def set_schedules(self, client: Client | None = None) -> None:
        """Set the schedules of cron at the server. That is what workers begin with; to do it again is harmless."""
        for call in (client or self.client).ask_all(self._schedules.values()):
            call.value()

    def worker(self, tubes: Mapping[str, int] | Iterable[str] = (), concurrency: int = 10, **settings: Any) -> Worker:
        """Return a worker for these tubes, by default those of all tasks; the settings are those of a Worker."""
        chosen = tubes or {task.options.get("tube", "default") for task in self.tasks.values()}
        worker = Worker(self._address, chosen, concurrency, **{**self._settings, **settings})
        worker.first.append(self.set_schedules)
        return worker

    def run(self, tubes: Mapping[str, int] | Iterable[str] = (), concurrency: int = 10, **settings: Any) -> int:
        """Run the tasks until a signal comes, as :meth:`Worker.run`."""
        return self.worker(tubes, concurrency, **settings).run(self._handler())

    async def run_async(self, tubes: Mapping[str, int] | Iterable[str] = (), concurrency: int = 10, **settings: Any) -> int:
        """Run the tasks, coroutines in this event loop, until a signal comes or this is cancelled, as :meth:`Worker.run_async`."""
        return await self.worker(tubes, concurrency, **settings).run_async(self._handler())

    def _handler(self) -> Callable[[WorkerJob], Any]:
        async def handle(job: WorkerJob) -> Any:
            return await self.handle(job)

        return handle if all(inspect.iscoroutinefunction(task.function) for task in self.tasks.values()) else self.handle

    def handle(self, job: WorkerJob) -> Any:
        """Call the task of a job: the handler of a Worker."""
        try:
            name, args, kwargs = envelope.decoded(job.body)
            task = self.tasks[name]
        except (ValueError, LookupError, TypeError) as error:
            raise Skip(f"no task for this job: {error!r}") from error
        if task.timeout is not None:
            job.set_timeout(task.timeout)
        _current.set(job)
        return task.function(*args, **kwargs)

    def current_job(self) -> WorkerJob:
        """Return the job of the task that runs here: its progress, checkpoints and so on. LookupError: none does."""
        return _current.get()


class Task(Generic[P, R]):
    """A function that can be called here, or sent to a worker."""

    def __init__(self, app: App, name: str, function: Callable[P, R], options: PutOptions, timeout: float | None = None) -> None:
        functools.update_wrapper(self, function)
        check(options, PutOptions.__optional_keys__)
        self.timeout = None if timeout is None else limit(timeout)
        self.app, self.name, self.function, self.options = app, name, function, options

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.function(*args, **kwargs)

    def send(self, *args: P.args, **kwargs: P.kwargs) -> JobId:
        """Put a job that calls the function with these arguments."""
        return self.send_with_options(args, kwargs)

    def send_with_options(
        self, args: Iterable[Any] = (), kwargs: Mapping[str, Any] | None = None, **options: Unpack[PutOptions]
    ) -> JobId:
        """Put a job with options that replace those of the task."""
        body, client = self._body(args, kwargs), self.app.client
        return client.put(body, **self._options(options, client.capabilities()))

    async def send_async(self, *args: P.args, **kwargs: P.kwargs) -> JobId:
        """Do what send does, in an event loop."""
        return await self.send_with_options_async(args, kwargs)

    async def send_with_options_async(
        self, args: Iterable[Any] = (), kwargs: Mapping[str, Any] | None = None, **options: Unpack[PutOptions]
    ) -> JobId:
        """Do what send_with_options does, in an event loop."""
        body, client = self._body(args, kwargs), self.app.async_client()
        return await client.put(body, **self._options(options, await client.capabilities()))

    @overload
    def result(self: Task[P, Coroutine[Any, Any, T]], job: JobOrID, timeout: Seconds | None = None) -> T: ...

    @overload
    def result(self, job: JobOrID, timeout: Seconds | None = None) -> R: ...

    def result(self, job: JobOrID, timeout: Seconds | None = None) -> Any:
        """Wait for the end of a job that was sent with keep, and return what the function has returned, as JSON has it.

        EndedError: it has failed for good. TimedOutError: it has not ended in that time.
        """
        return self.app.client.wait(job, timeout).value()

    @overload
    async def result_async(self: Task[P, Coroutine[Any, Any, T]], job: JobOrID, timeout: Seconds | None = None) -> T: ...

    @overload
    async def result_async(self, job: JobOrID, timeout: Seconds | None = None) -> R: ...

    async def result_async(self, job: JobOrID, timeout: Seconds | None = None) -> Any:
        """Do what result does, in an event loop."""
        return (await self.app.async_client().wait(job, timeout)).value()

    def schedule(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], times: ScheduleOptions) -> request.Request[None]:
        """Return the command that sets a schedule for the task."""
        put = self._options(cast(PutOptions, times), {"meta"})
        tube, priority = put.pop("tube"), put.pop("priority", DEFAULT_PRIORITY)
        delay, ttr = put.pop("delay", DEFAULT_DELAY), put.pop("ttr", DEFAULT_TTR)
        tags = cast(ScheduleOptions, {key: value for key, value in put.items() if key in ScheduleOptions.__optional_keys__})
        return request.set_schedule(name, tube, self._body(args, kwargs), priority, delay, ttr, tags)

    def _body(self, args: Iterable[Any], kwargs: Mapping[str, Any] | None) -> bytes:
        return envelope.encoded(self.name, inspect.signature(self.function), tuple(args), kwargs or {})

    def _options(self, options: PutOptions, capabilities: Iterable[str]) -> PutOptions:
        """Return the options of a put to a server that can do this."""
        merged = cast(PutOptions, {"tube": "default", **self.options, **options})
        if "meta" in capabilities:
            merged["meta"] = {**envelope.CONTENT_TYPE, **(merged.get("meta") or {})}
        return merged
