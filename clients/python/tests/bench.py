"""Compares with rq: jobs a second, and the processor time of Python for each job.

    python3 tests/bench.py [JOBS [ROUNDS]]
"""

from __future__ import annotations

import statistics
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import redstalk  # noqa: E402
from tests import server  # noqa: E402

Result = dict[tuple[str, str], list[tuple[float, float]]]


def nothing(number: int) -> None:
    """The task."""


def measured(jobs: int, do: Callable[[], Any]) -> tuple[float, float]:
    """Return jobs a second, and microseconds of processor time for each."""
    start, cpu = time.perf_counter(), time.process_time()
    do()
    return jobs / (time.perf_counter() - start), (time.process_time() - cpu) / jobs * 1e6


class Redstalk:
    def __init__(self, engine: str) -> None:
        self.name = f"redstalk, {engine}"
        self.server = server.start(engine)
        self.app = redstalk.App(self.server.address)
        self.task = self.app.task(tube="bench")(nothing)

    def round(self, jobs: int, result: Result) -> None:
        result[self.name, "sent"].append(measured(jobs, lambda: [self.task.send(i) for i in range(jobs)]))
        for concurrency in (1, 10):
            if concurrency > 1:
                for i in range(jobs):
                    self.task.send(i)
            result[self.name, f"worked, {concurrency}"].append(measured(jobs, lambda: self._work(jobs, concurrency)))

    def _work(self, jobs: int, concurrency: int) -> None:
        worker = self.app.worker(concurrency=concurrency)
        done, lock = [0], threading.Lock()

        def handle(job: redstalk.WorkerJob) -> None:
            self.app.handle(job)
            with lock:
                done[0] += 1
                if done[0] == jobs:
                    worker.stop()

        worker.run(handle, signals=())


class Rq:
    name = "rq, Redis"

    def __init__(self) -> None:
        import redis
        import rq

        self.server = server.redis()
        self.connection = redis.Redis(port=self.server.port)
        self.queue = rq.Queue("bench", connection=self.connection)

    def round(self, jobs: int, result: Result) -> None:
        import rq

        result[self.name, "sent"].append(measured(jobs, lambda: [self.queue.enqueue(nothing, i) for i in range(jobs)]))
        worker = rq.SimpleWorker([self.queue], connection=self.connection)
        result[self.name, "worked, 1"].append(measured(jobs, lambda: worker.work(burst=True, logging_level="ERROR")))


def main(jobs: int = 1000, rounds: int = 5) -> None:
    systems: list[Any] = [Rq(), *(Redstalk(engine) for engine in server.ENGINES)]
    result: Result = {(s.name, what): [] for s in systems for what in ("sent", "worked, 1", "worked, 10")}
    try:
        for _ in range(rounds):
            for system in systems:
                system.round(jobs, result)
    finally:
        for system in systems:
            system.server.stop()
    for (name, what), values in result.items():
        if values:
            rate, cpu = (statistics.median(column) for column in zip(*values))
            print(f"{name:20} {what:12} {rate:10,.0f} jobs/s {cpu:8.0f} µs")


if __name__ == "__main__":
    from tests import bench  # so that rq finds the task by its module

    bench.main(*(int(argument) for argument in sys.argv[1:]))
