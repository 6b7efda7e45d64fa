"""Tasks: their envelope, their schedules, and event loops that send them."""

from __future__ import annotations

import asyncio
import json
import unittest
from typing import Any

import redstalk
from redstalk import envelope
from redstalk.testing import in_memory
from tests import server
from tests.test_worker import Running


def f(a: Any, b: Any = 2, *, c: Any = 3) -> Any:
    return [a, b, c]


def with_names(a: Any, **more: Any) -> Any:
    return [a, more]


def with_rest(a: Any, *rest: Any, b: Any = 0) -> Any:
    return [a, *rest, b]


def without_names(a: Any, b: Any = 2, /) -> Any:
    return [a, b]


def mixed(a: Any = 1, /, b: Any = 2, **more: Any) -> Any:
    return [a, b, more]


def nothing() -> Any:
    return []


class EnvelopeTest(unittest.TestCase):
    def setUp(self) -> None:
        self.app = redstalk.App()

    def data(self, function: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Return the data of a job, after a worker has called the function with the same arguments."""
        self.app.tasks.clear()
        task = self.app.task(name="ä type", keep=60)(function)
        with in_memory(self.app) as jobs:
            id = task.send_with_options(args, kwargs)
            self.assertEqual(task.result(id), json.loads(json.dumps(function(*args, **kwargs))))
            [job] = jobs.jobs
        self.assertEqual(list(json.loads(job.body)), ["type", "data"])
        self.assertEqual((job.type, job.options["meta"]), ("ä type", {"content-type": "application/json"}))
        return job.data

    def test_arguments(self) -> None:
        self.assertEqual(self.data(f, 1), {"a": 1})
        self.assertEqual(self.data(f, 1, 2, c=[{"d": None}]), {"a": 1, "b": 2, "c": [{"d": None}]})
        self.assertEqual(self.data(with_names, 1, a2=2, self=3), {"a": 1, "a2": 2, "self": 3})
        self.assertEqual(self.data(with_rest, 1), {"a": 1})
        self.assertEqual(self.data(with_rest, 1, b=2), {"a": 1, "b": 2})
        self.assertEqual(self.data(with_rest, [1], 2, 3), [[1], 2, 3])
        self.assertEqual(self.data(without_names, {"a": 1}), [{"a": 1}])
        self.assertEqual(self.data(mixed, b=1, z=2), {"b": 1, "z": 2})
        self.assertEqual(self.data(mixed, 1, b=2), [1, 2])
        self.assertEqual(self.data(nothing), {})

    def test_arguments_that_cannot_be_sent(self) -> None:
        for function, args, kwargs, error in (
            (f, (), {}, TypeError), (f, (1, 2, 3), {}, TypeError), (f, (1,), {"d": 1}, TypeError), (f, (object(),), {}, TypeError),
            (with_rest, (1, 2), {"b": 3}, ValueError), (mixed, (1,), {"c": 3}, ValueError), (f, (float("nan"),), {}, ValueError),
        ):  # fmt: skip
            with self.assertRaises(error):
                self.data(function, *args, **kwargs)

    def test_bodies_of_others(self) -> None:
        for body, call in (
            ('{"type":"x","data":{"a":1}}', ("x", [], {"a": 1})), ('{"data":[1,[2]],"type":"x"}', ("x", [1, [2]], {})),
            ('{"type":"x","data":null}', ("x", [], {})), ('{"type":"x"}', ("x", [], {})), ('{"type":"x","data":7}', ("x", [7], {})),
            ('{"type":"x","data":"7"}', ("x", ["7"], {})), ('{"task":"x","args":[1],"kwargs":{"b":2}}', ("x", [1], {"b": 2})),
        ):  # fmt: skip
            self.assertEqual(envelope.decoded(body), call)
        for body in ("", "x", "7", "null", "[]", '["type"]', "{}", '{"type":7}', '{"task":"x"}', b"\xff", '{"type":"x","data":' + "[" * 100_000 + "]" * 100_000 + "}"):
            with self.assertRaises((ValueError, LookupError, TypeError), msg=body):
                envelope.decoded(body)

    def test_own_meta(self) -> None:
        task = self.app.task(meta={"content-type": "text/json", "a": "b"})(nothing)
        with in_memory(self.app) as jobs:
            task.send()
            task.send_with_options(meta={"c": "d"})
        self.assertEqual([job.options["meta"] for job in jobs.jobs],
                         [{"content-type": "text/json", "a": "b"}, {"content-type": "application/json", "c": "d"}])  # fmt: skip

    def test_calls(self) -> None:
        with self.assertRaises(TypeError):
            self.app.task(dealy=1)(nothing)  # type: ignore[call-arg]
        task = self.app.task()(nothing)
        self.assertRaises(ValueError, self.app.task(), nothing)  # twice
        with in_memory(self.app), self.assertRaises(TypeError):
            task.send_with_options(dealy=1)  # type: ignore[call-arg]


class ServerTest(unittest.TestCase):
    def setUp(self) -> None:
        self.server = self.enterContext(server.start())
        self.app = redstalk.App(self.server.address)
        self.addCleanup(self.app.client.close)
        self.client = self.enterContext(redstalk.Client(self.server.address, use="app", watch="app"))

    def test_jobs_of_others(self) -> None:
        called: list[Any] = []

        @self.app.task(tube="app")
        def add(a: int, b: int) -> None:
            called.append(a + b)

        add.send(1, 2)
        self.assertEqual(self.client.stats_job(1)["meta"], {"content-type": "application/json"})
        ids = [self.client.put(body) for body in ('{"type":"add","data":[3,4]}', '{"task":"add","args":[5],"kwargs":{"b":6}}', '{"type":"sub"}')]
        with Running(self.app.worker(concurrency=1), self.app.handle):
            while self.client.stats_tube("app")["current-jobs-buried"] < 1:
                pass
        self.assertEqual(called, [3, 7, 11])
        self.assertEqual(self.client.stats_job(ids[-1])["reason"], "no task for this job: KeyError('sub')")

    def test_event_loops(self) -> None:
        @self.app.task(tube="app", keep=60)
        async def double(n: int) -> int:
            job = self.app.current_job()
            await asyncio.sleep(0)
            return 2 * n if self.app.current_job() is job else 0

        async def main() -> list[int]:
            worker = asyncio.create_task(self.app.run_async())
            ids = await asyncio.gather(*(double.send_async(n) for n in range(20)))
            ids.append(await double.send_with_options_async((20,), priority=1))
            results = await asyncio.gather(*(double.result_async(id, 20) for id in ids))
            worker.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await worker
            await self.app.async_client().close()
            return results

        for _ in range(2):  # each loop has its client
            self.assertEqual(asyncio.run(main()), [2 * n for n in range(21)])

    def test_schedules(self) -> None:
        @self.app.cron(every=3600, name="hourly", args=(7,), overlap="replace", retry=[5])
        @self.app.cron("30 2 * * 1-5", tz="Europe/Berlin", kwargs={"n": 1}, catch_up=60)
        @self.app.task(tube="app", name="report", priority=3, ttr=90, retry=[1, 60], on_duplicate="keep", meta={"a": "b"})
        def task(n: int) -> None:
            pass

        for _ in range(2):
            with Running(self.app.worker(), self.app.handle):
                while len(list(self.client.list_schedules())) < 2:
                    pass
        report = self.client.get_schedule("report")
        self.assertEqual([report[key] for key in ("tube", "pri", "ttr", "cron", "tz", "catch-up", "retry")],
                         ["app", 3, 90, "30 2 * * 1-5", "Europe/Berlin", "1m", "1s,1m"])  # fmt: skip
        self.assertEqual([self.client.get_schedule("hourly")[key] for key in ("every", "overlap", "retry")], ["1h", "replace", "5s"])
        self.client.run_schedule("hourly")
        job = self.client.reserve(5)
        self.assertEqual((job.body, job.info["meta"]), ('{"type":"report","data":{"n":7}}', {"a": "b", "content-type": "application/json"}))

    def test_schedules_that_are_refused(self) -> None:
        task = self.app.task(tube="app")(nothing)
        for options, error in (({"tzz": "UTC"}, TypeError), ({"cron": "@daily"}, TypeError), ({"every": 1}, ValueError)):
            with self.assertRaises(error):
                self.app.cron("@daily", **options)  # type: ignore[arg-type]
        self.assertRaises(ValueError, self.app.cron)
        self.assertRaises(TypeError, self.app.cron("@daily"), nothing)
        self.assertRaises(TypeError, self.app.cron("@daily", args=(1,)), task)
        self.assertRaises(redstalk.InvalidArgumentError, self.app.cron("@daily", name="a b"), task)
        self.app.cron("* *")(task)
        self.assertRaises(ValueError, self.app.cron("@daily"), task)  # the same name
        self.assertRaises(redstalk.BadFormatError, self.app.run)


if __name__ == "__main__":
    unittest.main()
