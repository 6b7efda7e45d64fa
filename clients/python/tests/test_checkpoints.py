"""Checkpoints and progress of jobs, and workers that are stopped or killed in the middle of them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
import unittest
from collections.abc import Callable
from pathlib import Path
from typing import Any

import redstalk
from tests import server
from tests.on_server import Blocking
from tests.test_worker import Running

#: A worker in a process of its own. It counts up from the checkpoint, for ever.
PROGRAM = """
    import sys, time
    from redstalk import App, NotFinished

    app = App(("127.0.0.1", int(sys.argv[1])))

    @app.task(tube=sys.argv[2])
    def count():
        job = app.current_job()
        n = job.last_checkpoint() or 0
        print("from", n, flush=True)
        while not job.stopping.is_set():
            n += 1
            job.checkpoint(n)
            print(n, flush=True)
        raise NotFinished

    app.run()
"""


class MemoryTest(unittest.TestCase):
    engine = "memory"

    def setUp(self) -> None:
        self.server = self.enterContext(server.start(self.engine))
        self.client = self.enterContext(redstalk.Client(self.server.address, use="rows", watch="rows"))

    def worker(self, handler: Callable[[redstalk.WorkerJob], Any], **settings: Any) -> Running:
        return self.enterContext(Running(redstalk.Worker(self.server.address, ["rows"], **settings), handler))

    def until(self, condition: Callable[[], Any]) -> None:
        end = time.monotonic() + 20
        while not condition():
            self.assertLess(time.monotonic(), end)
            time.sleep(0.01)

    def gone(self, id: int) -> bool:
        try:
            return not self.client.stats_job(id)
        except redstalk.NotFoundError:
            return True

    def test_client(self) -> None:
        id = self.client.put("x", ttr=2)
        for c in (self.client, self.enterContext(Blocking(self.server.address, use="rows", watch="rows"))):
            job = c.reserve(5)
            c.touch(job, progress='7/\0"8"' + "ä" * 200)
            c.checkpoint(job, "row 7")
            [listed] = c.list_jobs("rows", "reserved")
            self.assertEqual(listed["progress"], ('7/"8"' + "ä" * 200)[:130])  # 256 bytes hold no half of a letter
            self.assertEqual((listed["checkpoint-bytes"], c.stats_job(id)["checkpoint-bytes"], c.get_checkpoint(id)), (5, 5, b"row 7"))
            self.assertRaises(redstalk.JobTooBigError, c.checkpoint, job, b"x" * 65537)
            for kick in (lambda **keep: c.kick_job(id, **keep), lambda **keep: c.kick(1, **keep), lambda **keep: c.replay_job(id, **keep)):
                c.bury(job)
                kick(keep_checkpoint=True)
                self.assertEqual(c.get_checkpoint(id), b"row 7")
                job = c.reserve(5)
            c.bury(job)
            c.kick(1)
            self.assertRaises(redstalk.NotFoundError, c.get_checkpoint, id)

    def test_late_holder(self) -> None:
        self.client.put("x", ttr=1)
        first = self.client.reserve(5)
        self.client.checkpoint(first, "1")
        second = self.client.reserve(10)  # after the TTR of the first
        self.assertRaises(redstalk.NotFoundError, self.client.checkpoint, first, "2")
        self.assertEqual((second.info["checkpoint-bytes"], self.client.get_checkpoint(second)), (1, b"1"))

    def test_goes_on(self) -> None:
        seen: list[Any] = []

        def handle(job: redstalk.WorkerJob) -> None:
            row = job.last_checkpoint()
            seen.append(row)
            if row == {"row": 2}:
                job.checkpoint(None)
                seen.append(job.last_checkpoint())
                return
            job.checkpoint({"row": row["row"] + 1 if row else 1})
            self.assertIsNotNone(job.last_checkpoint())
            with self.assertRaises(redstalk.JobTooBigError):
                job.checkpoint("x" * 65535)
            raise ValueError

        self.worker(handle)
        id = self.client.put("x", retry=[0, 0])
        self.until(lambda: self.gone(id))
        self.assertEqual(seen, [None, {"row": 1}, {"row": 2}, None])

    def test_large_checkpoints_are_asked_for(self) -> None:
        large = b'"' + b"x" * 65534 + b'"'  # too many for one reply
        ids = [self.client.put("x") for _ in range(100)]
        for job in self.client.reserve_batch(100, 5):
            self.client.checkpoint(job, large)
            self.client.release(job, failure=False)
        seen: list[int] = []
        self.worker(lambda job: seen.append(len(job.last_checkpoint())), concurrency=100)
        self.until(lambda: all(self.gone(id) for id in ids))
        self.assertEqual(seen, [65534] * 100)

    def test_lost_job(self) -> None:
        started, deleted = threading.Event(), threading.Event()
        seen: list[Any] = []

        def handle(job: redstalk.WorkerJob) -> None:
            started.set()
            deleted.wait(10)
            for _ in range(2):
                try:
                    job.checkpoint(1)
                except redstalk.NotFoundError:
                    seen.append(job.cause)
            seen.append(job.cancelled.is_set())

        self.worker(handle)
        self.client.put("x", key="k")  # its TTR is a minute, so no heartbeat notices
        self.assertTrue(started.wait(10))
        self.client.delete_key("rows", "k")
        deleted.set()
        self.until(lambda: len(seen) == 3)
        self.assertEqual(seen, ["deleted", "deleted", True])

    def test_progress(self) -> None:
        finish = threading.Event()
        self.addCleanup(finish.set)

        def handle(job: redstalk.WorkerJob) -> None:
            job.progress("begun")
            self.until(lambda: shown() == "begun")
            for n in range(10_000):
                job.progress(f"{n}/10000")
            job.progress("10000/10000")
            finish.wait(20)
            job.progress("failed at the end")
            raise ValueError

        def shown() -> Any:
            return self.client.stats_job(id).get("progress")

        began = time.monotonic()
        id = self.client.put("x")
        self.worker(handle)
        self.until(lambda: shown() == "10000/10000")
        self.assertGreater(time.monotonic() - began, 1)  # two texts were sent
        finish.set()
        self.until(lambda: self.client.stats_job(id)["state"] == "delayed")
        self.assertEqual(shown(), "failed at the end")

    def test_stop(self) -> None:
        started = threading.Semaphore(0)
        seen: list[Any] = []

        async def coroutine(job: redstalk.WorkerJob) -> None:
            await job.stopped()
            job.checkpoint("coroutine")
            raise redstalk.NotFinished

        def handle(job: redstalk.WorkerJob) -> Any:
            started.release()
            if job.body == "coroutine":
                return coroutine(job)
            job.stopping.wait(20)
            job.checkpoint("function")
            raise redstalk.NotFinished

        running = self.worker(handle)
        for body in ("coroutine", "function"):
            self.client.put(body, retry=[3600])
        for _ in range(2):
            self.assertTrue(started.acquire(timeout=10))
        self.worker(lambda job: seen.append((job.body, job.last_checkpoint(), job.failures, job.reason)))
        stopped = time.monotonic()
        running.worker.stop()
        self.until(lambda: len(seen) == 2)
        self.assertLess(time.monotonic() - stopped, 3)  # on a busy machine
        self.assertEqual(sorted(seen), [(body, body, 0, "") for body in ("coroutine", "function")])

    def process(self) -> subprocess.Popen[str]:
        environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
        command = [sys.executable, "-c", textwrap.dedent(PROGRAM), str(self.server.port), "rows"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment)
        watchdog = threading.Timer(60, process.kill)
        watchdog.start()
        self.addCleanup(watchdog.cancel)
        return process

    def saved(self, process: subprocess.Popen[str], start: int, signal_number: int) -> int:
        """Read what a process prints, end it after ten checkpoints, and return the last. It must begin from start, or from one later."""
        assert process.stdout
        with process:
            first = int(process.stdout.readline().removeprefix("from "))
            self.assertIn(first, (start, start + 1))  # it may have saved one more than it printed
            last = first
            while last < first + 10:
                last = int(process.stdout.readline())
            process.send_signal(signal_number)
            for line in process.stdout:
                last = int(line) if line.endswith("\n") else last
        return last

    def test_processes(self) -> None:
        """A worker that is killed, one that is stopped and one whose server is killed: the next goes on from the last checkpoint."""
        app = redstalk.App(self.server.address)
        self.addCleanup(app.client.close)
        app.task(tube="rows", ttr=1)(count).send()
        saved = self.saved(self.process(), 0, signal.SIGKILL)
        saved = self.saved(self.process(), saved, signal.SIGTERM)
        if self.engine != "memory":
            self.server.kill()
            self.server.start()
        with redstalk.Client(self.server.address, watch="rows") as c:
            job = c.reserve(10)
            self.assertEqual((job.info["checkpoint-bytes"], c.get_checkpoint(job)), (len(str(saved)), str(saved).encode()))


def count() -> None:
    """The name of the task of PROGRAM."""


class EmbeddedTest(MemoryTest):
    engine = "embedded"


class RedisTest(MemoryTest):
    engine = "redis"


class BeanstalkdTest(unittest.TestCase):
    def test_is_unsupported(self) -> None:
        seen: list[Any] = []

        def handle(job: redstalk.WorkerJob) -> None:
            job.progress("1%")
            seen.append(job.last_checkpoint())
            try:
                job.checkpoint(1)
            except redstalk.UnsupportedError as error:
                seen.append(error.feature)

        with server.start("beanstalkd") as beanstalkd, redstalk.Client(beanstalkd.address) as c:
            id = c.put("x")
            with Running(redstalk.Worker(beanstalkd.address), handle):
                end = time.monotonic() + 10
                while len(seen) < 2 or "default" in c.tubes() and c.stats_tube("default")["current-jobs-reserved"]:
                    self.assertLess(time.monotonic(), end)
            self.assertRaises(redstalk.NotFoundError, c.stats_job, id)
        self.assertEqual(seen, [None, "checkpoint"])


if __name__ == "__main__":
    unittest.main()
