"""What clients return."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


class JobId(int):
    """The id that a put returns: an int.

    ``state`` is empty if the job is new. If its key was taken, it is the state of the job that has it:
    READY, DELAYED, RESERVED, BURIED, or GONE.
    """

    state: str = ""


@dataclass(slots=True)
class Job:
    """A job that was reserved or peeked."""

    id: int
    body: bytes | str

    #: The lease of a reserved job: a token that grows with each delivery. Empty with beanstalkd.
    lease: str = ""

    #: What redstalk says about a reserved job: tube, pri, ttr, age, deliveries, failures, and if there are any key, retry, meta,
    #: trace, reason and failed-ms. Empty with beanstalkd.
    info: dict[str, Any] = field(default_factory=dict)

    #: time.monotonic() when the reserve was sent: the TTR started then or later.
    reserved_at: float = field(default=0.0, repr=False)

    connection: int = field(default=0, repr=False)  # to which the job belongs without a lease


JobOrID = Job | int
Stats = dict[str, Any]
