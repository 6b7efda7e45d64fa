"""Workers on each engine and on beanstalkd."""

from __future__ import annotations

import asyncio
import logging
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
from unittest import mock

import redstalk
from tests import server
from tests.fake import Fake

logging.getLogger("redstalk").addHandler(logging.NullHandler())


class Running:
    """A worker in a thread."""

    def __init__(self, worker: redstalk.Worker, handler: Callable[[redstalk.WorkerJob], Any]) -> None:
        self.worker = worker
        self.left: int | None = None
        self._thread = threading.Thread(target=self._run, args=(handler,))
        self._thread.start()

    def _run(self, handler: Callable[[redstalk.WorkerJob], Any]) -> None:
        self.left = self.worker.run(handler, signals=())

    def __enter__(self) -> Running:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        self.worker.stop()
        self._thread.join(30)
        assert not self._thread.is_alive()


class OnServer:
    engine = "memory"

    @classmethod
    def setUpClass(cls) -> None:
        cls.server = server.start(cls.engine)

    @classmethod
    def tearDownClass(cls) -> None:
        cls.server.stop()

    def setUp(self: Any) -> None:
        self.tube = f"worker-{id(self)}"
        self.client = self.enterContext(redstalk.Client(self.server.address, use=self.tube, watch=self.tube))

    def worker(self: Any, handler: Any, tubes: Any = None, **settings: Any) -> Running:
        running: Running = self.enterContext(Running(redstalk.Worker(self.server.address, tubes or [self.tube], **settings), handler))
        return running

    def until(self: Any, condition: Callable[[], Any]) -> Any:
        end = time.monotonic() + 20
        while not (result := condition()):
            self.assertLess(time.monotonic(), end)
            threading.Event().wait(0.01)
        return result

    def state(self: Any, id: int) -> Any:
        try:
            return self.client.stats_job(id)["state"]
        except redstalk.NotFoundError:
            return "gone"

    def test_returns_and_exceptions(self: Any) -> None:
        tries: dict[Any, int] = {}

        def handle(job: redstalk.WorkerJob) -> None:
            tries[job.body] = tries.get(job.body, 0) + 1
            if job.body == "skip":
                raise redstalk.Skip("bad address")
            if tries[job.body] == 1 and job.body == "snooze":
                raise redstalk.Snooze(1)
            if tries[job.body] < 3 and job.body == "fail" or job.body == "always":
                raise ValueError("no")

        self.worker(handle, backoff=redstalk.intervals(0, 0))
        ids = {body: self.client.put(body) for body in ("done", "fail", "always", "skip", "snooze")}
        states = {"done": "gone", "fail": "gone", "always": "buried", "skip": "buried", "snooze": "gone"}
        self.until(lambda: {body: self.state(id) for body, id in ids.items()} == states)
        self.assertEqual(tries, {"done": 1, "fail": 3, "always": 3, "skip": 1, "snooze": 2})

    def test_touches(self: Any) -> None:
        calls = []
        over = threading.Event()

        def handle(job: redstalk.WorkerJob) -> None:
            calls.append(job.id)
            over.wait(3)

        self.worker(handle)
        id = self.client.put("slow", ttr=1)
        self.until(lambda: self.state(id) == "gone")
        self.assertEqual(calls, [id])

    def test_lost_job(self: Any) -> None:
        lost = threading.Event()

        def handle(job: redstalk.WorkerJob) -> None:
            if lost.is_set():
                return
            self.client.delete(job.job) if job.lease else job.client.delete(job.job)
            if job.cancelled.wait(10):
                lost.set()

        self.worker(handle)
        self.client.put("x", ttr=1)
        self.assertTrue(lost.wait(10))

    def has_timed_out(self: Any, id: int) -> bool:
        stats = self.client.stats_job(id)
        return stats["state"] == "delayed" and stats.get("reason", "timeout") == "timeout" and stats.get("failures", 1) == 1

    def test_timeout(self: Any) -> None:
        causes: dict[Any, tuple[str, str]] = {}

        async def sleep(job: redstalk.WorkerJob) -> None:
            await asyncio.sleep(60)

        def handle(job: redstalk.WorkerJob) -> Any:
            if job.body == "coroutine":
                return sleep(job)
            try:
                while True:
                    time.sleep(0.01)
            except BaseException as error:
                causes[job.body] = (type(error).__name__, job.cause)
                if job.body == "skips":
                    raise redstalk.Skip("no time for this") from error
                if job.body != "returns":
                    raise

        self.worker(handle, timeout=0.3, backoff=redstalk.intervals(3600))
        ids = {body: self.client.put(body) for body in ("raises", "coroutine", "skips", "returns")}
        self.until(lambda: self.has_timed_out(ids["raises"]) and self.has_timed_out(ids["coroutine"]))
        self.until(lambda: (self.state(ids["skips"]), self.state(ids["returns"])) == ("buried", "gone"))
        self.assertEqual(causes, dict.fromkeys(("raises", "skips", "returns"), ("HandlerTimeout", "timeout")))

    def test_timeout_ignored(self: Any) -> None:
        hang, handled = threading.Event(), []
        self.addCleanup(hang.set)

        def handle(job: redstalk.WorkerJob) -> None:
            if job.body == "hangs":
                hang.wait(30)  # the thread waits in C
            handled.append(job.body)

        with mock.patch("redstalk.run._GRACE", 0.5), self.assertLogs("redstalk", "ERROR") as log:
            self.worker(handle, concurrency=1, timeout=0.2, backoff=redstalk.intervals(3600))
            id = self.client.put("hangs", ttr=1)
            self.until(lambda: self.has_timed_out(id))
        self.assertRegex(log.output[0], f"handler of job {id} of tube {self.tube} ignores")
        next_id = self.client.put("next")
        self.assertEqual((self.state(next_id), handled), ("ready", []))  # its thread is in use
        hang.set()
        self.until(lambda: self.state(next_id) == "gone")
        self.assertTrue(self.has_timed_out(id))  # what the handler returned in the end changed nothing
        self.assertEqual(handled, ["next"])

    def test_timeout_of_a_job(self: Any) -> None:
        app = redstalk.App(self.server.address)
        self.addCleanup(app.client.close)

        @app.task(tube=self.tube, timeout=0)
        def unlimited() -> None:
            time.sleep(0.7)

        @app.task(tube=self.tube, timeout=0.1)
        def short() -> None:
            time.sleep(0.7)

        @app.task(tube=self.tube)
        def usual() -> None:
            time.sleep(0.7)

        self.enterContext(Running(app.worker(timeout=0.2, backoff=redstalk.intervals(3600)), app.handle))
        ids = [task.send() for task in (unlimited, short, usual)]
        self.until(lambda: self.state(ids[0]) == "gone" and self.has_timed_out(ids[1]) and self.has_timed_out(ids[2]))

    def test_gives_back(self: Any) -> None:
        started = threading.Event()
        over = threading.Event()

        def handle(job: redstalk.WorkerJob) -> None:
            started.set()
            over.wait(20)

        running = self.worker(handle, shutdown_timeout=0)
        self.addCleanup(over.set)
        id = self.client.put("x")
        self.assertTrue(started.wait(10))
        running.stop()
        self.assertEqual(running.left, 1)
        job = self.client.reserve(5)
        self.assertEqual(job.id, id)
        stats = self.client.stats_job(job)
        self.assertEqual(stats.get("failures", 0), 0)

    def test_stop_waits(self: Any) -> None:
        started = threading.Event()

        def handle(job: redstalk.WorkerJob) -> None:
            started.set()
            threading.Event().wait(0.5)

        running = self.worker(handle)
        id = self.client.put("x")
        self.assertTrue(started.wait(10))
        running.stop()
        self.assertEqual((running.left, self.state(id)), (0, "gone"))

    def test_weights(self: Any) -> None:
        many, few = self.tube + "-many", self.tube + "-few"
        handled: list[str] = []
        for i in range(150):
            for tube in (many, few):
                self.client.put(f"{i}", tube=tube)
        self.worker(lambda job: handled.append(job.tube), {many: 9, few: 1}, concurrency=2)
        self.until(lambda: len(handled) >= 300)
        self.assertGreater(handled[:100].count(many), 70)
        self.assertGreater(handled[:150].count(few), 0)

    def test_tasks(self: Any) -> None:
        app = redstalk.App(self.server.address)
        self.addCleanup(app.client.close)
        done: list[Any] = []

        @app.task(tube=self.tube)
        def add(a: int, b: int = 1) -> int:
            done.append(a + b)
            return a + b

        @app.task(tube=self.tube, name="slow")
        async def later(a: int) -> None:
            done.append(a)

        self.assertEqual(add(1, b=2), 3)
        self.assertRaises(TypeError, add.send, 1, 2, 3)
        add.send(4, b=5)
        add.send_with_options((7,), priority=1, delay=1)
        later.send(100)
        odd = self.client.put('{"task": "other"}')
        self.enterContext(Running(app.worker(), app.handle))
        self.until(lambda: sorted(done) == [3, 8, 9, 100])
        self.until(lambda: self.state(odd) == "buried")


class Extensions(OnServer):
    def test_results(self: Any) -> None:
        values: dict[str, Any] = {"json": {"n": [1]}, "bytes": b"\xff", "none": None, "object": object(), "long": "x" * 70_000, "kept not": 7}

        def handle(job: redstalk.WorkerJob) -> Any:
            return values[str(job.body)]

        c = self.client
        self.worker(handle)
        forgotten = c.put("kept not")
        for name, result in (("json", b'{"n":[1]}'), ("bytes", b"\xff"), ("none", b""), ("object", b""), ("long", b"")):
            ended = c.wait(c.put(name, keep=60), 10)
            self.assertEqual((ended.how, ended.result), ("done", result), name)
        self.until(lambda: self.state(forgotten) == "gone")

    def test_coroutines_and_tasks_have_results(self: Any) -> None:
        app = redstalk.App(self.server.address)
        self.addCleanup(app.client.close)

        @app.task(tube=self.tube, keep=60)
        async def square(n: int) -> int:
            if n < 0:
                raise redstalk.Skip("negative")
            return n * n

        with Running(app.worker(), app.handle):
            self.assertEqual(square.result(square.send(12), 10), 144)
            with self.assertRaisesRegex(redstalk.EndedError, "negative"):
                square.result(square.send(-1), 10)

    def test_cancel(self: Any) -> None:
        causes: list[str] = []

        async def wait() -> None:
            await asyncio.sleep(60)

        def handle(job: redstalk.WorkerJob) -> Any:
            if job.body == "coroutine":
                return wait()
            if job.cancelled.wait(30):
                causes.append(job.cause)
            raise ValueError("cancelled")

        self.worker(handle)
        bodies = ("deleted", "flushed", "coroutine")
        ids = [self.client.put(body, key=body, ttr=3) for body in bodies]
        self.until(lambda: all(self.state(id) == "reserved" for id in ids))
        with self.assertLogs("redstalk", "INFO") as log:
            self.client.delete_key(self.tube, "deleted")
            self.client.flush_tube(self.tube, "reserved")
            self.until(lambda: len(log.output) == 3)
        self.assertEqual(causes, ["deleted", "deleted"])
        self.assertCountEqual(log.output, [f"INFO:redstalk:job {id} was deleted before its handler returned" for id in ids])

    def test_server_retries(self: Any) -> None:
        seen: list[tuple[int, str]] = []

        def handle(job: redstalk.WorkerJob) -> None:
            seen.append((job.failures, job.reason))
            raise ValueError("no")

        self.worker(handle, tubes=[self.tube])
        self.client.put("x", retry=[0.01, 0.01], dead=self.tube + "-dead", meta={"a": "b"})
        dead = self.enterContext(redstalk.Client(self.server.address, watch=self.tube + "-dead")).reserve(20)
        self.assertEqual(dead.info["reason"], "ValueError: no")
        self.assertEqual(seen, [(0, ""), (1, "ValueError: no"), (2, "ValueError: no")])


class Textless(Exception):
    """An exception whose text cannot be read, as of a response that is not there."""

    def __str__(self) -> str:
        return str(self.response.text)  # type: ignore[attr-defined]


class Nameless(type):
    @property
    def __name__(cls) -> str:  # type: ignore[override]
        raise SystemExit


class Odd(Textless, metaclass=Nameless):
    """An exception that answers no question."""

    __class__ = property(lambda self: 1 / 0)  # type: ignore[assignment]
    __traceback__ = property(lambda self: 1 / 0)  # type: ignore[assignment]

    def __bool__(self) -> bool:
        raise ValueError


class Endless(redstalk.Snooze):
    def __init__(self) -> None:
        self.seconds = 10**400


def _spoil(job: redstalk.WorkerJob) -> None:
    job.info.clear()
    raise ValueError


def _generator(job: redstalk.WorkerJob) -> Any:
    yield job


class _Faulty(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        raise SystemExit("the log")


class FaultsTest(unittest.TestCase):
    """Whatever user code does is a failure of its job alone."""

    def setUp(self) -> None:
        served = self.enterContext(server.start())
        self.address = served.address
        self.client = self.enterContext(redstalk.Client(self.address, use="faults"))

    def run_faults(self, faults: list[Any], **settings: Any) -> list[dict[str, Any]]:
        """Fail a job in each way, one after another, and then do a good one. Return the stats of those that have failed."""
        ids = [self.client.put(str(n)) for n in range(len(faults))]
        good, done = self.client.put("good"), threading.Event()

        def handle(job: redstalk.WorkerJob) -> Any:
            if job.body == "good":
                return done.set()
            fault = faults[int(job.body)]
            if isinstance(fault, BaseException | type) or type(fault) is Odd:
                raise fault
            return fault(job)

        with Running(redstalk.Worker(self.address, ["faults"], concurrency=1, **settings), handle):
            self.assertTrue(done.wait(20))
        self.assertRaises(redstalk.NotFoundError, self.client.stats_job, good)
        return [self.client.stats_job(id) for id in ids]

    def test_results(self) -> None:
        def child(job: redstalk.WorkerJob) -> None:
            if pid := os.fork():
                os.waitpid(pid, 0)
                raise ValueError("the parent's failure")

        faults = [Textless(), Odd(), SystemExit(0), KeyboardInterrupt(), GeneratorExit(), Endless(), redstalk.Snooze(10**12), redstalk.Snooze(float("nan")),
                  redstalk.Snooze(float("inf")), ValueError("\ud800"), ValueError('"\\' * 600), ValueError("\r\n\0"), _spoil, _generator, child]  # fmt: skip
        log = logging.getLogger("redstalk")
        faulty = _Faulty()
        for with_log in (True, False):
            if not with_log:
                log.addFilter(faulty)
                self.addCleanup(log.removeFilter, faulty)
            for stats in self.run_faults(faults, backoff=lambda failures: 3600):
                self.assertEqual((stats["state"], stats["failures"]), ("delayed", 1), stats)
            self.client.flush_tube("faults")
        self.assertEqual(self.run_faults([redstalk.Skip(Textless())])[0]["state"], "buried")

    def test_backoff(self) -> None:
        values = [float("nan"), float("inf"), 2**32, 10**400, -1, "soon", object(), Textless(), SystemExit(), redstalk.Snooze]

        def backoff(failures: int) -> Any:
            value = values.pop()
            if isinstance(value, BaseException | type):
                raise value
            return value

        for stats in self.run_faults([ValueError("the job's own")] * len(values), backoff=backoff):
            self.assertGreaterEqual(stats["failures"], 1)
            self.assertEqual(stats["reason"], "ValueError: the job's own")

    def test_refused_for_good(self) -> None:
        def answer(connection: int, line: str) -> str | None:
            if line == "capabilities":
                page = "---\n- lease\n- info\n- reason\n"
                return f"OK {len(page)}\r\n{page}"
            if line.startswith("reserve"):
                info = '{"tube":"default","pri":1,"ttr":3600}'
                return f"RESERVED_BATCH 1\r\nLEASED 7 1 0 {len(info)}\r\n\r\n{info}"
            return "WATCHING 1" if line.startswith("watch") else "FORBIDDEN"

        fake, calls = self.enterContext(Fake(answer)), threading.Semaphore(0)
        self.enterContext(Running(redstalk.Worker(fake.address, concurrency=1), lambda job: calls.release()))
        for _ in range(3):  # each delivery is refused once
            self.assertTrue(calls.acquire(timeout=5))

    def test_worker_that_cannot_work(self) -> None:
        self.assertRaises(UnicodeError, redstalk.Worker("a" * 64 + ":1").run, print, signals=())


class MemoryTest(Extensions, unittest.TestCase):
    def test_signals(self) -> None:
        program = """
            import os, sys, threading, redstalk
            worker = redstalk.Worker(("127.0.0.1", int(sys.argv[1])), [sys.argv[2]])
            def handle(job):
                print("started", flush=True)
                threading.Event().wait(60)
            print(worker.run(handle), flush=True)
            os._exit(0)
        """
        environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
        command = [sys.executable, "-c", textwrap.dedent(program), str(self.server.port), self.tube]
        id = self.client.put("x")
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
            watchdog = threading.Timer(30, process.kill)
            watchdog.start()
            self.addCleanup(watchdog.cancel)
            assert process.stdout
            self.assertEqual(process.stdout.readline(), "started\n")
            process.send_signal(signal.SIGTERM)
            self.assertRaises(redstalk.TimedOutError, self.client.reserve, 1)  # it waits for the handler
            process.send_signal(signal.SIGINT)
            self.assertEqual(process.stdout.readline(), "1\n")
        self.assertEqual(self.client.reserve(5).id, id)

    def test_command(self) -> None:
        directory = self.server.directory
        source = f"import redstalk\napp = redstalk.App(('127.0.0.1', {self.server.port}))\n"
        source += f"@app.task(tube='{self.tube}')\ndef hello(name):\n    print('hello', name, flush=True)\n"
        Path(directory, "tasks.py").write_text(source)
        environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
        self.client.put('{"task": "hello", "args": ["Ada"], "kwargs": {}}')
        command = [sys.executable, "-m", "redstalk", "tasks:app", "--concurrency", "2"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment, cwd=directory) as process:
            watchdog = threading.Timer(30, process.kill)
            watchdog.start()
            self.addCleanup(watchdog.cancel)
            assert process.stdout
            self.assertEqual(process.stdout.readline(), "hello Ada\n")
            process.send_signal(signal.SIGTERM)
            self.assertEqual(process.wait(20), 0)


class EmbeddedTest(Extensions, unittest.TestCase):
    engine = "embedded"


class RedisTest(Extensions, unittest.TestCase):
    engine = "redis"


class BeanstalkdTest(OnServer, unittest.TestCase):
    engine = "beanstalkd"


if __name__ == "__main__":
    unittest.main()
