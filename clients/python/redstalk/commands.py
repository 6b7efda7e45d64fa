"""The commands of the synchronous client; those of beanstalkd have the names that greenstalk gives them."""

from __future__ import annotations

import time
from collections.abc import Iterator, Iterable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar

from . import options, request, text
from .batches import Batch
from .ended import Ended, Waiting, record, records
from .job import Job, JobId, JobOrID, Stats
from .operations import Operations
from .options import GroupLimits, Policy, ScheduleOptions, Tags
from .request import DEFAULT_DELAY, DEFAULT_PRIORITY, DEFAULT_TTR
from .session import Steps
from .text import Seconds

if TYPE_CHECKING:
    from typing_extensions import Unpack

T = TypeVar("T")


class Commands:
    """The methods of :class:`Client`. They raise the exceptions of redstalk.errors."""

    _session: Operations

    def _run(self, steps: Steps[T]) -> T:
        raise NotImplementedError

    def _ask(self, question: request.Request[T]) -> T:
        raise NotImplementedError

    def put(
        self,
        body: bytes | str,
        priority: int = DEFAULT_PRIORITY,
        delay: Seconds = DEFAULT_DELAY,
        ttr: Seconds = DEFAULT_TTR,
        *,
        tube: str | None = None,
        **tags: Unpack[Tags],
    ) -> JobId:
        """Put a job into a tube, by default the used one, and return its id.

        If the connection is lost after the put was sent, it is repeated if it has a key and a key_ttl. Otherwise
        UnknownOutcomeError is raised: the job may be there.
        """
        return self._run(self._session.put(body, tube, priority, delay, ttr, tags))

    def use(self, tube: str) -> None:
        """Put later jobs into a tube."""
        self._run(self._session.use(tube))

    def watch(self, tube: str, weight: int = 0) -> int:
        """Reserve from a tube too, and return the number of watched tubes. Weights need redstalk."""
        return self._run(self._session.watch(tube, weight))

    def ignore(self, tube: str) -> int:
        """Stop watching a tube, and return the number of watched tubes."""
        return self._run(self._session.ignore(tube))

    def watch_only(self, tubes: Mapping[str, int] | Iterable[str]) -> int:
        """Watch these tubes and no others."""
        weights = dict(tubes) if isinstance(tubes, Mapping) else dict.fromkeys(tubes, 0)
        return self._run(self._session.watch_only(weights))

    def reserve(self, timeout: Seconds | None = None) -> Job:
        """Reserve a job; raise TimedOutError if there is none for that time, in seconds."""
        return self._run(self._session.reserve(timeout))

    def reserve_batch(self, count: int, timeout: Seconds = 0) -> list[Job]:
        """Reserve up to count jobs, at most 100, that are ready; wait for the first one. With beanstalkd at most one."""
        return self._run(self._session.reserve_batch(count, timeout))

    def reserve_job(self, id: int) -> Job:
        """Reserve a job by its id. It has no lease, so it belongs to the connection."""
        return self._run(self._session.reserve_job(id))

    def delete(self, job: JobOrID) -> None:
        """Delete a job: it is done."""
        self._ask(self._session.finish("delete", job, "", "DELETED"))

    def finish(self, job: JobOrID, result: bytes | str) -> None:
        """Delete a reserved job with a result, up to 64 KiB, for those who wait for its end: it is done.

        NotKeptError: nothing is kept of the job, and nothing has happened.
        """
        self._ask(self._session.finish_with(job, result))

    def wait(self, job: JobOrID, timeout: Seconds | None = None) -> Ended:
        """Wait until a job has ended that was put with keep, and return what became of it. A buried job is "parked".

        TimedOutError: it has not in that time. NotFoundError: there is neither the job nor its record. NotKeptError: it has no keep. Others can
        use the client meanwhile.
        """
        for ended in self.wait_all([job], timeout):
            return ended.known()
        raise AssertionError

    def wait_all(self, jobs: Iterable[JobOrID], timeout: Seconds | None = None) -> Iterator[Ended]:
        """Wait until any number of jobs have ended, and yield what became of each as soon as it is known.

        TimedOutError: not all have in that time. Jobs that cannot be waited for are "not-found" or "not-kept".
        """
        waiting = Waiting(jobs, timeout)
        count = len(waiting.left)
        self._session.awaited += count
        try:
            while waiting.left:
                for question in waiting.round():
                    for ended in self._ask(question):
                        if ended:
                            yield ended
                time.sleep(waiting.pause(self._session.awaited))
        finally:
            self._session.awaited -= count

    def stats_ended(self, job: JobOrID) -> Ended:
        """Return the record of a job that has ended."""
        return self._ask(record(request.id_of(job)))

    def ended(self, tube: str = "", *, batch: str = "") -> Iterator[Ended]:
        """Yield the records of the ended jobs of a tube or a batch, the newest first."""
        cursor: str | None = ""
        while cursor is not None:
            page, following = self._ask(records(tube, batch, cursor))
            for one in page:
                yield one
            cursor = following or None

    def touch(self, job: JobOrID, *, progress: str | None = None) -> None:
        """Start the TTR of a reserved job again, and say how far it is: up to 256 bytes that are shown until its next delivery."""
        self._ask(self._session.touch(job, progress))

    def checkpoint(self, job: JobOrID, data: bytes | str) -> None:
        """Keep up to 64 KiB for the next delivery of a reserved job, as safely as a put, and start its TTR again. Empty data remove it."""
        self._ask(self._session.checkpoint(job, data))

    def get_checkpoint(self, job: JobOrID) -> bytes:
        """Return the checkpoint of a job; NotFoundError: there is none."""
        return self._ask(request.checkpoint(job))

    def release(
        self, job: JobOrID, priority: int | None = None, delay: Seconds = 0, *, reason: str = "", failure: bool = True
    ) -> None:
        """Give a reserved job back. That is a failure, for this reason, unless failure is false. Its priority stays if that is known."""
        self._ask(self._session.release(job, priority, delay, reason, failure))

    def bury(self, job: JobOrID, priority: int | None = None, *, reason: str = "") -> None:
        """Set a reserved job aside until it is kicked."""
        self._ask(self._session.bury(job, priority, reason))

    def peek(self, id: int) -> Job:
        """Return a job without reserving it."""
        return self._run(self._session.peek(f"peek {int(id)}"))

    def peek_ready(self) -> Job:
        """Return the next ready job of the used tube."""
        return self._run(self._session.peek("peek-ready"))

    def peek_delayed(self) -> Job:
        """Return the delayed job of the used tube that is due first."""
        return self._run(self._session.peek("peek-delayed"))

    def peek_buried(self) -> Job:
        """Return the oldest buried job of the used tube."""
        return self._run(self._session.peek("peek-buried"))

    def kick(self, bound: int, *, keep_checkpoint: bool = False) -> int:
        """Make up to so many buried, or else delayed, jobs of the used tube ready, and return their number. They begin anew."""
        return self._ask(self._session.kick(bound, keep_checkpoint))

    def kick_job(self, job: JobOrID, *, keep_checkpoint: bool = False) -> None:
        """Make a buried or delayed job ready. It begins anew, or at its checkpoint."""
        command = request.simple(f"kick-job {request.id_of(job)}", "KICKED")
        self._ask(request.kicking(command, keep_checkpoint))

    def stats_job(self, job: JobOrID) -> Stats:
        """Return what the server knows about a job."""
        return self._ask(request.paged(f"stats-job {request.id_of(job)}"))

    def stats_tube(self, tube: str) -> Stats:
        """Return the counts of a tube."""
        return self._ask(request.paged(f"stats-tube {text.tube(tube)}"))

    def stats(self) -> Stats:
        """Return the counts of the server."""
        return self._ask(request.paged("stats"))

    def tubes(self) -> list[str]:
        """Return the tubes that exist."""
        return self._ask(request.Request("list-tubes", request.expect("OK", request.names), repeat=True))

    def using(self) -> str:
        """Return the tube that is used."""
        return self._session.used

    def watching(self) -> list[str]:
        """Return the tubes that are watched."""
        return list(self._session.watched)

    def pause_tube(self, tube: str, delay: Seconds) -> None:
        """Deliver no job of a tube for some time."""
        self._ask(request.simple(f"pause-tube {text.tube(tube)} {text.whole(delay)}", "PAUSED"))

    def capabilities(self) -> frozenset[str]:
        """Return what the server can do beyond beanstalkd, which it is asked once for each connection."""
        self._run(self._session.connect())
        return self._session.capabilities

    def find(self, tube: str, key: str) -> Job:
        """Return the job of a tube that has a key."""
        line = f"find {text.tube(tube)} {text.word('key', key)}"
        return self._ask(request.extension(line, "FOUND", self._session.found, "put-tags", repeat=True))

    def delete_key(self, tube: str, key: str) -> None:
        """Delete the job of a tube that has a key, even if it is reserved."""
        self._ask(request.extension(f"delete-key {text.tube(tube)} {text.word('key', key)}", "DELETED", request.nothing, "put-tags"))

    def set_policy(self, tube: str, **policy: Unpack[Policy]) -> None:
        """Set the policy of a tube, or of all that begin with PREFIX if tube is "PREFIX*". Without tags, delete it."""
        line = f"set-policy {text.word('tube', tube)}{options.line(options.pairs(policy))}"
        self._ask(request.extension(line, "SET", request.nothing, "policy", repeat=True))

    def get_policy(self, tube: str) -> dict[str, Any]:
        """Return the policy of a tube or PREFIX*."""
        return self._ask(request.extension(f"get-policy {text.word('tube', tube)}", "OK", request.page, "policy", repeat=True))

    def policies(self) -> list[str]:
        """Return the tubes and prefixes that have a policy."""
        return self._ask(request.extension("list-policies", "OK", request.names, "policy", repeat=True))

    def set_group(self, tube: str, group: str, **limits: Unpack[GroupLimits]) -> None:
        """Set limits and weight of a group, instead of those of the policy. Without any, delete them."""
        line = request.group("set-group", tube, group) + options.line(options.pairs(limits))
        self._ask(request.extension(line, "SET", request.nothing, "groups", repeat=True))

    def get_group(self, tube: str, group: str) -> dict[str, Any]:
        """Return what set_group has set."""
        return self._ask(request.extension(request.group("get-group", tube, group), "OK", request.page, "groups", repeat=True))

    def stats_group(self, tube: str, group: str) -> Stats:
        """Return the counts of a group, and its limits."""
        return self._ask(request.extension(request.group("stats-group", tube, group), "OK", request.page, "groups", repeat=True))

    def pause_group(self, tube: str, group: str, delay: Seconds) -> None:
        """Deliver no job of a group for some time."""
        line = f"{request.group('pause-group', tube, group)} {text.whole(delay)}"
        self._ask(request.extension(line, "PAUSED", request.nothing, "groups"))

    def flush_group(self, tube: str, group: str) -> int:
        """Delete the ready, delayed and buried jobs of a group, and return their number."""
        return self._ask(request.extension(request.group("flush-group", tube, group), "FLUSHED", request.count, "groups"))

    def list_groups(self, tube: str, count: int = 100, cursor: str = "") -> dict[str, Any]:
        """Return a page of groups: "groups", and "next", the cursor of the next page."""
        line = f"list-groups {text.tube(tube)} {count} {cursor}".rstrip()
        return self._ask(request.extension(line, "OK", request.page, "groups", repeat=True))

    def flush_tube(self, tube: str, state: str = "") -> int:
        """Delete the jobs of a tube, or those in a state, and return their number."""
        return self._ask(request.extension(f"flush-tube {text.tube(tube)} {state}".rstrip(), "FLUSHED", request.count, "flush"))

    def move_jobs(self, source: str, state: str, target: str, count: int) -> int:
        """Move jobs in a state to another tube, and return their number."""
        line = f"move-jobs {text.tube(source)} {text.word('state', state)} {text.tube(target)} {count}"
        return self._ask(request.extension(line, "MOVED", request.count, "move"))

    def replay_job(self, job: JobOrID, *, keep_checkpoint: bool = False) -> None:
        """Send a dead letter back to its tube, or kick a buried job. It begins anew, or at its checkpoint."""
        command = request.extension(f"replay-job {request.id_of(job)}", "REPLAYED", request.nothing, "replay")
        self._ask(request.kicking(command, keep_checkpoint))

    def reschedule(self, job: JobOrID, delay: Seconds) -> None:
        """Make a ready or delayed job due after a delay."""
        self._ask(request.extension(f"reschedule {request.id_of(job)} {text.duration(delay)}", "RESCHEDULED", request.nothing, "put-tags"))

    def set_priority(self, job: JobOrID, priority: int) -> None:
        """Change the priority of a job that is not reserved."""
        self._ask(request.extension(f"set-priority {request.id_of(job)} {priority}", "UPDATED", request.nothing, "put-tags"))

    def list_jobs(self, tube: str, state: str) -> Iterator[dict[str, Any]]:
        """Yield the jobs of a tube in a state: ready, delayed, reserved or buried."""
        cursor: str | None = ""
        while cursor is not None:
            page = self._ask(self._session.listed(tube, state, 100, cursor))
            yield from page["jobs"]
            cursor = page["next"] or None

    def batch(self, name: str) -> Batch:
        """Return a batch, without asking the server."""
        return Batch(self, name)

    def set_schedule(
        self,
        name: str,
        tube: str,
        body: bytes | str,
        priority: int = DEFAULT_PRIORITY,
        delay: Seconds = DEFAULT_DELAY,
        ttr: Seconds = DEFAULT_TTR,
        **options: Unpack[ScheduleOptions],
    ) -> None:
        """Create a schedule, or replace the one with that name. While its times stay the same it keeps its place."""
        self._ask(request.set_schedule(name, tube, self._session.encoded(body), priority, delay, ttr, options))

    def get_schedule(self, name: str) -> Stats:
        """Return what a schedule puts and when, and what came of it."""
        return self._ask(request.schedule("get-schedule", name, "OK", request.typed))

    def list_schedules(self) -> Iterator[Stats]:
        """Yield the schedules, by name."""
        cursor: str | None = ""
        while cursor is not None:
            page = self._ask(request.schedules(cursor))
            yield from page["schedules"]
            cursor = page["next"] or None

    def delete_schedule(self, name: str) -> None:
        """Delete a schedule. Its jobs stay."""
        self._ask(request.schedule("delete-schedule", name, "DELETED", request.nothing, repeat=False))

    def pause_schedule(self, name: str) -> None:
        """Stop a schedule until resume_schedule."""
        self._ask(request.schedule("pause-schedule", name, "PAUSED", request.nothing))

    def resume_schedule(self, name: str) -> None:
        """Start a paused schedule again. Times that have passed meanwhile are skipped."""
        self._ask(request.schedule("resume-schedule", name, "RESUMED", request.nothing))

    def run_schedule(self, name: str) -> JobId:
        """Put a job of a schedule now, and return its id. Its state is that of the job that has prevented it, if one has."""
        return self._ask(request.schedule("run-schedule", name, "INSERTED", request.inserted, repeat=False))

    def preview_schedule(self, name: str, count: int = 10) -> list[datetime]:
        """Return the next times of a schedule, at most 1000."""
        return self._ask(request.preview(text.tube(name), count))

    def preview_cron(self, cron: str, count: int = 10, tz: str = "UTC") -> list[datetime]:
        """Return the next times of a cron expression, at most 1000."""
        return self._ask(request.preview(text.quoted(cron), count, f" tz:{text.quoted(tz)}"))
