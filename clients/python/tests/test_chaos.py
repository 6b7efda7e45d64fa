"""10,000 jobs while the server is killed twice."""

from __future__ import annotations

import threading
import unittest
from collections import Counter

import redstalk
from tests import server

JOBS = 10_000


class ChaosTest(unittest.TestCase):
    def test_nothing_is_lost(self) -> None:
        handled: Counter[str] = Counter()
        lock = threading.Lock()
        all_done = threading.Event()
        kills = {JOBS // 4: threading.Event(), JOBS // 2: threading.Event()}

        def handle(job: redstalk.WorkerJob) -> None:
            with lock:
                handled[str(job.body)] += 1
                for count, reached in kills.items():
                    if len(handled) >= count:
                        reached.set()
                if len(handled) == JOBS:
                    all_done.set()

        with server.start("embedded") as s:
            worker = redstalk.Worker(s.address, ["chaos"], 20, wait=30)
            serving = threading.Thread(target=worker.run, args=(handle, ()), daemon=True)
            producers = [threading.Thread(target=produce, args=(s.address, part), daemon=True) for part in range(4)]
            for thread in (serving, *producers):
                thread.start()
            for reached in kills.values():
                self.assertTrue(reached.wait(60))
                self.assertLess(len(handled), JOBS)
                s.kill()
                s.start()
            for thread in producers:
                thread.join(60)
            self.assertTrue(all_done.wait(60), f"{JOBS - len(handled)} jobs are lost")
            worker.stop()
            serving.join(40)
            with redstalk.Client(s.address, watch="chaos") as c:
                self.assertEqual(c.reserve_batch(1), [])
        self.assertEqual(set(handled), {f"{i}" for i in range(JOBS)})
        print(f"{sum(handled.values()) - JOBS} of {JOBS} jobs were delivered more than once")


def produce(address: tuple[str, int], part: int) -> None:
    with redstalk.Client(address, use="chaos", wait=30) as c:
        for i in range(part, JOBS, 4):
            c.put(f"{i}", ttr=10, key=f"{i}", key_ttl=3600)


if __name__ == "__main__":
    unittest.main()
