"""The programs of the README run as they are, but for the address."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import unittest
from pathlib import Path

import redstalk
from tests import server

PACKAGE = Path(__file__).parents[1]


def programs() -> list[str]:
    return re.findall(r"```python\n(.*?)```", (PACKAGE / "README.md").read_text(), re.DOTALL)


class ReadmeTest(unittest.TestCase):
    def setUp(self) -> None:
        self.server = self.enterContext(server.start())
        self.directory = Path(self.server.directory)

    def program(self, part: str, name: str) -> Path:
        """Write the program that has this part."""
        [source] = [source for source in programs() if part in source]
        self.assertIn("127.0.0.1:11300", source)
        path = self.directory / name
        path.write_text(source.replace("127.0.0.1:11300", f"127.0.0.1:{self.server.port}"))
        return path

    def process(self, *arguments: object) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, *map(str, arguments)], stdout=subprocess.PIPE, text=True, cwd=self.directory,
            env={**os.environ, "PYTHONPATH": str(PACKAGE)},
        )  # fmt: skip
        watchdog = threading.Timer(30, process.kill)
        watchdog.start()
        self.addCleanup(watchdog.cancel)
        return process

    def finish(self, process: subprocess.Popen[str], expected: str) -> None:
        with process:
            assert process.stdout
            self.assertEqual(process.stdout.readline(), expected)
            process.send_signal(signal.SIGTERM)
        self.assertEqual(process.returncode, 0)

    def run_program(self, path: Path) -> str:
        with self.process(path) as process:
            output, _ = process.communicate()
        self.assertEqual(process.returncode, 0)
        return output

    def test_quick_start(self) -> None:
        path = self.program('@app.task(tube="mails"', "mails.py")
        self.assertLess(len([line for line in path.read_text().splitlines() if line]), 12)
        self.run_program(path)
        self.finish(self.process("-m", "redstalk", "mails:app"), "mail to ada@example.com\n")

    def test_putting_and_worker(self) -> None:
        self.assertEqual(self.run_program(self.program("key_ttl=86400", "put.py")), "1 \n")
        with redstalk.Client(self.server.address) as c:
            stats = c.stats_job(1)
            self.assertEqual((stats["retry"], stats["meta"]), ("10s,1m", {"request": "4711"}))
        self.finish(self.process(self.program("Worker(", "worker.py")), "mails ada@example.com\n")

    def test_batches_and_schedules(self) -> None:
        pending, *times = self.run_program(self.program("batch.seal()", "batch.py")).splitlines()
        self.assertEqual((pending, [" 02:30:00+0" in time for time in times]), ("2", [True] * 3))
        with redstalk.Client(self.server.address, watch="rows") as c:
            for job in c.reserve_batch(2, 5):
                c.delete(job)
            c.watch_only(["mails"])
            self.assertEqual(c.reserve(10).body, "all rows are there")

    def test_results(self) -> None:
        with redstalk.Client(self.server.address, watch="mails") as c, self.process(self.program("wait_all(", "results.py")) as program:
            for _ in range(2):
                c.finish(c.reserve(10), '"sent"')
            output, _ = program.communicate()
        self.assertEqual((sorted(output.splitlines()), program.returncode), (["1 done sent", "2 done sent"], 0))

    def test_asyncio(self) -> None:
        self.assertEqual(self.run_program(self.program("run_async(", "squares.py")), "328350\n")

    def test_tests(self) -> None:
        self.program('@app.task(tube="mails"', "mails.py")
        [source] = [source for source in programs() if "redstalk_memory" in source]
        (self.directory / "test_mails.py").write_text(source)
        command = ["/usr/bin/python3", "-m", "pytest", "-p", "redstalk.pytest_plugin", "-p", "no:cacheprovider"]
        ran = subprocess.run(command, cwd=self.directory, env={**os.environ, "PYTHONPATH": str(PACKAGE)}, stdout=subprocess.PIPE, text=True)
        self.assertIn("1 passed", ran.stdout)

    def test_reserving(self) -> None:
        with redstalk.Client(self.server.address) as c:
            c.put("x", tube="mails")
            self.assertIn("x {'tube': 'mails'", self.run_program(self.program("except TimedOutError", "reserve.py")))


if __name__ == "__main__":
    unittest.main()
