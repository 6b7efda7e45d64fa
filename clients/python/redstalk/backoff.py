"""How long a worker waits after a failure, where neither the job nor its tube has a retry list."""

from __future__ import annotations

import random
from collections.abc import Callable

#: Takes the number of failures, at least 1, and returns the seconds to wait, or None to bury the job.
Backoff = Callable[[int], float | None]


def exponential(first: float = 1, longest: float = 3600, limit: int = 0) -> Backoff:
    """Wait first, then twice as long each time, up to a tenth longer or shorter. After limit failures bury; 0 is no limit."""

    def wait(failures: int) -> float | None:
        if limit and failures > limit:
            return None
        return float(min(first * 2 ** min(failures - 1, 40), longest)) * random.uniform(0.9, 1.1)

    return wait


def intervals(*waits: float) -> Backoff:
    """Wait as the list says, and then bury the job."""
    return lambda failures: waits[failures - 1] if failures <= len(waits) else None
