"""Jobs whose results are awaited while the server is killed twice: 2,000, or RESULTS of them."""

from __future__ import annotations

import itertools
import os
import threading
import unittest
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

import redstalk
from tests import server


class ResultsTest(unittest.TestCase):
    def test_none_is_missed(self) -> None:
        jobs = int(os.environ.get("RESULTS", 2000))
        for engine in ("embedded", "redis"):
            with self.subTest(engine):
                self.check(engine, jobs, [jobs // 4, jobs // 2])

    def test_without_kills(self) -> None:
        self.check("embedded", 1000, [])

    def check(self, engine: str, jobs: int, kills: list[int]) -> None:
        """Put jobs and wait for all results. The server is killed when so many have been handled."""
        finished = itertools.count(1)
        reached = {count: threading.Event() for count in kills}

        def handle(job: redstalk.WorkerJob) -> int:
            if event := reached.get(next(finished)):
                event.set()
            return int(job.body) ** 2

        with server.start(engine) as s, redstalk.Client(s.address, wait=30) as c:
            ids = put(s.address, jobs)
            worker = redstalk.Worker(s.address, ["results"], 20, wait=30)
            serving = threading.Thread(target=worker.run, args=(handle, ()), daemon=True)
            killer = threading.Thread(target=kill, args=(s, reached.values()), daemon=True)
            serving.start()
            killer.start()
            results = {ids[ended.id]: ended.value() for ended in c.wait_all(ids, 120)}
            worker.stop()
            serving.join(40)
            killer.join(40)
        self.assertEqual(results, {i: i**2 for i in range(jobs)})


def put(address: tuple[str, int], jobs: int) -> dict[int, int]:
    """Put jobs with the numbers below jobs, and return these by ids."""

    def some(part: int) -> dict[int, int]:
        with redstalk.Client(address, use="results") as c:
            return {c.put(f"{i}", ttr=10, keep=3600): i for i in range(part, jobs, 8)}

    with ThreadPoolExecutor(8) as pool:
        return {id: i for ids in pool.map(some, range(8)) for id, i in ids.items()}


def kill(s: server.Server, reached: Iterable[threading.Event]) -> None:
    for event in reached:
        event.wait(120)
        s.kill()
        s.start()


if __name__ == "__main__":
    unittest.main()
