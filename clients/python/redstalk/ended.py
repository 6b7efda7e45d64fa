"""What became of jobs, and waiting for it."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from . import request, text
from .errors import EndedError, InternalError, NotFoundError, NotKeptError, TimedOutError
from .job import JobOrID
from .protocol import Reply
from .request import Burst, Pending, Request
from .text import Seconds

MAX_RESULT = 64 << 10  # bytes

_AT_ONCE = 500  # jobs for which one request asks
_ASKS = 2000  # jobs a second for which all waits of a client ask
_FIRST_PAUSE, _LONGEST_PAUSE = 0.002, 0.25  # seconds


@dataclass(slots=True)
class Ended:
    """What became of a job."""

    id: int

    #: done, deleted, expired, dead (it is a dead letter now), moved (to another tube), or parked: buried, which is no end, but the
    #: job does not go on by itself. Of :meth:`Client.wait_all` also not-found or not-kept: it cannot be waited for.
    how: str

    result: bytes = b""  # of a job that is done; empty if it has none
    reason: str = ""  # of a parked job, or in a record of the last failure
    to_tube: str = ""  # of a dead or moved job: where it is now
    to_id: int = 0  # the same: its id there

    #: The rest of a record: tube, key, group, batch, schedule, meta, put-ms, first-start-ms, ended-ms, until-ms, deliveries,
    #: failures and holder, if there are any. Empty after a wait.
    info: dict[str, Any] = field(default_factory=dict)

    def value(self) -> Any:
        """Return the result, which is JSON; None if there is none. Raise EndedError if the job was not done."""
        if self.how != "done":
            raise EndedError(self.id, self.how, self.reason)
        return json.loads(self.result) if self.result else None

    def known(self) -> Ended:
        """Return this, or raise NotFoundError or NotKeptError."""
        if self.how == "not-found":
            raise NotFoundError("NOT_FOUND")
        if self.how == "not-kept":
            raise NotKeptError("NOT_KEPT")
        return self


class Waiting:
    """The wait for some jobs: it says what to ask, and when again."""

    def __init__(self, jobs: Iterable[JobOrID], timeout: Seconds | None) -> None:
        self.left = dict.fromkeys(request.id_of(job) for job in jobs)
        self._began = time.monotonic()
        self._end = None if timeout is None else self._began + text.seconds(timeout)

    def round(self) -> Iterator[Request[list[Ended | None]]]:
        """Yield the requests for all jobs that have not ended. Their results have those that have, and None for each other."""
        ids = list(self.left)
        for at in range(0, len(ids), _AT_ONCE):
            yield Burst(Pending(self._question(id)) for id in ids[at : at + _AT_ONCE])

    def _question(self, id: int) -> Request[Ended | None]:
        return Request(f"wait-job {id} 0", partial(self._read, id), repeat=True, needs=[("results", "results")])

    def _read(self, id: int, reply: Reply) -> Ended | None:
        ended = _ended(id, reply)
        if ended:
            del self.left[id]
        return ended

    def pause(self, jobs: int) -> float:
        """Return for how many seconds to wait before the next round, if so many jobs are waited for. Raise TimedOutError at the end."""
        now = time.monotonic()
        pause = min(max((now - self._began) / 8, _FIRST_PAUSE), _LONGEST_PAUSE)
        pause = max(pause, jobs / _ASKS)
        if not self.left or self._end is None:
            return pause if self.left else 0
        if now >= self._end:
            raise TimedOutError(f"{len(self.left)} jobs have not ended in time")
        return min(pause, self._end - now)


def _ended(id: int, reply: Reply) -> Ended | None:
    """Return what a reply to wait-job says; None if the job has not ended, or the server does not know now."""
    match reply.word:
        case "TIMED_OUT":
            return None
        case "NOT_FOUND" | "NOT_KEPT":
            return Ended(id, reply.word.lower().replace("_", "-"))
        case "ENDED":
            ended = Ended(id, reply.args[1])
            if ended.how == "done":
                ended.result = reply.body
            elif ended.how == "parked":
                ended.reason = reply.body.decode()
            elif ended.how in ("dead", "moved"):
                ended.to_tube, to_id = reply.body.decode().split(" ")
                ended.to_id = int(to_id)
            return ended
    error = reply.error()
    if isinstance(error, InternalError):
        return None
    raise error


def record(id: int) -> Request[Ended]:
    """Return the command for the record of a job."""
    return request.extension(f"stats-ended {id}", "OK", lambda reply: _of_record(request.typed(reply)), "results", repeat=True)


def records(tube: str, batch: str, cursor: str) -> Request[tuple[list[Ended], str]]:
    """Return the command for a page of records, the newest first. Its result has the cursor of the next page."""

    def read(reply: Reply) -> tuple[list[Ended], str]:
        page = request.typed(reply)
        return [_of_record(one) for one in page["ended"]], page["next"]

    of = f"batch:{text.batch(batch)}" if batch else text.tube(tube)
    return request.extension(f"list-ended {of} 1000 {cursor}".rstrip(), "OK", read, "results", repeat=True)


def _of_record(info: dict[str, Any]) -> Ended:
    result = base64.b64decode(info.pop("result", ""))
    info.pop("result-bytes", None)
    return Ended(info.pop("id"), info.pop("how"), result, info.pop("reason", ""), info.pop("to-tube", ""), info.pop("to-id", 0), info)
