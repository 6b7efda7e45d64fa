"""Tests of both clients, for subclasses of TestCase with a server."""

from __future__ import annotations

import asyncio
import inspect
from datetime import UTC, datetime, timedelta
from typing import Any

import redstalk
from tests import server


class Blocking:
    """An AsyncClient whose methods wait, so that both clients pass the same tests."""

    _target: Any

    def __init__(self, *args: Any, **settings: Any) -> None:
        self._runner = asyncio.Runner()
        self._target = self._runner.run(self._make(args, settings))

    @classmethod
    def _over(cls, runner: asyncio.Runner, batch: redstalk.AsyncBatch) -> Blocking:
        """Return a batch whose methods wait."""
        blocking = cls.__new__(cls)
        blocking._runner, blocking._target = runner, batch
        return blocking

    async def _make(self, args: Any, settings: Any) -> redstalk.AsyncClient:
        return redstalk.AsyncClient(*args, **settings)

    def __getattr__(self, name: str) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            result = getattr(self._target, name)(*args, **kwargs)
            if isinstance(result, redstalk.AsyncBatch):
                return Blocking._over(self._runner, result)
            if inspect.isasyncgen(result):
                return self._runner.run(self._collect(result))
            return self._runner.run(result)

        return call

    async def _collect(self, items: Any) -> list[Any]:
        return [item async for item in items]

    def __enter__(self) -> Blocking:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
        self._runner.close()


class OnServer:
    """Tests of the commands that every server has; for a subclass of TestCase."""

    engine = "memory"
    make: Any = redstalk.Client

    @classmethod
    def setUpClass(cls) -> None:
        cls.server = server.start(cls.engine)

    @classmethod
    def tearDownClass(cls) -> None:
        cls.server.stop()

    def client(self: Any, **settings: Any) -> Any:
        client = type(self).make(self.server.address, **settings)
        self.enterContext(client)
        return client

    def tube_client(self: Any, **settings: Any) -> Any:
        """Return a client that uses and watches only a tube of this test."""
        tube = self.id().replace("_", "-").rpartition(".")[2] + f"-{id(self)}"
        return self.client(use=tube, watch=tube, **settings)

    def test_put_reserve_delete(self: Any) -> None:
        c = self.tube_client()
        id = c.put("jäb", priority=3, ttr=120)
        job = c.reserve(timeout=5)
        self.assertEqual((job.id, job.body), (id, "jäb"))
        stats = c.stats_job(job)
        self.assertEqual((stats["pri"], stats["ttr"], stats["state"]), (3, 120, "reserved"))
        c.delete(job)
        for gone in (c.delete, c.stats_job, c.touch):
            self.assertRaises(redstalk.NotFoundError, gone, job)
        self.assertRaises(redstalk.NotFoundError, c.peek, id)
        with self.assertRaises(redstalk.TimedOutError):
            c.reserve(timeout=0)

    def test_ids_of_held_jobs(self: Any) -> None:
        c = self.tube_client()
        id = c.put("a")
        c.reserve(0)
        c.touch(id)
        c.release(id, delay=0)
        c.reserve(5)
        c.bury(id)
        self.assertEqual(c.peek_buried().id, id)
        self.assertEqual(c.kick(10), 1)
        c.reserve(5)
        c.delete(id)

    def test_release_bury_kick_peek(self: Any) -> None:
        c = self.tube_client(encoding=None)
        id = c.put(b"\xff\r\n\x00")
        self.assertEqual(c.peek_ready().body, b"\xff\r\n\x00")
        c.release(c.reserve(0), priority=7, delay=100)
        self.assertEqual(c.peek_delayed().id, id)
        self.assertEqual(c.stats_job(id)["pri"], 7)
        c.kick_job(id)
        c.bury(c.reserve(5), priority=9)
        self.assertEqual((c.peek_buried().id, c.stats_job(id)["pri"]), (id, 9))
        c.kick_job(id)
        job = c.reserve_job(id)
        self.assertEqual(job.body, b"\xff\r\n\x00")
        c.touch(job)
        c.delete(job)
        for peek in (c.peek_ready, c.peek_delayed, c.peek_buried):
            self.assertRaises(redstalk.NotFoundError, peek)

    def test_bodies_that_are_no_text(self: Any) -> None:
        c = self.tube_client()
        self.assertRaises(TypeError, self.client(encoding=None).put, "a")
        c.put(b"\xff")
        c.put("ä".encode())
        self.assertEqual([c.reserve(5).body, c.reserve(5).body], [b"\xff", "ä"])

    def test_tubes(self: Any) -> None:
        c = self.client()
        self.assertEqual((c.using(), c.watching()), ("default", ["default"]))
        c.use("one")
        self.assertIn("one", c.tubes())
        self.assertEqual(c.watch("two"), 2)
        self.assertEqual(c.ignore("default"), 1)
        self.assertRaises(redstalk.NotIgnoredError, c.ignore, "two")
        self.assertEqual((c.using(), c.watching()), ("one", ["two"]))
        c.put("a", tube="two")
        self.assertEqual(c.using(), "one")
        self.assertIn("two", c.tubes())
        self.assertEqual(c.stats_tube("two")["current-jobs-ready"], 1)
        c.pause_tube("two", 60)
        self.assertRaises(redstalk.TimedOutError, c.reserve, 0)
        c.pause_tube("two", 0)
        c.delete(c.reserve(5))
        self.assertGreater(c.stats()["total-jobs"], 0)

    def test_refusals(self: Any) -> None:
        c = self.tube_client()
        self.assertRaises(redstalk.JobTooBigError, c.put, "x" * 70000)
        self.assertRaisesRegex(redstalk.InvalidArgumentError, "'a b': it must be ", c.use, "a b")
        self.assertRaisesRegex(TypeError, "a duration is seconds, not '10s'", c.put, "a", retry=["10s", "1m"])
        self.assertRaisesRegex(TypeError, "a body is str or bytes, not dict", c.put, {"to": "ada"})
        self.assertRaises(redstalk.InvalidArgumentError, c.put, "a", tube="a\r\nb")
        self.assertRaises(redstalk.InvalidArgumentError, c.put, "a", priority=-1)
        self.assertRaises(redstalk.NotFoundError, c.stats_tube, "no-such-tube")
        self.assertEqual(c.reserve_batch(3), [])
        self.assertEqual(c.put("x", delay=timedelta(hours=1), ttr=0).state, "")

    def test_held_jobs_go_back_with_close(self: Any) -> None:
        a = self.tube_client()
        b = self.client(watch=a.using())
        id = a.put("x")
        b.reserve(5)
        b.close()
        job = a.reserve(5)
        self.assertEqual((job.id, job.info.get("failures", 0)), (id, 0))
        self.assertRaises(redstalk.ClosedError, b.reserve)


class Extensions(OnServer):
    """Tests of what only redstalk has."""

    def test_keys(self: Any) -> None:
        c = self.tube_client()
        tube = c.using()
        id = c.put("a", key="k", key_ttl=60)
        again = c.put("b", key="k", key_ttl=60)
        self.assertEqual((again, again.state), (id, "READY"))
        self.assertEqual(c.find(tube, "k").body, "a")
        with self.assertRaises(redstalk.DuplicateError) as caught:
            c.put("b", key="k", on_duplicate="fail")
        self.assertEqual(caught.exception.id, id)
        c.delete_key(tube, "k")
        self.assertEqual(c.put("b", key="k", key_ttl=60).state, "GONE")

    def test_tags_and_info(self: Any) -> None:
        c = self.tube_client()
        tube = c.using()
        trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
        c.put(
            "a", delay=0.02, ttr=90, key="k", retry=[0.5, 60], jitter=0, max_deliveries=9, dead="morgue", expire=3600, on_expire="park",
            meta={"request": 'a "b"\n\\'}, trace=trace, group="Ann & Co",
        )  # fmt: skip
        job = c.reserve(5)
        info = {key: job.info[key] for key in ("tube", "pri", "ttr", "key", "retry", "meta", "trace", "failures")}
        self.assertEqual(info, {
            "tube": tube, "pri": redstalk.DEFAULT_PRIORITY, "ttr": 90, "key": "k", "retry": "500ms,1m", "meta": {"request": 'a "b"\n\\'},
            "trace": trace, "failures": 0,
        })  # fmt: skip
        stats = c.stats_job(job)
        self.assertEqual((stats["max"], stats["dead"], stats["group"]), (9, "morgue", "Ann & Co"))
        c.release(job, reason='bröken: "x"')
        listed = list(c.list_jobs(tube, "delayed"))
        self.assertEqual([(job.id, 'bröken: "x"')], [(one["id"], one["reason"]) for one in listed])
        job = c.reserve(5)
        self.assertEqual(job.info["failures"], 1)
        c.release(job, failure=False)
        self.assertEqual(c.reserve(5).info["failures"], 1)
        c.put("later", at=datetime.now() + timedelta(hours=1))
        self.assertIn(c.peek_delayed().body, "later")
        c.put("exp", retry="exp(1s,10s,3)")

    def test_leases(self: Any) -> None:
        c, other = self.tube_client(), self.client()
        for body in "abc":
            c.put(body)
        jobs = c.reserve_batch(10, 5)
        self.assertEqual([job.body for job in jobs], ["a", "b", "c"])
        self.assertTrue(all(job.lease for job in jobs))
        other.touch(jobs[0])
        other.delete(jobs[0])
        other.bury(jobs[1], reason="why")
        other.release(jobs[2])
        again = c.reserve(5)
        self.assertGreater(again.lease, jobs[2].lease)
        self.assertRaises(redstalk.NotFoundError, other.delete, jobs[2])
        c.delete(again)

    def test_policies_and_groups(self: Any) -> None:
        c = self.tube_client()
        tube = c.using()
        c.set_policy(tube, retry=[10, 60], dead="morgue", group_concurrency=1)
        self.assertEqual(c.get_policy(tube), {"retry": "10s,1m", "dead": "morgue", "group-concurrency": 1})
        self.assertIn(tube, c.policies())
        for body in "ab":
            c.put(body, group="Ann & Co")
        c.reserve(5)
        self.assertEqual(c.reserve_batch(1), [])
        self.assertEqual(c.stats_group(tube, "Ann & Co")["held"], "concurrency")
        c.set_group(tube, "Ann & Co", concurrency=2, weight=3)
        self.assertEqual(c.get_group(tube, "Ann & Co")["weight"], 3)
        self.assertEqual(c.list_groups(tube)["groups"][0]["name"], "Ann & Co")
        c.pause_group(tube, "Ann & Co", 60)
        self.assertEqual(c.reserve_batch(1), [])
        self.assertEqual(c.flush_group(tube, "Ann & Co"), 1)
        c.set_policy(tube)
        self.assertRaises(redstalk.NotFoundError, c.get_policy, tube)

    def test_results(self: Any) -> None:
        c = self.client(use="results", watch="results")
        kept = c.put("x", keep=3600, key="k", meta={"a": "b, }"})
        self.assertRaises(redstalk.TimedOutError, c.wait, kept, 0.05)
        job = c.reserve(0)
        self.assertRaises(redstalk.JobTooBigError, c.finish, job, "x" * 65537)
        c.finish(job, b"\x00\r\nENDED\xff")
        self.assertRaises(redstalk.NotFoundError, c.finish, job, "again")
        ended = c.wait(kept, 5)
        self.assertEqual((ended.id, ended.how, ended.result), (kept, "done", b"\x00\r\nENDED\xff"))
        [listed] = c.ended("results")
        self.assertEqual(listed, c.stats_ended(kept))
        self.assertEqual((listed.result, listed.info["meta"], listed.info["key"]), (ended.result, {"a": "b, }"}, "k"))
        self.assertEqual((listed.info["tube"], listed.info["ended-ms"] + 3_600_000), ("results", listed.info["until-ms"]))

        parked, dying, gone, forgotten = c.put("1", keep=60), c.put("2", keep=60, max_deliveries=1, dead="morgue"), c.put("3", keep=60), c.put("4")
        c.bury(c.reserve(0), reason="bad")
        c.release(c.reserve(0))
        c.delete(gone)
        self.assertRaises(redstalk.NotKeptError, c.finish, c.reserve(0), "")
        self.assertRaises(redstalk.NotKeptError, c.wait, forgotten)
        self.assertRaises(redstalk.NotFoundError, c.wait, 1 << 40)
        many = {one.id: one for one in c.wait_all([parked, dying, gone, forgotten, 1 << 40], 5)}
        self.assertEqual((many[parked].how, many[parked].reason), ("parked", "bad"))
        self.assertEqual((many[dying].how, many[dying].to_tube), ("dead", "morgue"))
        self.assertGreater(many[dying].to_id, dying)
        self.assertEqual([many[id].how for id in (gone, forgotten, 1 << 40)], ["deleted", "not-kept", "not-found"])
        self.assertRaises(redstalk.EndedError, many[gone].value)
        c.set_policy("results*", keep=60, keep_bytes=1 << 20)
        self.assertEqual(c.get_policy("results*")["keep-bytes"], 1 << 20)

    def test_pages_of_records(self: Any) -> None:
        c = self.client(use="pages")
        ids = [c.put("", keep=60, batch="records") for _ in range(1100)]
        c.flush_tube("pages")
        for ended in (list(c.ended("pages")), list(c.ended(batch="records"))):
            self.assertEqual(sorted(one.id for one in ended), ids)

    def test_moves(self: Any) -> None:
        c = self.tube_client()
        tube = c.using()
        id = c.put("a", delay=60)
        c.reschedule(id, 0)
        c.set_priority(id, 4)
        self.assertEqual(c.stats_job(id)["pri"], 4)
        self.assertEqual(c.move_jobs(tube, "ready", tube + "-2", 10), 1)
        for _ in range(150):
            c.put("x", tube=tube + "-2")
        self.assertEqual(len(list(c.list_jobs(tube + "-2", "ready"))), 151)
        self.assertEqual(c.flush_tube(tube + "-2"), 151)
        id = c.put("a")
        c.bury(c.reserve(5))
        c.replay_job(id)
        self.assertEqual(c.stats_job(id)["state"], "ready")
        self.assertIn("lease", c.capabilities())

    def test_batches(self: Any) -> None:
        c = self.tube_client()
        tube = c.using()
        batch = c.batch(tube)
        self.assertRaises(redstalk.NotFoundError, batch.stats)
        members = [batch.add("1", batch_ttl=3600), batch.add("2", priority=1)]
        then = batch.then("done", tube=tube + "-mails", batch=tube + "-next")
        stats = c.stats_job(then)
        self.assertEqual([stats[key] for key in ("state", "held", "after", "batch")], ["delayed", "batch", tube, tube + "-next"])
        batch.seal()
        with self.assertRaises(redstalk.BatchSealedError):
            batch.add("3")
        stats = batch.stats()
        self.assertEqual([stats[key] for key in ("name", "state", "sealed", "total", "pending", "ttl-ms")], [tube, "sealed", True, 2, 2, 3_600_000])
        self.assertEqual(stats["after"], [{"id": then, "tube": tube + "-mails", "state": "delayed", "all": False, "batch": tube + "-next"}])
        self.assertEqual(c.reserve_batch(9, 5)[0].body, "2")
        c.watch(tube + "-mails")
        c.delete(members[0])
        self.assertEqual(c.reserve_batch(9), [])
        c.delete(members[1])
        self.assertEqual((c.reserve(10).body, batch.stats()["state"]), ("done", "done"))

    def test_cancelled_batch(self: Any) -> None:
        c = self.tube_client()
        tube = c.using()
        batch = c.batch(tube)
        for _ in range(3):
            c.put("x", tube=tube + "-rows", batch=tube)
        c.put("done", after=tube)
        batch.then_all("ended")
        self.assertEqual(batch.cancel(), 3)
        self.assertEqual(c.reserve(10).body, "ended")
        stats = batch.stats()
        self.assertEqual([stats[key] for key in ("state", "gone", "after-failed")], ["failed", 3, 1])
        self.assertEqual([(one["state"], one["all"]) for one in stats["after"]], [("buried", False)])
        for name in ("a b", "", "x" * 101):
            self.assertRaises(redstalk.InvalidArgumentError, c.put, "a", batch=name)
            self.assertRaises(redstalk.InvalidArgumentError, c.batch(name).seal)

    def test_schedules(self: Any) -> None:
        c = self.tube_client()
        tube = c.using()
        start = datetime.now(UTC).replace(microsecond=0) + timedelta(days=1)
        c.set_schedule(
            "007", tube, "ä", 3, ttr=90, every=timedelta(hours=1), start=start, until=start + timedelta(days=1), spread=0.5, overlap="skip", catch_up=60,
            catch_up_all=2, retry=[1, 60], meta={"a": "b c"},
        )  # fmt: skip
        one = c.get_schedule("007")
        self.assertEqual([one[key] for key in ("name", "tube", "pri", "ttr", "every", "paused", "put")], ["007", tube, 3, 90, "1h", False, 0])
        self.assertEqual(one["next-ms"], start.timestamp() * 1000)
        self.assertEqual(c.preview_schedule("007", 2), [start, start + timedelta(hours=1)])
        c.pause_schedule("007")
        self.assertEqual([one["paused"] for one in c.list_schedules() if one["name"] == "007"], [True])
        c.resume_schedule("007")
        self.assertIs(c.get_schedule("007")["paused"], False)
        id = c.run_schedule("007")
        again = c.run_schedule("007")
        self.assertEqual((id.state, again, again.state), ("", id, "READY"))
        job = c.reserve(5)
        self.assertEqual((job.id, job.body, job.info["meta"], job.info["retry"]), (id, "ä", {"a": "b c"}, "1s,1m"))
        self.assertEqual(c.stats_job(job)["schedule"], "007")
        c.delete_schedule("007")
        for call in (c.get_schedule, c.delete_schedule, c.pause_schedule, c.resume_schedule, c.run_schedule, c.preview_schedule):
            self.assertRaises(redstalk.NotFoundError, call, "007")

    def test_schedules_with_cron(self: Any) -> None:
        c = self.tube_client()
        name = c.using()[-100:].lstrip("-")
        c.set_schedule(name, c.using(), "a", delay=1.5, cron="30 2 * * 1-5", tz="Europe/Berlin")
        c.set_schedule(name, c.using(), b"b", cron="30 2 * * 1-5", tz="Europe/Berlin")
        [time] = c.preview_schedule(name, 1)
        self.assertEqual((time.hour, time.minute), (2, 30))
        self.assertEqual([time], c.preview_cron("30 2 * * 1-5", 1, "Europe/Berlin"))
        self.assertEqual(len(c.preview_cron("@daily")), 10)
        for n in range(100, 250):
            c.set_schedule(f"{n}", c.using(), "a", every=3600)
        names = [one["name"] for one in c.list_schedules()]
        self.assertEqual([one for one in names if one.isdecimal()], [f"{n}" for n in range(100, 250)])
        self.assertRaises(redstalk.BadFormatError, c.set_schedule, "a", c.using(), "a", cron="* *")
        self.assertRaisesRegex(redstalk.BadFormatError, r"BAD_FORMAT \(preview-schedule\)", c.preview_cron, "* *")
        self.assertRaises(redstalk.InvalidArgumentError, c.set_schedule, "a b", c.using(), "a", every=1)
