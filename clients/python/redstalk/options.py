"""The tags of a put and of a policy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Literal, TypedDict

from . import text
from .errors import InvalidArgumentError
from .text import Seconds


class _JobTags(TypedDict, total=False):
    """Tags of jobs, whether a put or a schedule puts them."""

    key: str  # the deduplication key
    key_ttl: Seconds  # how long the key stays taken after the job is gone
    retry: Sequence[Seconds] | str  # waits after failures, or "exp(1s,1h,10)"
    jitter: int  # per cent
    max_deliveries: int
    dead: str  # the dead-letter tube
    expire: Seconds
    on_expire: Literal["delete", "park"]
    keep: Seconds  # how long the record of the job is kept after its end
    meta: Mapping[str, str]
    trace: str  # a W3C traceparent
    group: str
    batch: str  # the batch of which the job is a member
    after: str  # the batch that must be done before the job runs
    after_all: str  # the batch that must have ended before the job runs
    batch_ttl: Seconds  # how long that batch can stay unsealed


class Tags(_JobTags, total=False):
    """Options of a put that need redstalk; docs/extensions.md says what each one does."""

    at: datetime  # when the job is due
    on_duplicate: Literal["keep", "replace", "fail"]


class ScheduleOptions(_JobTags, total=False):
    """The times of a schedule, and the tags of its jobs. It has either cron or every."""

    cron: str  # such as "30 2 * * 1-5" or "@daily"
    every: Seconds  # from one job to the next, at least 1
    tz: str  # the time zone of cron, such as "Europe/Berlin"; UTC by default
    start: datetime  # the first possible time (from)
    until: datetime  # the last possible time
    spread: Seconds  # each job is put later by a part of it (jitter), so that not all schedules put at once
    overlap: Literal["skip", "replace", "allow", "buffer-one"]  # what happens if the job before is still there
    catch_up: Seconds  # how late a missed job can be put
    catch_up_all: int  # how many missed jobs are put; by default the latest


class PutOptions(Tags, total=False):
    """All options of a put. Priority, delay and TTR work with beanstalkd too."""

    tube: str  # by default the one that is used
    priority: int  # 0 is the most urgent; 1024 by default
    delay: Seconds
    ttr: Seconds  # time to run: when the job of a dead worker comes again; 60 s by default


class Policy(TypedDict, total=False):
    """Tags for all jobs of a tube, and limits of the tube and its groups."""

    key_ttl: Seconds
    on_duplicate: Literal["keep", "replace", "fail"]
    retry: Sequence[Seconds] | str
    jitter: int
    max_deliveries: int
    dead: str
    expire: Seconds
    on_expire: Literal["delete", "park"]
    keep: Seconds
    keep_bytes: int
    quota_jobs: int
    quota_bytes: int
    group_concurrency: int
    group_rate: str
    group_order: Literal["fair", "strict"]
    concurrency: int
    rate: str
    push: str  # a URL
    push_concurrency: int
    push_timeout: Seconds
    push_rate: str  # such as "100/s"


class GroupLimits(TypedDict, total=False):
    """What applies to one group instead of the policy."""

    concurrency: int
    rate: str
    weight: int
    ttl: Seconds


_DURATIONS = ("key_ttl", "expire", "keep", "ttl", "batch_ttl", "every", "spread", "catch_up", "push_timeout")
_TIMES = ("at", "start", "until")
_BATCHES = ("batch", "after", "after_all")

#: The tags that are called otherwise on the wire.
_WIRE = {"max_deliveries": "max", "start": "from", "spread": "jitter"}

#: The capabilities that tags need, beyond put-tags.
_NEEDS = {
    "retry=exp": "backoff",
    "jitter": "backoff",
    "expire": "expire",
    "on_expire": "expire",
    "keep": "results",
    "meta": "meta",
    "trace": "meta",
    "group": "groups",
    "batch": "batches",
    "after": "batches",
    "after_all": "batches",
    "batch_ttl": "batches",
}


_TAGS = Tags.__optional_keys__ | ScheduleOptions.__optional_keys__ | Policy.__optional_keys__ | GroupLimits.__optional_keys__


def check(given: Iterable[str], known: Iterable[str]) -> None:
    """Raise TypeError if an option has another name: only a type checker sees that before."""
    if unknown := [name for name in given if name not in known]:
        raise TypeError(f"there is no option {', '.join(map(repr, unknown))}")


def needs(tags: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return the capabilities that a put with these tags needs, with the feature for the error."""
    needed = []
    for name, value in tags:
        needed.append(("put-tags", f"put with {name}"))
        more = _NEEDS.get("retry=exp" if name == "retry" and value.startswith("exp(") else name)
        if more:
            needed.append((more, f"put with {name}"))
    return needed


def pairs(tags: Mapping[str, object]) -> list[tuple[str, str]]:
    """Return the tags with their values as they are sent; names are those of Python."""
    check(tags, _TAGS)
    result: list[tuple[str, str]] = []
    for name, value in tags.items():
        if name == "meta" and isinstance(value, Mapping):
            result += [("meta", f"{text.meta_name(key)}={text.quoted(item)}") for key, item in value.items()]
        elif value is not None:
            result.append((name, _value(name, value)))
    return result


def _value(name: str, value: object) -> str:
    if name in _TIMES and isinstance(value, datetime):
        return str(max(round(value.timestamp() * 1000), 0))
    if name in _DURATIONS:
        return text.duration(value)  # type: ignore[arg-type]
    if name == "retry" and not isinstance(value, str):
        return text.word(name, ",".join(text.duration(wait) for wait in value))  # type: ignore[attr-defined]
    if name == "group":
        if not value:
            raise InvalidArgumentError("an empty group")
        return text.quoted(str(value))
    if name == "dead":
        return text.tube(str(value))
    if name in _BATCHES:
        return text.batch(str(value))
    if name in ("cron", "tz"):
        return text.quoted(str(value))
    return text.word(name, str(value))


def line(tags: list[tuple[str, str]]) -> str:
    """Return tags as they continue a line."""
    return "".join(f" {_WIRE.get(name) or name.replace('_', '-')}:{value}" for name, value in tags)


def idempotent(tags: Mapping[str, object]) -> bool:
    """Report whether a put with these tags has no further effect when it is repeated."""
    ttl = tags.get("key_ttl")
    return bool(tags.get("key") and ttl and text.seconds(ttl) > 0 and tags.get("on_duplicate", "keep") == "keep")  # type: ignore[arg-type]
