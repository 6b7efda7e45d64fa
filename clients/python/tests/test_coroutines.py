"""Workers whose handlers are coroutines."""

from __future__ import annotations

import asyncio
import contextvars
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
from tests.test_worker import Running

logging.getLogger("redstalk").addHandler(logging.NullHandler())

_variable: contextvars.ContextVar[str] = contextvars.ContextVar("a variable", default="")


class CoroutinesTest(unittest.TestCase):
    engine = "memory"

    @classmethod
    def setUpClass(cls) -> None:
        cls.server = server.start(cls.engine)
        cls.addClassCleanup(cls.server.stop)

    def setUp(self) -> None:
        self.tube = f"coroutines-{id(self)}"
        self.client = self.enterContext(redstalk.Client(self.server.address, use=self.tube, watch=self.tube))

    def worker(self, handler: Callable[[redstalk.WorkerJob], Any], **settings: Any) -> Running:
        return self.enterContext(Running(redstalk.Worker(self.server.address, [self.tube], **settings), handler))

    def until(self, condition: Callable[[], Any]) -> Any:
        end = time.monotonic() + 20
        while not (result := condition()):
            self.assertLess(time.monotonic(), end)
            time.sleep(0.01)
        return result

    def stats(self, id: int) -> dict[str, Any]:
        try:
            return self.client.stats_job(id)
        except redstalk.NotFoundError:
            return {"state": "gone"}

    def have_ended(self, ids: list[Any]) -> bool:
        return all(self.stats(id)["state"] == "gone" for id in ids)

    def test_many_at_a_time(self) -> None:
        count = 20 if self.engine == "beanstalkd" else 300
        all_run, seen = asyncio.Event(), []

        async def handle(job: redstalk.WorkerJob) -> None:
            seen.append((job.id, threading.get_ident()))
            if len(seen) == count:
                all_run.set()
            await all_run.wait()

        self.worker(handle, concurrency=count)
        ids = [self.client.put("x") for _ in range(count)]
        self.until(lambda: self.have_ended(ids))
        self.assertEqual(sorted(id for id, _ in seen), ids)
        self.assertEqual(len({thread for _, thread in seen}), 1)  # that of the loop

    def test_many_threads_are_not_needed(self) -> None:
        if self.engine == "beanstalkd":
            return
        before, go_on = threading.active_count(), asyncio.Event()
        running: list[asyncio.AbstractEventLoop] = []

        async def handle(job: redstalk.WorkerJob) -> None:
            running.append(asyncio.get_running_loop())
            await go_on.wait()

        self.worker(handle, concurrency=200)
        ids = [self.client.put("x") for _ in range(200)]
        self.until(lambda: len(running) == 200)
        self.assertLess(threading.active_count() - before, 30)
        running[0].call_soon_threadsafe(go_on.set)
        self.until(lambda: self.have_ended(ids))

    def test_function_beside_coroutines(self) -> None:
        async def later(job: redstalk.WorkerJob) -> None:
            self.assertEqual(_variable.get(), str(job.body))
            await asyncio.sleep(0.05)

        def handle(job: redstalk.WorkerJob) -> Any:
            self.assertEqual(_variable.get(), "")
            _variable.set(str(job.body))
            return later(job) if int(job.body) % 2 else time.sleep(0.05)

        self.worker(handle, concurrency=4)
        ids = [self.client.put(f"{n}") for n in range(20)]
        self.until(lambda: self.have_ended(ids))

    def test_blocked_loop(self) -> None:
        calls: list[Any] = []

        async def handle(job: redstalk.WorkerJob) -> None:
            calls.append(job.id)
            await asyncio.sleep(0)
            time.sleep(3)  # three TTRs

        self.worker(handle)
        ids = [self.client.put("x", ttr=1) for _ in range(2)]
        self.until(lambda: self.have_ended(ids))
        self.assertEqual(sorted(calls), ids)

    def test_timeout(self) -> None:
        cancelled = []

        async def handle(job: redstalk.WorkerJob) -> None:
            while True:
                try:
                    await asyncio.sleep(20 if job.body == "ends" else 1)
                except asyncio.CancelledError:
                    cancelled.append((job.body, job.cause))
                    if job.body == "ends":
                        raise

        with mock.patch("redstalk.run._GRACE", 0.5), self.assertLogs("redstalk", "ERROR") as log:
            self.worker(handle, timeout=0.3, backoff=redstalk.intervals(3600), shutdown_timeout=0)
            ids = [self.client.put(body) for body in ("ends", "goes on")]
            self.until(lambda: all(self.stats(id)["state"] == "delayed" for id in ids))
        self.assertEqual(sorted(cancelled), [("ends", "timeout"), ("goes on", "timeout")])
        self.assertRegex(log.output[0], f"job {ids[1]} .* ignores that its time is over")
        if self.engine != "beanstalkd":
            self.assertEqual([self.stats(id)["reason"] for id in ids], ["timeout"] * 2)

    def test_shutdown(self) -> None:
        started: list[Any] = []

        async def handle(job: redstalk.WorkerJob) -> None:
            started.append(job.id)
            try:
                await asyncio.sleep(20)
            finally:
                if job.body == "hangs":
                    await asyncio.sleep(20)

        worker = self.worker(handle, shutdown_timeout=0.1)
        ids = [self.client.put(body) for body in ("ends", "hangs")]
        self.until(lambda: len(started) == 2)
        worker.stop()
        self.assertEqual(worker.left, 1)
        for _ in ids:
            job = self.client.reserve(5)
            self.assertEqual(self.client.stats_job(job).get("failures", 0), 0)

    def test_stop_waits(self) -> None:
        started, ended = threading.Event(), []

        async def handle(job: redstalk.WorkerJob) -> None:
            started.set()
            await job.stopped()
            await asyncio.sleep(0.3)
            ended.append(job.id)

        worker = self.worker(handle)
        id = self.client.put("x")
        self.assertTrue(started.wait(10))
        worker.stop()
        self.assertEqual((worker.left, ended, self.stats(id)["state"]), (0, [id], "gone"))

    def faults(self) -> list[Callable[[], Any]]:
        async def raises(error: BaseException) -> None:
            await asyncio.sleep(0)
            raise error

        async def stops_the_loop() -> None:
            asyncio.get_running_loop().stop()
            await asyncio.sleep(0.01)
            raise ValueError

        async def ends_the_loop() -> None:
            asyncio.get_running_loop().call_soon(sys.exit)
            await asyncio.sleep(0.01)
            raise ValueError

        async def cancels_itself() -> None:
            task = asyncio.current_task()
            assert task
            task.cancel()
            await asyncio.sleep(1)

        async def generates() -> Any:
            yield 1

        async def awaits(what: Any) -> None:
            await what

        errors = [SystemExit(1), KeyboardInterrupt(), GeneratorExit(), asyncio.CancelledError(), StopIteration(), StopAsyncIteration()]
        other = asyncio.new_event_loop()
        self.addCleanup(other.close)
        return [*(lambda e=e: raises(e) for e in errors), stops_the_loop, ends_the_loop, cancels_itself, generates,
                lambda: awaits(7), lambda: awaits(other.create_future()), lambda: other.create_future()]  # fmt: skip

    def test_faults(self) -> None:
        faults = self.faults()
        calls: list[Any] = []

        async def handle(job: redstalk.WorkerJob) -> None:
            calls.append(job.id)
            if job.body == "good":
                return await asyncio.sleep(0.5)
            await faults[int(job.body)]()

        def handle_too(job: redstalk.WorkerJob) -> Any:
            calls.append(job.id)
            return asyncio.sleep(0.5) if job.body == "good" else faults[int(job.body)]()

        for handler in (handle, handle_too):
            calls.clear()
            worker = self.worker(handler, backoff=lambda failures: 3600)
            good = [self.client.put("good") for _ in range(3)]
            ids = [self.client.put(str(n)) for n in range(len(faults))]
            self.until(lambda: all(self.stats(id)["state"] == "delayed" for id in ids))
            self.until(lambda: self.have_ended(good))
            worker.stop()
            self.assertEqual(sorted(calls), good + ids)

    def test_forks(self) -> None:
        """What goes on in a forked process ends there. Only the parent settles the job."""

        def child(then: Any) -> Any:
            async def fork(job: redstalk.WorkerJob) -> None:
                await asyncio.sleep(0)
                pid = os.fork()
                if pid == 0:
                    return await then() if then else None
                statuses[str(job.body)] = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
                await asyncio.sleep(0.1)
                raise ValueError("of the parent")

            return fork

        async def task_forks(job: redstalk.WorkerJob) -> None:
            await asyncio.create_task(child(None)(job))

        async def fails() -> None:
            raise ValueError("of the child")

        statuses: dict[str, int] = {}  # of the child of each job
        handlers = [child(None), child(lambda: asyncio.sleep(0.01)), child(fails), task_forks]

        async def handle(job: redstalk.WorkerJob) -> None:
            if job.body == "good":
                return await asyncio.sleep(0.3)
            await handlers[int(job.body)](job)

        self.worker(handle, backoff=lambda failures: 3600)
        good = [self.client.put("good") for _ in range(3)]
        ids = [self.client.put(str(n)) for n in range(len(handlers))]
        self.until(lambda: all(self.stats(id)["state"] == "delayed" for id in ids))
        self.until(lambda: self.have_ended(good))
        self.assertEqual(statuses, {"0": 0, "1": 1, "2": 1, "3": 0})
        if self.engine != "beanstalkd":
            self.assertEqual([self.stats(id)["reason"] for id in ids], ["ValueError: of the parent"] * 4)

    def test_loop_of_the_caller(self) -> None:
        async def main() -> int:
            loop, events = asyncio.get_running_loop(), asyncio.Event()

            async def handle(job: redstalk.WorkerJob) -> None:
                self.assertIs(asyncio.get_running_loop(), loop)
                await asyncio.sleep(0.01)
                events.set()

            worker = redstalk.Worker(self.server.address, [self.tube])
            run = asyncio.create_task(worker.run_async(handle))
            self.client.put("x")
            await asyncio.wait_for(events.wait(), 10)
            events.clear()
            worker.stop()
            return await run

        self.assertEqual(asyncio.run(main()), 0)
        self.assertEqual(signal.getsignal(signal.SIGTERM), signal.SIG_DFL)
        self.assertRaises(redstalk.TimedOutError, self.client.reserve, 0)

    def test_cancelled_run(self) -> None:
        async def main() -> None:
            started = asyncio.Event()

            async def handle(job: redstalk.WorkerJob) -> None:
                started.set()
                await asyncio.sleep(0.3)

            run = asyncio.create_task(redstalk.Worker(self.server.address, [self.tube]).run_async(handle))
            await asyncio.wait_for(started.wait(), 10)
            run.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await run

        id = self.client.put("x")
        asyncio.run(main())
        self.assertEqual(self.stats(id)["state"], "gone")

    def test_worker_that_cannot_work(self) -> None:
        async def main() -> None:
            await redstalk.Worker("a" * 64 + ":1").run_async(print)

        self.assertRaises(UnicodeError, asyncio.run, main())

    def test_run_in_a_thread(self) -> None:
        """Signals come to the main thread, so there are none."""
        worker = redstalk.Worker(self.server.address, [self.tube])
        thread = threading.Thread(target=worker.run, args=(print,))
        thread.start()
        id = self.client.put("x")
        self.until(lambda: self.have_ended([id]))
        worker.stop()
        thread.join(20)
        self.assertFalse(thread.is_alive())

    def test_signals(self) -> None:
        program = """
            import asyncio, sys, redstalk
            app = redstalk.App(("127.0.0.1", int(sys.argv[1])))
            @app.task(tube=sys.argv[2])
            async def slow():
                print("started", flush=True)
                await app.current_job().stopped()
                print("stopping", flush=True)
                await asyncio.sleep(60)
            async def main():
                print(await app.run_async(), flush=True)
            asyncio.run(main()) if sys.argv[3] == "async" else print(app.run())
        """
        environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
        for how in ("async", "sync"):
            id = self.client.put('{"type":"slow"}')
            command = [sys.executable, "-c", textwrap.dedent(program), str(self.server.port), self.tube, how]
            with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
                watchdog = threading.Timer(30, process.kill)
                watchdog.start()
                self.addCleanup(watchdog.cancel)
                assert process.stdout
                self.assertEqual(process.stdout.readline(), "started\n")
                process.send_signal(signal.SIGTERM)
                self.assertEqual(process.stdout.readline(), "stopping\n")
                process.send_signal(signal.SIGINT)
                self.assertEqual(process.stdout.readline(), "0\n")  # it was cancelled in time
            self.assertEqual(process.returncode, 0)
            job = self.client.reserve(5)
            self.assertEqual(job.id, id)
            self.client.delete(job)


class BeanstalkdTest(CoroutinesTest):
    engine = "beanstalkd"


if __name__ == "__main__":
    unittest.main()
