"""Puts jobs into the work queue redstalk, or beanstalkd, and runs workers."""

from .aio import AsyncClient
from .app import App, Task
from .backoff import exponential, intervals
from .batches import AsyncBatch, Batch
from .call import HandlerTimeout
from .client import Client
from .ended import Ended
from .errors import *  # noqa: F403
from .job import Job, JobId, Stats
from .options import GroupLimits, Policy, PutOptions, ScheduleOptions, Tags
from .request import DEFAULT_DELAY, DEFAULT_PRIORITY, DEFAULT_TTR, DEFAULT_TUBE
from .held import NotFinished, Skip, Snooze, WorkerJob
from .worker import Worker

__all__ = [
    "App",
    "AsyncBatch",
    "AsyncClient",
    "BadFormatError",
    "Batch",
    "BatchSealedError",
    "BeanstalkdError",
    "BuriedError",
    "Client",
    "ClosedError",
    "DEFAULT_DELAY",
    "DEFAULT_PRIORITY",
    "DEFAULT_TTR",
    "DEFAULT_TUBE",
    "DeadlineSoonError",
    "DrainingError",
    "DuplicateError",
    "Ended",
    "EndedError",
    "Error",
    "ExpectedCrlfError",
    "ForbiddenError",
    "GroupLimits",
    "HandlerTimeout",
    "InternalError",
    "InvalidArgumentError",
    "Job",
    "JobId",
    "JobTooBigError",
    "NotFinished",
    "NotFoundError",
    "NotIgnoredError",
    "NotKeptError",
    "OutOfMemoryError",
    "Policy",
    "PutOptions",
    "ScheduleOptions",
    "Skip",
    "Snooze",
    "Stats",
    "Tags",
    "Task",
    "TimedOutError",
    "UnauthorizedError",
    "UnavailableError",
    "UnknownCommandError",
    "UnknownOutcomeError",
    "UnknownResponseError",
    "UnsupportedError",
    "Worker",
    "WorkerJob",
    "exponential",
    "intervals",
]
