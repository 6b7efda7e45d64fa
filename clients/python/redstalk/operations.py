"""The commands that change what a client watches or holds, as steps that both clients carry out."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from typing import Any

from . import options, request, text
from .errors import InvalidArgumentError, JobTooBigError, NotFoundError, NotIgnoredError, TimedOutError
from .ended import MAX_RESULT
from .job import Job, JobId, JobOrID
from .protocol import Delivery, Reply
from .request import DEFAULT_PRIORITY, DEFAULT_TUBE, Request
from .session import Address, Session, Steps
from .text import Seconds

_LONGEST_WAIT = 30  # seconds that one reserve waits at the server; a longer one is several
MAX_BATCH = 100
MAX_CHECKPOINT = 64 << 10  # bytes


class Operations(Session):
    """A session with the commands that depend on its state."""

    def __init__(self, encoding: str | None, **settings: Any) -> None:
        super().__init__(**settings)
        self._encoding = encoding

    def put(self, body: bytes | str, tube: str | None, priority: int, delay: Seconds, ttr: Seconds, tags: options.Tags) -> Steps[JobId]:
        chosen = self.used if tube is None else text.tube(tube)
        return (yield from self.run(request.put(self.encoded(body), chosen, priority, delay, ttr, tags)))

    def encoded(self, body: bytes | str) -> bytes:
        """Return the body as it is sent."""
        if isinstance(body, bytes | bytearray | memoryview):
            return body
        if not isinstance(body, str):
            raise TypeError(f"a body is str or bytes, not {type(body).__name__}")
        if self._encoding is None:
            raise TypeError("Unable to encode string with no encoding set")
        return body.encode(self._encoding)

    def use(self, tube: str) -> Steps[None]:
        yield from self.run(Request(f"use {text.tube(tube)}", request.expect("USING", request.nothing), repeat=True))
        self.used = self._using = tube

    def watch(self, tube: str, weight: int) -> Steps[int]:
        return (yield from self.watch_only({**self.watched, text.tube(tube): weight}))

    def ignore(self, tube: str) -> Steps[int]:
        if tube in self.watched and len(self.watched) == 1:
            raise NotIgnoredError("NOT_IGNORED")
        return (yield from self.watch_only({one: weight for one, weight in self.watched.items() if one != tube}))

    def watch_only(self, tubes: dict[str, int]) -> Steps[int]:
        before = self.watched
        self.watched = {text.tube(tube): weight for tube, weight in tubes.items()} or {DEFAULT_TUBE: 0}
        try:
            if self.connected:
                yield from self.update_watches()
        except OSError:
            yield from self.drop()
        except GeneratorExit:
            raise
        except BaseException:
            self.watched = before
            yield from self.drop()
            raise
        yield from self.connect()
        return len(self.watched)

    def reserve(self, timeout: Seconds | None) -> Steps[Job]:
        jobs = yield from self.reserve_batch(1, timeout)
        if not jobs:
            raise TimedOutError("TIMED_OUT")
        return jobs[0]

    def reserve_batch(self, count: int, timeout: Seconds | None) -> Steps[list[Job]]:
        """Reserve up to count jobs: with beanstalkd one."""
        if count < 1:
            raise InvalidArgumentError(f"a batch of {count}")
        end = None if timeout is None else time.monotonic() + text.seconds(timeout)
        while True:
            left = _LONGEST_WAIT if end is None else text.whole(end - time.monotonic())
            wait = min(left, _LONGEST_WAIT)
            jobs = yield from self.run(self._take(min(count, MAX_BATCH), wait))
            if jobs or end is not None and time.monotonic() >= end:
                return jobs

    def _take(self, count: int, wait: int) -> Request[list[Job]]:
        sent = time.monotonic()

        def read(reply: Reply) -> list[Job]:
            if reply.word == "TIMED_OUT":
                return []
            if reply.word not in ("RESERVED", "RESERVED_BATCH"):
                raise reply.error()
            jobs = [self._job(delivery, sent) for delivery in reply.jobs]
            for job in jobs:
                self.hold(job)
            return jobs

        return Request(
            f"reserve-batch {count} {wait} lease info", read, repeat=True, wait=wait,
            needs=[("lease", ""), ("info", "")], plain=f"reserve-with-timeout {wait}",
        )  # fmt: skip

    def reserve_job(self, id: int) -> Steps[Job]:
        sent = time.monotonic()

        def read(reply: Reply) -> Job:
            if reply.word != "RESERVED":
                raise reply.error()
            job = self._job(reply.jobs[0], sent)
            self.hold(job)
            return job

        return (yield from self.run(Request(f"reserve-job {int(id)}", read)))

    def peek(self, line: str) -> Steps[Job]:
        return (yield from self.run(Request(line, self.found, repeat=True, tube=self.used if "-" in line else "")))

    def found(self, reply: Reply) -> Job:
        if reply.word != "FOUND":
            raise reply.error()
        return Job(reply.jobs[0].id, self._decoded(reply.body))

    def _job(self, delivery: Delivery, sent: float) -> Job:
        info = json.loads(delivery.info) if delivery.info else {}
        owner = 0 if delivery.lease else self.connection
        return Job(delivery.id, self._decoded(delivery.body), delivery.lease, info, sent, owner)

    def _decoded(self, body: bytes) -> bytes | str:
        if self._encoding is None:
            return body
        try:
            return body.decode(self._encoding)
        except UnicodeDecodeError:
            return body

    def finish_with(self, job: JobOrID, result: bytes | str) -> Request[None]:
        """Return the command that finishes a reserved job with a result."""
        body = self.encoded(result)
        if len(body) > MAX_RESULT:
            raise JobTooBigError(f"a result of {len(body)} bytes")
        return self.finish("finish", job, f" {len(body)}", "FINISHED", body=body, needs="results")

    def touch(self, job: JobOrID, progress: str | None) -> Request[None]:
        tags = "" if progress is None else f" progress:{text.progress(progress)}"
        return self.finish("touch", job, "", "TOUCHED", tags, needs="progress")

    def checkpoint(self, job: JobOrID, data: bytes | str) -> Request[None]:
        body = self.encoded(data)
        if len(body) > MAX_CHECKPOINT:
            raise JobTooBigError(f"a checkpoint of {len(body)} bytes")
        return self.finish("checkpoint", job, f" {len(body)}", "SAVED", body=body, needs="checkpoint")

    def finish(
        self, verb: str, job: JobOrID, args: str, word: str, tags: str = "", body: bytes | None = None, needs: str = "reason"
    ) -> Request[None]:
        """Return a command about a reservation, or about a job that nobody has reserved.

        A server that lacks the capability ``needs`` gets it without tags; with a body that is an error.
        """
        id = job.id if isinstance(job, Job) else int(job)
        held = job if isinstance(job, Job) and (job.lease or job.connection) else self.held.get(id)
        lease = held.lease if held else ""
        plain = f"{verb}-lease {id} {lease}{args}" if lease else f"{verb} {id}{args}"
        ends = verb not in ("touch", "checkpoint")

        def read(reply: Reply) -> None:
            if reply.word == "NOT_FOUND" or ends and reply.word == word:
                self._forget(id, lease)
            if reply.word != word:
                raise reply.error()

        command = Request(plain + tags, read, repeat=bool(lease))
        if tags:
            command.needs, command.plain = [(needs, "")], plain
        if body is not None:
            command.needs, command.body = [(needs, needs)], body
        if held and not lease:
            command.connection = held.connection
        return command

    def release(self, job: JobOrID, priority: int | None, delay: Seconds, reason: str, failure: bool) -> Request[None]:
        tags = "" if failure else " failure:no"
        if reason and failure:
            tags = f" reason:{text.reason(reason)}"
        return self.finish("release", job, f" {self._priority(job, priority)} {text.whole(delay)}", "RELEASED", tags)

    def bury(self, job: JobOrID, priority: int | None, reason: str) -> Request[None]:
        tags = f" reason:{text.reason(reason)}" if reason else ""
        return self.finish("bury", job, f" {self._priority(job, priority)}", "BURIED", tags)

    def _priority(self, job: JobOrID, given: int | None) -> int:
        """Return the given priority, or else the one that the job has, if that is known."""
        if given is not None:
            return given
        held = job if isinstance(job, Job) else self.held.get(job)
        return int(held.info.get("pri", DEFAULT_PRIORITY)) if held else DEFAULT_PRIORITY

    def _forget(self, id: int, lease: str) -> None:
        held = self.held.get(id)
        if held and held.lease == lease:
            del self.held[id]

    def give_back(self) -> Steps[None]:
        """Release the jobs that are held by leases, as the end of the connection does with others. That is no failure."""
        if self.connected and self.leases:
            for job in list(self.held.values()):
                try:
                    yield from self.run(self.release(job, None, 0, "", False))
                except NotFoundError:
                    pass

    def kick(self, bound: int, keep_checkpoint: bool) -> Request[int]:
        command = Request(f"kick {int(bound)}", request.expect("KICKED", request.count), tube=self.used)
        return request.kicking(command, keep_checkpoint)

    def listed(self, tube: str, state: str, count: int, cursor: str) -> Request[dict[str, Any]]:
        line = f"list-jobs {text.tube(tube)} {text.word('state', state)} {count} {cursor}".rstrip()
        return request.extension(line, "OK", request.page, "list-jobs", repeat=True)


def addresses_of(address: Address | Iterable[Address]) -> list[Address]:
    """Return the addresses of one, of a list, or of a str such as "a:11300,b:11300" or "unix:/run/redstalk.sock"."""
    if isinstance(address, tuple) and len(address) == 2 and isinstance(address[1], int):
        return [(str(address[0]), address[1])]
    if not isinstance(address, str):
        return [one for part in address for one in addresses_of(part)]  # type: ignore[arg-type]
    return [_address(part.strip()) for part in address.split(",") if part.strip()]


def _address(part: str) -> Address:
    if part.startswith("unix:") or "/" in part:
        return part.removeprefix("unix:")
    host, colon, port = part.rpartition(":")
    if not colon:
        return part, 11300
    if not port.isdecimal():
        raise InvalidArgumentError(f"address {part!r}")
    return host.strip("[]"), int(port)
