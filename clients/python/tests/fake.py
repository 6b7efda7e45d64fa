"""A server that answers as a test says."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable


class Fake:
    """Accepts connections, and answers each command by a function; None closes the connection."""

    def __init__(self, answer: Callable[[int, str], str | None]) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = ("127.0.0.1", int(self._listener.getsockname()[1]))
        self.lines: list[str] = []
        self.connections = 0
        self._answer = answer
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self._serve, args=(connection, self.connections), daemon=True).start()

    def _serve(self, connection: socket.socket, number: int) -> None:
        with connection, connection.makefile("rwb") as stream:
            self._answer_all(stream, number)

    def _answer_all(self, stream: object, number: int) -> None:
        try:
            for raw in iter(stream.readline, b""):  # type: ignore[attr-defined]
                line = raw.decode().rstrip("\r\n")
                if line.startswith("put "):
                    stream.readline()  # type: ignore[attr-defined]
                self.lines.append(line)
                reply = self._answer(number, line)
                if reply is None:
                    return
                stream.write(reply.encode() + b"\r\n")  # type: ignore[attr-defined]
                stream.flush()  # type: ignore[attr-defined]
        except OSError:
            return

    def __enter__(self) -> Fake:
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()
