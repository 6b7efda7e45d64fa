"""Requests: what is sent, and what its reply means. All clients share them."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Generic, TypeVar

from . import options, text
from .errors import BadFormatError, DuplicateError, Error, InvalidArgumentError, UnknownResponseError, UnsupportedError
from .job import Job, JobId, JobOrID
from .protocol import Reply

T = TypeVar("T")

DEFAULT_TUBE = "default"
DEFAULT_PRIORITY = 1024
DEFAULT_DELAY = 0
DEFAULT_TTR = 60


@dataclass(slots=True)
class Request(Generic[T]):
    """A command, and how to read its reply."""

    line: str
    read: Callable[[Reply], T]
    body: bytes | None = None
    tube: str = ""  # to be used before; empty: it does not matter
    repeat: bool = False  # it can be sent again if its reply is lost
    wait: float = 0  # how long the server can take, beside the reply timeout
    needs: list[tuple[str, str]] = field(default_factory=list)  # capabilities with the feature for the error
    plain: str = ""  # the line for a server that lacks a capability in needs, if there is one
    connection: int = 0  # the only connection on which it makes sense, if not 0
    fails_over: bool = False  # to another address if this server drains

    @property
    def shares(self) -> bool:
        """Whether it can be a part of a burst."""
        return self.repeat and not self.tube and not self.connection

    def encoded(self, capabilities: frozenset[str]) -> bytes:
        """Return what is sent to a server with these capabilities."""
        data = self._line(capabilities).encode() + b"\r\n"
        return data if self.body is None else data + self.body + b"\r\n"

    def _line(self, capabilities: frozenset[str]) -> str:
        for capability, feature in self.needs:
            if capability not in capabilities:
                if self.plain:
                    return self.plain
                raise UnsupportedError(feature)
        return self.line

    def result(self, reply: Reply) -> T:
        """Return what the last reply means."""
        try:
            return self.read(reply)
        except BadFormatError as error:
            raise BadFormatError(f"{error} ({self.line.split()[0]})") from None
        except (ValueError, IndexError) as error:
            if isinstance(error, Error):
                raise
            raise UnknownResponseError(str(error)) from error

    def lacks(self, reply: Reply) -> bool:
        """Take a reply, and report whether another one is to come."""
        return False


class Pending(Generic[T]):
    """A request, and its result or exception when it is done."""

    __slots__ = ("request", "done", "_result", "error")

    def __init__(self, request: Request[T]) -> None:
        self.request = request
        self.done = False
        self.error: BaseException | None = None

    def answer(self, reply: Reply) -> None:
        try:
            self.succeed(self.request.result(reply))
        except UnknownResponseError:
            raise  # the connection is of no more use
        except Error as error:
            self.fail(error)

    def succeed(self, result: T) -> None:
        self._result, self.done = result, True

    def fail(self, error: BaseException) -> None:
        self.error, self.done = error, True

    def value(self) -> T:
        if self.error is not None:
            raise self.error
        return self._result


class Burst(Request[list[Any]]):
    """Requests that share a packet and a round trip. If the connection is lost, those are repeated that have no reply."""

    def __init__(self, calls: Iterable[Pending[Any]]) -> None:
        super().__init__("", lambda _: [call.value() for call in self.calls], repeat=True)
        self.calls = list(calls)
        self._sent: deque[Pending[Any]] = deque()

    @property
    def shares(self) -> bool:
        return False

    def encoded(self, capabilities: frozenset[str]) -> bytes:
        parts = []
        fault: Exception = UnsupportedError("")
        self._sent.clear()
        for call in self.calls:
            if not call.done:
                try:
                    parts.append(call.request.encoded(capabilities))
                    self._sent.append(call)
                except Exception as error:  # such as UnsupportedError
                    fault = error
                    call.fail(error)
        if not parts:
            raise fault
        return b"".join(parts)

    def lacks(self, reply: Reply) -> bool:
        self._sent.popleft().answer(reply)
        return bool(self._sent)


def expect(word: str, result: Callable[[Reply], T]) -> Callable[[Reply], T]:
    """Return a reader that raises unless the reply has this word."""

    def read(reply: Reply) -> T:
        if reply.word != word:
            raise reply.error()
        return result(reply)

    return read


def nothing(reply: Reply) -> None:
    """Ignore what follows the word."""


def count(reply: Reply) -> int:
    return int(reply.args[0])


def page(reply: Reply) -> dict[str, Any]:
    return text.page(reply.body)


def names(reply: Reply) -> list[str]:
    return text.names(reply.body)


def simple(line: str, word: str) -> Request[None]:
    """Return a command that changes something and has no result."""
    return Request(line, expect(word, nothing))


def extension(line: str, word: str, result: Callable[[Reply], T], capability: str, repeat: bool = False) -> Request[T]:
    """Return a command that beanstalkd does not have."""
    return Request(line, expect(word, result), needs=[(capability, line.split(" ")[0])], repeat=repeat)


def kicking(command: Request[T], keep_checkpoint: bool) -> Request[T]:
    """Return a kick or replay that keeps the checkpoints, or the same."""
    if keep_checkpoint:
        command.line += " keep-checkpoint"
        command.needs.append(("checkpoint", "checkpoint"))
    return command


def checkpoint(job: JobOrID) -> Request[bytes]:
    """Return the command that reads a checkpoint."""
    return extension(f"get-checkpoint {id_of(job)}", "OK", lambda reply: reply.body, "checkpoint", repeat=True)


def paged(line: str) -> Request[dict[str, Any]]:
    """Return a command that only reads a page."""
    return Request(line, expect("OK", page), repeat=True)


def batch(verb: str, name: str, word: str, result: Callable[[Reply], T], repeat: bool = True) -> Request[T]:
    """Return a command about a batch."""
    return extension(f"{verb} {text.batch(name)}", word, result, "batches", repeat)


def schedule(verb: str, name: str, word: str, result: Callable[[Reply], T], repeat: bool = True) -> Request[T]:
    """Return a command about a schedule."""
    return extension(f"{verb} {text.tube(name)}", word, result, "schedules", repeat)


def schedules(cursor: str) -> Request[dict[str, Any]]:
    """Return the command for a page of schedules."""
    return extension(f"list-schedules 100 {cursor}".rstrip(), "OK", typed, "schedules", repeat=True)


def set_schedule(
    name: str, tube: str, body: bytes, priority: int, delay: text.Seconds, ttr: text.Seconds, tags: options.ScheduleOptions
) -> Request[None]:
    """Return the command that sets a schedule. To send it again does no harm."""
    if not 0 <= priority < 2**32:
        raise InvalidArgumentError(f"priority {priority}")
    line = f"set-schedule {text.tube(name)} {text.tube(tube)} {priority} {max(text.whole(ttr), 1)} {len(body)}"
    if text.seconds(delay):
        line += f" delay:{text.duration(delay)}"
    command = extension(line + options.line(options.pairs(tags)), "SET", nothing, "schedules", repeat=True)
    command.body = body
    return command


def preview(what: str, count: int, tags: str = "") -> Request[list[datetime]]:
    """Return the command for the next times of a schedule, or of an expression in quotes."""
    return extension(f"preview-schedule {what} {int(count)}{tags}", "OK", _times, "schedules", repeat=True)


def _times(reply: Reply) -> list[datetime]:
    return [datetime.fromisoformat(one.replace("Z", "+00:00")) for one in names(reply)]  # Python 3.10 reads no Z


def typed(reply: Reply) -> dict[str, Any]:
    """Read a page about batches or schedules, whose flags are bools and whose names are str, also if they are digits."""
    return {key: _typed(key, value) for key, value in page(reply).items()}


def _typed(key: str, value: Any) -> Any:
    if isinstance(value, list):
        return [{name: _typed(name, one) for name, one in item.items()} for item in value]
    if key in ("sealed", "paused", "all"):
        return value == "true"
    return str(value) if key in ("name", "tube", "batch", "next", "schedule", "to-tube") else value


def group(verb: str, tube: str, name: str) -> str:
    return f"{verb} {text.tube(tube)} {text.quoted(name)}"


def id_of(job: JobOrID) -> int:
    return job.id if isinstance(job, Job) else int(job)


def put(body: bytes, tube: str, priority: int, delay: text.Seconds, ttr: text.Seconds, tags: options.Tags) -> Request[JobId]:
    """Return a put. Fractions of a delay need redstalk; beanstalkd gets whole seconds."""
    if not 0 <= priority < 2**32:
        raise InvalidArgumentError(f"priority {priority}")
    plain = f"put {priority} {text.whole(delay)} {max(text.whole(ttr), 1)} {len(body)}"
    due = tags.get("at")
    if not tags and (isinstance(delay, int) or text.seconds(delay) == text.whole(delay)):
        return Request(plain, inserted, body, tube, fails_over=True)
    pairs = options.pairs(tags)
    needed = options.needs(pair for pair in pairs if pair[0] != "at")
    line = plain
    if due is None and text.seconds(delay) != text.whole(delay):
        line += f" delay:{text.duration(delay)}"
    line += options.line(pairs)
    if due and not needed:
        plain = f"put {priority} {_until(due)} {max(text.whole(ttr), 1)} {len(body)}"
    if not needed:  # only at or a fraction of the delay
        return Request(line, inserted, body, tube, needs=[("put-tags", "")], plain=plain, fails_over=True)
    return Request(line, inserted, body, tube, options.idempotent(tags), needs=needed, fails_over=True)


def _until(due: datetime) -> int:
    return text.whole(due.timestamp() - time.time())


def inserted(reply: Reply) -> JobId:
    if reply.word != "INSERTED":
        if reply.word == "DUPLICATE":
            raise DuplicateError(int(reply.args[0]))
        raise reply.error()
    id = JobId(reply.args[0])
    if len(reply.args) > 1:
        id.state = reply.args[1]
    return id
