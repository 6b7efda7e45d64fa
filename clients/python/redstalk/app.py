"""Functions as tasks, for those who come from rq or dramatiq."""

from __future__ import annotations

import functools
import inspect
import json
from collections.abc import Callable, Iterable, Mapping
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, cast

from .client import Client
from .held import Skip, WorkerJob, limit
from .job import JobId, JobOrID
from .options import PutOptions, check
from .session import Address
from .text import Seconds
from .worker import Worker

if TYPE_CHECKING:
    from typing_extensions import Unpack

P = ParamSpec("P")
R = TypeVar("R")

_current: ContextVar[WorkerJob] = ContextVar("the job whose task runs")


class App:
    """Tasks, and the server that has their jobs. ``settings`` are those of :class:`Client`."""

    def __init__(self, address: Address | Iterable[Address] = ("127.0.0.1", 11300), **settings: Any) -> None:
        self._address, self._settings = address, settings
        self.tasks: dict[str, Task[Any, Any]] = {}
        self.client = Client(address, **settings)

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

    def worker(self, tubes: Mapping[str, int] | Iterable[str] = (), concurrency: int = 10, **settings: Any) -> Worker:
        """Return a worker for these tubes, by default those of all tasks; the settings are those of a Worker."""
        chosen = tubes or {task.options.get("tube", "default") for task in self.tasks.values()}
        return Worker(self._address, chosen, concurrency, **{**self._settings, **settings})

    def run(self, tubes: Mapping[str, int] | Iterable[str] = (), concurrency: int = 10, **settings: Any) -> int:
        """Run the tasks until a signal comes."""
        return self.worker(tubes, concurrency, **settings).run(self.handle)

    def handle(self, job: WorkerJob) -> Any:
        """Call the task of a job: the handler of a Worker."""
        try:
            message = json.loads(job.body)
            task = self.tasks[message["task"]]
            args, kwargs = message["args"], message["kwargs"]
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
        return self._put(args, kwargs, {})

    def send_with_options(
        self, args: Iterable[Any] = (), kwargs: Mapping[str, Any] | None = None, **options: Unpack[PutOptions]
    ) -> JobId:
        """Put a job with options that replace those of the task."""
        return self._put(tuple(args), dict(kwargs or {}), options)

    def result(self, job: JobOrID, timeout: Seconds | None = None) -> R:
        """Wait for the end of a job that was sent with keep, and return what the function has returned, as JSON has it.

        EndedError: it has failed for good. TimedOutError: it has not ended in that time.
        """
        return cast(R, self.app.client.wait(job, timeout).value())

    def _put(self, args: tuple[Any, ...], kwargs: dict[str, Any], options: PutOptions) -> JobId:
        inspect.signature(self.function).bind(*args, **kwargs)  # wrong arguments fail here, not in a worker
        body = json.dumps({"task": self.name, "args": args, "kwargs": kwargs}, separators=(",", ":"))
        merged = cast(PutOptions, {"tube": "default", **self.options, **options})
        return self.app.client.put(body.encode(), **merged)
