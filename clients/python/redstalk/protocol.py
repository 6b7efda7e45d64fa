"""Replies: bytes in, values out. No input or output happens here."""

from __future__ import annotations

from dataclasses import dataclass

from .errors import REPLIES, BuriedError, Error, UnknownResponseError

_MAX_LINE = 1 << 20
_MAX_BODY = 1 << 30


@dataclass(slots=True)
class Delivery:
    """A job as a reserve or peek answers it."""

    id: int
    lease: str
    body: bytes
    info: bytes


class Reply:
    """The answer to a command."""

    __slots__ = ("word", "args", "body", "jobs")

    def __init__(self, word: str, args: list[str], body: bytes = b"", jobs: list[Delivery] | None = None) -> None:
        self.word = word
        self.args = args
        self.body = body
        self.jobs = jobs or []

    def error(self) -> Error:
        """Return the exception for a reply that is not the expected one."""
        if self.word == "BURIED" and self.args:
            return BuriedError(int(self.args[0]))
        kind = REPLIES.get(self.word)
        return kind(" ".join([self.word, *self.args])) if kind else UnknownResponseError(f"{self.word} {self.args}")


class Parser:
    """Makes replies of what arrives on a connection."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> None:
        self._buffer += data

    def next(self) -> Reply | None:
        """Return the next reply, or None if it is not complete yet."""
        end = self._buffer.find(b"\r\n")
        if end < 0:
            if len(self._buffer) > _MAX_LINE:
                raise UnknownResponseError("a line is too long")
            return None
        word, *args = self._buffer[:end].decode("latin-1").split(" ")
        try:
            reply, used = self._complete(word, args, end + 2)
        except (ValueError, IndexError) as error:
            raise UnknownResponseError(" ".join([word, *args])) from error
        if reply:
            del self._buffer[:used]
        return reply

    def _complete(self, word: str, args: list[str], at: int) -> tuple[Reply | None, int]:
        match word:
            case "OK":
                body, at = self._body(int(args[0]), at)
                return (None if body is None else Reply(word, args, body)), at
            case "ENDED":  # ID HOW BYTES
                body, at = self._body(int(args[2]), at)
                return (None if body is None else Reply(word, args, body)), at
            case "RESERVED" | "LEASED" | "FOUND":
                job, at = self._job(args, at)
                return (Reply(word, args, job.body, [job]) if job else None), at
            case "RESERVED_BATCH":
                return self._batch(args, at)
        return Reply(word, args), at

    def _batch(self, args: list[str], at: int) -> tuple[Reply | None, int]:
        jobs = []
        for _ in range(int(args[0])):
            end = self._buffer.find(b"\r\n", at)
            if end < 0:
                return None, at
            line = self._buffer[at:end].decode("latin-1").split(" ")
            job, at = self._job(line[1:], end + 2)
            if job is None:
                return None, at
            jobs.append(job)
        return Reply("RESERVED_BATCH", args, b"", jobs), at

    def _job(self, args: list[str], at: int) -> tuple[Delivery | None, int]:
        """Read the job whose line ends in ID [LEASE] BYTES [INFO-BYTES]."""
        lease = args[1] if len(args) > 2 else ""
        sizes = [int(size) for size in (args[2:] if lease else args[1:])]
        body, at = self._body(sizes[0], at)
        info: bytes | None = b""
        if body is not None and len(sizes) > 1:
            info, at = self._body(sizes[1], at)
        if body is None or info is None:
            return None, at
        return Delivery(int(args[0]), lease, body, info), at

    def _body(self, size: int, at: int) -> tuple[bytes | None, int]:
        if not 0 <= size <= _MAX_BODY:
            raise ValueError(size)
        end = at + size
        if len(self._buffer) < end + 2:
            return None, at
        if self._buffer[end : end + 2] != b"\r\n":
            raise ValueError("no CR LF")
        return bytes(self._buffer[at:end]), end + 2
