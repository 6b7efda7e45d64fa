"""What is for tests of programs: jobs in memory, and the fixtures of pytest."""

from __future__ import annotations

import asyncio
import logging
import os
import subprocess
import sys
import tempfile
import textwrap
import unittest
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import redstalk
from redstalk import testing
from tests import server

logging.getLogger("redstalk").addHandler(logging.NullHandler())

PACKAGE = Path(__file__).parents[1]


class MemoryTest(unittest.TestCase):
    def setUp(self) -> None:
        self.app = redstalk.App("127.0.0.1:1")
        self.jobs = self.enterContext(testing.in_memory(self.app))
        self.calls: list[Any] = []

    def flaky(self, errors: list[Any], **options: Any) -> redstalk.Task[Any, Any]:
        """Return a task that raises one exception after the other, and then returns."""

        @self.app.task(**options)
        def flaky(n: int = 0) -> int:
            self.calls.append(n)
            if errors:
                raise errors.pop(0)
            return n

        return flaky

    def test_returns(self) -> None:
        task = self.flaky([], tube="a", delay=3)
        task.send(1)
        task.send_with_options((2,), delay=1)
        self.assertEqual((self.calls, len(self.jobs.waiting)), ([], 2))
        drained = self.jobs.drain()
        self.assertEqual([(job.data, job.value, job.state, job.options["tube"]) for job in drained], [({"n": 2}, 2, "done", "a"), ({"n": 1}, 1, "done", "a")])
        self.assertEqual((self.calls, self.jobs.drain()), ([2, 1], []))

    def test_retries(self) -> None:
        for retry in ([10, timedelta(minutes=1)], "10s,1m", "exp(10s,1m,2)"):
            self.jobs.jobs.clear()
            self.app.tasks.clear()
            self.flaky([ValueError("one"), ValueError("two")], retry=retry).send()
            [job] = self.jobs.drain()
            waits = [10, 20] if "exp" in retry else [10, 60]
            self.assertEqual((job.state, job.waits, job.failures, job.deliveries, job.reason), ("done", waits, 2, 3, "ValueError: two"))
        for wrong in ("1x", "exp(1s,2s)"):
            self.app.tasks.clear()
            self.assertRaises(redstalk.InvalidArgumentError, self.flaky([], retry=wrong).send)

    def test_failures(self) -> None:
        for options, state in (({"retry": [1]}, "buried"), ({"retry": [1], "dead": "morgue"}, "dead"), ({"max_deliveries": 2}, "buried")):
            self.app.tasks.clear()
            task = self.flaky([KeyError("x")] * 2, **options)
            task.send()
            self.assertRaisesRegex(KeyError, "x", self.jobs.drain)
            self.assertEqual((self.jobs.jobs[-1].state, self.jobs.jobs[-1].reason), (state, "KeyError: 'x'"))
        self.app.tasks.clear()
        self.flaky([ValueError("for ever")] * 2000).send()
        with self.assertRaises(RuntimeError) as raised:
            self.jobs.drain(most=50)
        self.assertIsInstance(raised.exception.__cause__, ValueError)

    def test_other_ends(self) -> None:
        self.flaky([redstalk.Snooze(60), redstalk.NotFinished(), redstalk.Skip("no")]).send()
        [job] = self.jobs.drain(raises=False)
        self.assertEqual((job.state, job.reason, job.failures, job.deliveries, job.waits), ("buried", "no", 0, 1, []))
        self.app.tasks.clear()
        self.assertEqual([one.state for one in self.jobs.drain(raises=False)], [])

    def test_jobs_of_jobs_and_results(self) -> None:
        @self.app.task(keep=60)
        def inner(n: int) -> int:
            return n + 1

        @self.app.task()
        def outer() -> int:
            return inner.result(inner.send(1)) + inner.result(inner.send(2))

        outer.send()
        [job] = self.jobs.drain()
        self.assertEqual(job.value, 5)
        self.assertRaises(redstalk.NotKeptError, outer.result, outer.send())
        self.assertRaises(redstalk.NotFoundError, outer.result, 99)

    def test_waits_for_itself(self) -> None:
        @self.app.task(keep=60)
        def task() -> None:
            task.result(1)

        task.send_with_options(max_deliveries=1)
        self.assertRaises(redstalk.TimedOutError, self.jobs.drain)

    def test_long_job(self) -> None:
        @self.app.task(retry=[0])
        def rows() -> Any:
            job = self.app.current_job()
            before = job.last_checkpoint()
            job.checkpoint({"row": 1})
            job.progress("1/2")
            if not before:
                raise ValueError("cut")
            return [before, job.reason, job.tube]

        rows.send()
        [job] = self.jobs.drain()
        self.assertEqual((job.value, job.progress), ([{"row": 1}, "ValueError: cut", "default"], "1/2"))

    def test_keys(self) -> None:
        task = self.flaky([], key="k", key_ttl=60)
        first, again = task.send(1), task.send(2)
        self.assertEqual((first, first.state, again, again.state), (1, "", 1, "READY"))
        self.assertEqual(task.send_with_options((3,), on_duplicate="replace"), 2)
        self.assertRaises(redstalk.DuplicateError, task.send_with_options, (4,), on_duplicate="fail")
        self.assertEqual([job.state for job in self.jobs.jobs], ["deleted", "waiting"])
        self.jobs.drain()
        self.assertEqual((self.calls, task.send().state), ([3], "GONE"))
        task.send_with_options(key="other", delay=61)
        self.jobs.drain()
        self.assertEqual(task.send(), 4)

    def test_coroutines(self) -> None:
        @self.app.task(keep=60, retry=[0])
        async def double(n: int) -> int:
            await asyncio.sleep(0)
            if self.app.current_job().failures == 0:
                raise SystemExit
            return 2 * n

        async def main() -> int:
            id = await double.send_async(4)
            self.assertRaises(RuntimeError, self.jobs.drain)
            await self.jobs.drain_async()
            return await double.result_async(id) + await double.result_async(await double.send_async(1))

        double.send(3)
        self.assertEqual([job.value for job in self.jobs.drain()], [6])
        self.assertEqual(asyncio.run(main()), 10)

    def test_what_is_not_there(self) -> None:
        task = self.flaky([])
        self.assertRaises(redstalk.UnsupportedError, task.send_with_options, batch="b")
        self.assertRaises(TypeError, task.send_with_options, dealy=1)
        self.assertRaises(redstalk.InvalidArgumentError, task.send_with_options, tube="a b")
        task.send_with_options(at=datetime.now() + timedelta(days=1))
        self.assertEqual(len(self.jobs.drain()), 1)

    def test_end(self) -> None:
        app = redstalk.App("127.0.0.1:1", wait=0.1)
        task = app.task()(lambda: None)
        with testing.in_memory(app):
            task.send()
        self.assertRaises(redstalk.UnavailableError, task.send)


class PytestTest(unittest.TestCase):
    PROGRAM = """
        import redstalk

        app = redstalk.App()

        @app.task(tube="mails", retry=[10])
        def welcome(address):
            return "to " + address

        def test_memory(redstalk_memory):
            jobs = redstalk_memory(app)
            welcome.send("ada")
            [job] = jobs.drain()
            assert job.value == "to ada"

        def test_server(redstalk_server):
            with redstalk.Client(redstalk_server) as client:
                assert client.put("x") == 1

        def test_same_server(redstalk_server):
            with redstalk.Client(redstalk_server) as client:
                assert client.put("x") == 2
        """

    def run_tests(self, **environment: str) -> str:
        directory = self.enterContext(tempfile.TemporaryDirectory())
        Path(directory, "test_mails.py").write_text(textwrap.dedent(self.PROGRAM))
        ran = subprocess.run(
            ["/usr/bin/python3", "-m", "pytest", "-rs", "-p", "redstalk.pytest_plugin", "-p", "no:cacheprovider", directory],
            stdout=subprocess.PIPE, text=True, timeout=120, env={**os.environ, "PYTHONPATH": str(PACKAGE), **environment},
        )  # fmt: skip
        self.assertEqual(ran.returncode, 0, ran.stdout)
        return ran.stdout

    def test_fixtures(self) -> None:
        self.assertIn("3 passed", self.run_tests(REDSTALKD=server.PROGRAM))

    def test_without_server(self) -> None:
        output = self.run_tests(REDSTALKD="", PATH="/nowhere")
        self.assertIn("1 passed, 2 skipped", output)
        self.assertIn("redstalkd is not in PATH", output)

    def test_pytest_is_not_needed(self) -> None:
        program = "import sys, redstalk, redstalk.testing; assert 'pytest' not in sys.modules"
        subprocess.run([sys.executable, "-c", program], check=True, env={**os.environ, "PYTHONPATH": str(PACKAGE)})


if __name__ == "__main__":
    unittest.main()
