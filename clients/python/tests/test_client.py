"""Both clients on each engine, and what beanstalkd can do on it too."""

from __future__ import annotations

import inspect
import threading
import unittest
from datetime import datetime, timedelta
from typing import Any

import redstalk
from redstalk.aio_commands import AsyncCommands
from redstalk.commands import Commands
from tests.on_server import Blocking, Extensions, OnServer


class MemoryTest(Extensions, unittest.TestCase):
    def test_threads_share_a_client(self) -> None:
        c = self.tube_client()
        threads = [threading.Thread(target=lambda: [c.put("x") for _ in range(100)]) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        jobs = [job for _ in range(8) for job in c.reserve_batch(100, 5)]
        self.assertEqual(len({job.id for job in jobs}), 800)

    def test_defaults(self) -> None:
        """They are those of all clients."""
        c = self.tube_client()
        app = redstalk.App(self.server.address)
        c.set_schedule("defaults", c.using(), "a", every=3600)
        ids = [c.put("a"), c.batch("defaults").add("a"), app.task()(print).send(), c.run_schedule("defaults")]
        for stats in map(c.stats_job, ids):
            self.assertEqual((stats["pri"], stats["ttr"], stats["delay"], stats.get("retry") or "", stats.get("max") or 0), (1024, 60, 0, "", 0))
        for failures in range(1, 100):
            part = (redstalk.exponential()(failures) or 0) / min(2 ** (failures - 1), 3600)
            self.assertTrue(0.9 <= part <= 1.1, failures)
        self.assertEqual((redstalk.Worker().timeout, redstalk.Worker().concurrency, redstalk.Worker().shutdown_timeout), (1800, 10, 25))

    def test_misspelled(self) -> None:
        """An option with another name is an error at the call."""
        c = self.tube_client()
        app: Any = redstalk.App(self.server.address)
        for call in (
            lambda: c.put("a", priorty=1), lambda: c.put("a", key="k", retyr=[1]), lambda: c.batch("b").add("a", retyr=[1]),
            lambda: c.set_schedule("s", "a", "a", evry=1), lambda: c.set_policy("a", retyr=[1]), lambda: c.set_group("a", "g", wieght=1),
            lambda: c.release(1, raeson="a"), lambda: c.touch(1, progres="a"), lambda: c.kick(1, keep=True),
            lambda: app.task(retyr=[1])(print), lambda: app.task()(repr).send_with_options((1,), retyr=[1]), lambda: app.worker(concurency=1),
            lambda: redstalk.App(sceret="s"), lambda: redstalk.Client(sceret="s"), lambda: redstalk.Worker(sceret="s"),
        ):  # fmt: skip
            self.assertRaises(TypeError, call)

    def test_same_methods(self) -> None:
        for kind, asynchronous in ((Commands, AsyncCommands), (redstalk.Batch, redstalk.AsyncBatch)):
            for name, method in inspect.getmembers(kind, inspect.isfunction):
                if name != "__init__":
                    parameters = inspect.signature(method).parameters
                    self.assertEqual(parameters, inspect.signature(getattr(asynchronous, name)).parameters, name)


class EmbeddedTest(Extensions, unittest.TestCase):
    engine = "embedded"


class RedisTest(Extensions, unittest.TestCase):
    engine = "redis"


class AsyncTest(Extensions, unittest.TestCase):
    make = Blocking


class AsyncRedisTest(Extensions, unittest.TestCase):
    engine = "redis"
    make = Blocking


class BeanstalkdTest(OnServer, unittest.TestCase):
    engine = "beanstalkd"

    def test_missing_features_are_named(self: Any) -> None:
        c = self.tube_client()
        for feature, call in {
            "put with key": lambda: c.put("a", key="k"),
            "put with meta": lambda: c.put("a", meta={"a": "b"}),
            "set-policy": lambda: c.set_policy("a", retry=[1]),
            "list-jobs": lambda: list(c.list_jobs("a", "ready")),
            "find": lambda: c.find("a", "k"),
            "put with after": lambda: c.batch("b").then("a"),
            "seal-batch": lambda: c.batch("b").seal(),
            "set-schedule": lambda: c.set_schedule("s", "a", "a", every=1),
            "pause-group": lambda: c.pause_group("a", "g", 1),
        }.items():
            with self.assertRaises(redstalk.UnsupportedError) as caught:
                call()
            self.assertEqual(caught.exception.feature, feature)
        self.assertRaises(redstalk.UnsupportedError, type(self).make(self.server.address, user="a", secret="b").put, "x")
        self.assertEqual(c.capabilities(), frozenset())

    def test_times_are_rounded_up(self: Any) -> None:
        c = self.tube_client()
        self.assertEqual(c.stats_job(c.put("a", delay=1.5))["delay"], 2)
        self.assertIn(c.stats_job(c.put("a", at=datetime.now() + timedelta(seconds=100)))["delay"], (99, 100, 101))

    def test_reasons_are_left_out(self: Any) -> None:
        c = self.tube_client()
        c.put("a")
        c.release(c.reserve(5), reason="because")
        c.release(c.reserve(5), failure=False)
        c.bury(c.reserve(5), reason="because")

    def test_deadline_soon(self: Any) -> None:
        c = self.tube_client()
        c.put("a", ttr=1)
        c.reserve(5)
        self.assertRaises(redstalk.DeadlineSoonError, c.reserve, 5)


class AsyncBeanstalkdTest(BeanstalkdTest):
    make = Blocking


if __name__ == "__main__":
    unittest.main()
