"""Says what happens in a worker, also if texts of exceptions or handlers of the log raise something themselves."""

from __future__ import annotations

import contextlib
import logging

log = logging.getLogger("redstalk")


def text_of(error: BaseException) -> str:
    """Return the text of an exception, or what its class is called if there is no text."""
    try:
        return f"{error}"
    except BaseException:  # whatever user code raises
        return f"{type.__repr__(type(error))}, whose text cannot be read"


def named(error: BaseException) -> str:
    """Return the class and the text of an exception."""
    try:
        return f"{type(error).__name__}: {error}"
    except BaseException:
        return text_of(error)


def report(level: int, message: str, *args: object, error: BaseException | None = None) -> None:
    """Log a message, with the traceback of an exception."""
    with contextlib.suppress(BaseException):
        trace = (type(error), error, error.__traceback__) if error is not None else None
        log.log(level, message, *args, exc_info=trace)
