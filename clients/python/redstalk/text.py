"""How values are written in commands, and read from pages of the server."""

from __future__ import annotations

import json
import math
import re
from datetime import timedelta
from typing import Any

from .errors import InvalidArgumentError, UnknownResponseError

Seconds = float | timedelta

_TUBE = re.compile(r"[A-Za-z0-9+/;.$_()][A-Za-z0-9+/;.$_()-]{0,199}")
_WORD = re.compile(r"[!-~]+")
_META = re.compile(r"[A-Za-z0-9_-]+")
_CONTROL = re.compile(r"[^\n\t -~\u00a0-\U0010ffff]|[\ud800-\udfff\ufffd]")

_MAX_REASON, _MAX_PROGRESS = 512, 256  # bytes
_MAX_DELAY = 2**32 - 1  # seconds


def tube(name: str) -> str:
    """Return the name, if a tube can have it."""
    if not _TUBE.fullmatch(name):
        raise InvalidArgumentError(f"tube {name!r}: it must be letters, digits and +/;.$_()-, not begin with -, and have at most 200 bytes")
    return name


def word(what: str, value: str) -> str:
    """Return the value, if it is printable ASCII without spaces."""
    if not _WORD.fullmatch(value):
        raise InvalidArgumentError(f"{what} {value!r}: it must be printable ASCII without spaces")
    return value


def batch(name: str) -> str:
    """Return the name, if a batch can have it."""
    if len(name) > 100:
        raise InvalidArgumentError(f"batch {name!r}")
    return word("batch", name)


def meta_name(name: str) -> str:
    if not _META.fullmatch(name):
        raise InvalidArgumentError(f"meta {name!r}")
    return name


def quoted(value: str) -> str:
    """Return the value in quotes, without what a quoted value cannot have."""
    value = _CONTROL.sub("", value)
    for old, new in (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\t", "\\t")):
        value = value.replace(old, new)
    return f'"{value}"'


def reason(value: str) -> str:
    """Return the beginning of a reason in quotes."""
    return quoted(_beginning(value, _MAX_REASON))


def progress(value: str) -> str:
    """Return the beginning of a progress in quotes."""
    return quoted(_beginning(value, _MAX_PROGRESS))


def _beginning(value: str, limit: int) -> str:
    return _CONTROL.sub("", value).encode("utf-8", "ignore")[:limit].decode("utf-8", "ignore")


def seconds(value: Seconds) -> float:
    """Return a duration in seconds, at least 0."""
    number = value.total_seconds() if isinstance(value, timedelta) else value
    if isinstance(number, str):
        raise TypeError(f"a duration is seconds, not {value!r}")
    if math.isnan(number) or math.isinf(number):
        raise InvalidArgumentError(f"duration {value!r}")
    return max(number, 0)


def whole(value: Seconds) -> int:
    """Return whole seconds, rounded up."""
    return math.ceil(seconds(value))


def delay(value: Seconds) -> int:
    """Return whole seconds for which a server can delay a job."""
    number = whole(value)
    if number > _MAX_DELAY:
        raise InvalidArgumentError(f"delay {value!r}")
    return number


def duration(value: Seconds) -> str:
    """Return a duration as tags have it, to the millisecond, rounded up."""
    number = math.ceil(round(seconds(value) * 1000, 3))
    return f"{number}ms" if number % 1000 else f"{number // 1000}s"


_TOKEN = re.compile(r'\s*("(?:[^"\\]|\\.)*"|[{}\[\],]|[^\s,{}\[\]":]+:(?= )|[^,{}\[\]"]+)')


def scalar(value: str) -> Any:
    """Return the value of a key: an int, or a str, as a name such as 007 is."""
    if value.isdecimal() and (value == "0" or value[0] != "0"):
        return int(value)
    if value.startswith('"'):
        return json.loads(value, strict=False)
    if value.startswith(("{", "[")):
        return _flow(value)
    return value


def _flow(source: str) -> Any:
    """Parse YAML in one line, such as {id: 7, tubes: ["a"]}."""
    tokens = [match.group(1) for match in _TOKEN.finditer(source)]
    tokens.reverse()

    def value() -> Any:
        token = tokens.pop()
        if token == "{":
            mapping: dict[str, Any] = {}
            while (token := tokens.pop()) != "}":
                if token != ",":
                    mapping[scalar(token.rstrip(":")) if token[0] != '"' else key(token)] = value()
            return mapping
        if token == "[":
            items: list[Any] = []
            while tokens[-1] != "]":
                if tokens[-1] == ",":
                    tokens.pop()
                else:
                    items.append(value())
            tokens.pop()
            return items
        return scalar(token.strip())

    def key(token: str) -> str:
        if tokens[-1].lstrip().startswith(":"):
            rest = tokens.pop().lstrip()[1:].strip()
            if rest:
                tokens.append(rest)
        return str(json.loads(token, strict=False))

    try:
        return value()
    except (IndexError, ValueError) as error:
        raise UnknownResponseError(f"cannot read {source!r}") from error


def page(body: bytes) -> dict[str, Any]:
    """Parse a page of keys and values; a key can have a list."""
    result: dict[str, Any] = {}
    items: list[Any] = []
    for line in body.decode().splitlines():
        if line.startswith("- "):
            items.append(scalar(line[2:].strip()))
        elif line != "---" and ":" in line:
            key, _, value = line.partition(":")
            if value.strip():
                result[key] = scalar(value.strip())
            else:
                result[key] = items = []
    return result


def names(body: bytes) -> list[str]:
    """Parse a list of names."""
    return [line[2:].strip().strip('"') for line in body.decode().splitlines() if line.startswith("- ")]
