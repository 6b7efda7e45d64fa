"""Lost connections, several addresses, TLS and users."""

from __future__ import annotations

import asyncio
import os
import signal
import ssl
import subprocess
import tempfile
import threading
import unittest
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import redstalk
from tests import server
from tests.fake import Fake

PAGE = "---\n- put-tags\n- lease\n- info\n- reason\n"
CAPABILITIES = f"OK {len(PAGE)}\r\n{PAGE}"


def refused() -> tuple[str, int]:
    return ("127.0.0.1", server.free_port())


class LostTest(unittest.TestCase):
    """A fake server closes the first connection when it gets a command of interest."""

    def fake(self, lost: str, reply: str, capabilities: str = CAPABILITIES) -> Fake:
        def answer(connection: int, line: str) -> str | None:
            if line == "capabilities":
                return capabilities
            if line.startswith(("watch ", "ignore ")):
                return "WATCHING 1"
            return None if line.startswith(lost) and connection == 1 else reply

        return self.enterContext(Fake(answer))

    def client(self, fake: Fake, **settings: Any) -> redstalk.Client:
        client = redstalk.Client([fake.address], wait=5, **settings)
        self.addCleanup(client.interrupt)
        return client

    def test_put_without_key_has_an_unknown_outcome(self) -> None:
        fake = self.fake("put", "INSERTED 1")
        c = self.client(fake)
        self.assertRaises(redstalk.UnknownOutcomeError, c.put, "a")
        self.assertRaises(redstalk.UnknownOutcomeError, self.client(self.fake("put", "INSERTED 1")).put, "a", key="k")
        self.assertEqual(len([line for line in fake.lines if line.startswith("put")]), 1)
        self.assertEqual(c.put("a"), 1)

    def test_put_with_key_ttl_is_repeated(self) -> None:
        fake = self.fake("put", "INSERTED 1")
        self.assertEqual(self.client(fake).put("a", key="k", key_ttl=60), 1)
        self.assertEqual(len([line for line in fake.lines if line.startswith("put")]), 2)

    def test_put_that_replaces_is_not_repeated(self) -> None:
        c = self.client(self.fake("put", "INSERTED 1"))
        with self.assertRaises(redstalk.UnknownOutcomeError):
            c.put("a", key="k", key_ttl=60, on_duplicate="replace")

    def test_asyncio(self) -> None:
        async def run() -> None:
            async with redstalk.AsyncClient(self.fake("put", "INSERTED 1").address) as c:
                self.assertEqual(await c.put("a", key="k", key_ttl=60), 1)
            async with redstalk.AsyncClient(self.fake("put", "INSERTED 1").address) as c:
                with self.assertRaises(redstalk.UnknownOutcomeError):
                    await c.put("a")

        asyncio.run(run())

    def test_delete_with_a_lease_is_repeated(self) -> None:
        c = self.client(self.fake("delete-lease", "DELETED"))
        c.delete(redstalk.Job(7, "", "1"))
        self.assertRaises(redstalk.UnknownOutcomeError, self.client(self.fake("delete", "DELETED")).delete, 7)

    def test_burst(self) -> None:
        def answer(connection: int, line: str) -> str | None:
            if line == "capabilities":
                return CAPABILITIES
            verb, id = line.split(" ")[:2]
            if connection == 1 and id == "3":
                return None
            return "NOT_FOUND" if int(id) % 2 else {"touch-lease": "TOUCHED", "delete-lease": "DELETED"}[verb]

        fake = self.enterContext(Fake(answer))
        c = self.client(fake)
        c.capabilities()
        jobs = [redstalk.Job(n, "", "7") for n in range(6)]
        commands = [c._session.finish("delete", job, "", "DELETED") if job.id > 3 else c.touching(job, None) for job in jobs]
        commands.insert(2, c._session.finish_with(jobs[0], "x"))
        errors = [type(call.error) for call in c.ask_all(commands)]
        some = [type(None), redstalk.NotFoundError]
        self.assertEqual(errors, [*some, redstalk.UnsupportedError, *some, *some])
        self.assertEqual([int(line.split(" ")[1]) for line in fake.lines if "lease" in line], [0, 1, 2, 3, 3, 4, 5])

    def test_threads_share_a_round_trip(self) -> None:
        c = self.client(self.fake("never", "DELETED"))
        errors: list[BaseException] = []

        def delete(id: int) -> None:
            try:
                c.delete(redstalk.Job(id, "", "7"))
            except redstalk.Error as error:
                errors.append(error)

        for closed in (False, True):
            threads = [threading.Thread(target=delete, args=(id,)) for id in range(250)]
            with c._lock, mock.patch.object(c._transport, "perform", wraps=c._transport.perform) as perform:
                for thread in threads:
                    thread.start()
                while len(c._calls) < len(threads):
                    threading.Event().wait(0.01)
                c._session.closed = closed
                c._lock.release()
                for thread in threads:
                    thread.join()
                c._lock.acquire()
            self.assertLess(perform.call_count, 100)
            self.assertEqual({type(error) for error in errors}, {redstalk.ClosedError} if closed else set())
            self.assertEqual(len(errors), 250 * closed)

    def test_reserve_is_repeated(self) -> None:
        c = self.client(self.fake("reserve", "RESERVED 7 1\r\nx", "UNKNOWN_COMMAND"))
        self.assertEqual(c.reserve().id, 7)

    def test_lost_again_and_again(self) -> None:
        def answer(connection: int, line: str) -> str | None:
            return None if line.startswith("reserve") else CAPABILITIES

        fake = self.enterContext(Fake(answer))
        with redstalk.Client(fake.address, wait=0.5) as c:
            self.assertRaises(redstalk.UnavailableError, c.reserve)
        self.assertGreater(fake.connections, 2)
        self.assertLess(fake.connections, 20)

    def test_job_is_lost_with_its_connection(self) -> None:
        fake = self.fake("stats", "RESERVED 7 1\r\nx", "UNKNOWN_COMMAND")
        c = self.client(fake)
        job = c.reserve()
        self.assertRaises(redstalk.UnknownResponseError, c.stats)  # lost, and repeated
        self.assertRaises(redstalk.NotFoundError, c.delete, job)
        self.assertFalse([line for line in fake.lines if line.startswith("delete")])

    def test_reply_timeout(self) -> None:
        hang = threading.Event()
        self.addCleanup(hang.set)

        def answer(connection: int, line: str) -> str | None:
            if line.startswith("put"):
                hang.wait(20)
            return CAPABILITIES if line == "capabilities" else "INSERTED 1"

        c = self.client(self.enterContext(Fake(answer)), reply_timeout=0.1)
        self.assertRaises(redstalk.UnknownOutcomeError, c.put, "a")

    def test_nonsense(self) -> None:
        for reply in ("", "WHAT", "INSERTED", "INSERTED x", "RESERVED 1", "RESERVED 1 9999999999999", "OK -1", "RESERVED_BATCH x"):
            self.assertRaises(redstalk.Error, self.client(self.fake("never", reply)).put, "a")

    def test_unavailable(self) -> None:
        c = redstalk.Client([refused()], wait=0.2)
        self.assertRaises(redstalk.UnavailableError, c.put, "a")

    def test_draining_goes_to_another(self) -> None:
        def answer(connection: int, line: str) -> str | None:
            return CAPABILITIES if line == "capabilities" else "DRAINING"

        drained = self.enterContext(Fake(answer))
        good = self.fake("never", "INSERTED 1")
        for _ in range(8):  # the order is random
            self.assertEqual(redstalk.Client([drained.address, good.address]).put("a"), 1)
        self.assertTrue(drained.lines)
        self.assertRaises(redstalk.DrainingError, redstalk.Client([drained.address]).put, "a")

    def test_draining_behind_one_address(self) -> None:
        """A put that a server refuses after it has accepted one goes over a new connection, which can lead to another server."""
        words = iter(["INSERTED 1", "DRAINING", "INSERTED 2", "DRAINING", "DRAINING"])
        server = self.enterContext(Fake(lambda _, line: CAPABILITIES if line == "capabilities" else next(words)))
        client = redstalk.Client([server.address])
        self.assertEqual([client.put("a"), client.put("b"), server.connections], [1, 2, 2])
        self.assertRaises(redstalk.DrainingError, client.put, "c")
        self.assertEqual(server.connections, 3)

    def test_cancelled_command_leaves_no_reply(self) -> None:
        async def run(address: Any) -> None:
            async with redstalk.AsyncClient(address) as c:
                with self.assertRaises(TimeoutError):
                    async with asyncio.timeout(0.1):
                        await c.reserve()
                id = await c.put("a")
                self.assertEqual((await c.reserve(5)).id, id)

        with server.start() as s:
            asyncio.run(run(s.address))


class ForkTest(unittest.TestCase):
    """A client that is connected before a fork has a connection of its own in the child."""

    def setUp(self) -> None:
        self.server = self.enterContext(server.start())

    def in_child(self, work: Callable[[], bool]) -> Callable[[], None]:
        """Call work in a new process, and return what waits for its success."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # newer Pythons warn of threads
            pid = os.fork()
        if pid == 0:
            signal.alarm(20)
            os._exit(0 if work() else 1)
        return lambda: self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 0)

    def test_client(self) -> None:
        c = self.enterContext(redstalk.Client(self.server.address))
        c.put("held")
        held = c.reserve(5)

        def work() -> bool:
            right = all(c.peek(c.put(f"child {i}")).body == f"child {i}" for i in range(100))
            c.close()  # gives back no job of the parent
            return right

        with c._lock:  # as if another thread were using the client
            child = self.in_child(work)
        self.assertTrue(all(c.peek(c.put(f"parent {i}")).body == f"parent {i}" for i in range(100)))
        child()
        self.assertEqual(c.stats_job(held)["state"], "reserved")
        self.assertEqual(c.stats()["current-connections"], 1)

    def test_asyncio(self) -> None:
        async def puts(c: redstalk.AsyncClient, name: str) -> bool:
            return all([(await c.peek(await c.put(f"{name} {i}"))).body == f"{name} {i}" for i in range(100)])

        async def run() -> None:
            async with redstalk.AsyncClient(self.server.address) as c:
                await c.tubes()
                child = self.in_child(lambda: asyncio.new_event_loop().run_until_complete(puts(c, "child")))
                self.assertTrue(await puts(c, "parent"))
                child()

        asyncio.run(run())

    def test_job_without_a_lease(self) -> None:
        c = redstalk.Client(self.enterContext(server.start("beanstalkd")).address)
        self.addCleanup(c.close)
        c.put("a")
        job = c.reserve(5)

        def work() -> bool:
            self.assertRaises(redstalk.NotFoundError, c.delete, job)
            return True

        self.in_child(work)()
        c.delete(job)


class ServerTest(unittest.TestCase):
    def test_restart(self) -> None:
        with server.start("embedded") as s:
            c = redstalk.Client([refused(), s.address], use="a", watch={"a": 0, "b": 0})
            c.put("x")
            job = c.reserve(5)
            s.kill()
            s.start()
            c.put("y")  # the lost connection is noticed before the put is sent
            self.assertEqual((c.using(), c.stats_tube("a")["current-jobs-ready"]), ("a", 1))
            c.delete(job)  # its lease has survived
            self.assertEqual(c.reserve(5).body, "y")

    def test_descriptor_is_closed_by_others(self) -> None:
        with server.start() as s, redstalk.Client(s.address, use="a", watch="a") as c:
            for close in (lambda sock: sock.close(), lambda sock: os.close(sock.fileno())):
                c.put("x")
                job = c.reserve(5)
                close(c._transport._socket)
                c.delete(job)
                self.assertEqual(c.stats_tube("a")["current-jobs-ready"], 0)

    def test_interrupt(self) -> None:
        with server.start() as s:
            c = redstalk.Client(s.address)
            c.tubes()
            timer = threading.Timer(0.1, c.interrupt)
            timer.start()
            self.assertRaises(redstalk.ClosedError, c.reserve)
            timer.join()

    def test_tls_and_user(self) -> None:
        directory = Path(self.enterContext(tempfile.TemporaryDirectory()))
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "1",
             "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", directory / "key", "-out", directory / "cert"],
            check=True, capture_output=True,
        )  # fmt: skip
        hashed = subprocess.run([server.PROGRAM, "secret"], input=b"open\n", capture_output=True, check=True).stdout.decode().strip()
        (directory / "access").write_text(
            f'users:\n  - name: app\n    secrets: ["{hashed}"]\n    rights:\n      - tubes: ["mail*"]\n        may: [put, work, read]\n'
        )
        port = server.free_port()
        options = ["--tls", f"127.0.0.1:{port}", "--tls-cert", str(directory / "cert"), "--tls-key", str(directory / "key")]
        with server.start("memory", *options, "--access", str(directory / "access")):
            context = ssl.create_default_context(cafile=directory / "cert")
            settings: dict[str, Any] = {"tls": context, "user": "app", "name": "mailer", "watch": "mails", "wait": 5}
            with redstalk.Client(f"127.0.0.1:{port}", secret="open", **settings) as c:
                c.put("a", tube="mails")
                c.delete(c.reserve(5))
                self.assertRaises(redstalk.ForbiddenError, c.put, "a", tube="other")
            self.assertRaises(redstalk.UnauthorizedError, redstalk.Client(f"127.0.0.1:{port}", secret="shut", **settings).tubes)
            settings.update(tls=ssl.create_default_context(), wait=0.1)
            self.assertRaises(redstalk.UnavailableError, redstalk.Client(f"127.0.0.1:{port}", secret="open", **settings).tubes)

            async def run() -> None:
                async with redstalk.AsyncClient(("127.0.0.1", port), tls=context, user="app", secret="open", watch="mails") as c:
                    await c.put("a", tube="mails")
                    await c.delete(await c.reserve(5))

            asyncio.run(run())


if __name__ == "__main__":
    unittest.main()
