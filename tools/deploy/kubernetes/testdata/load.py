"""Puts jobs at a steady rate and handles them, until its standard input ends. Then it prints what happened, as JSON.

load.py ADDRESS,ADDRESS TUBE
"""

import collections
import json
import logging
import sys
import threading
import time

from redstalk import Client, Worker

PRODUCERS, PAUSE, WORK = 4, 0.02, 0.02  # seconds between two puts of a producer, and in a handler

addresses, tube = sys.argv[1].split(","), sys.argv[2]
errors: list[str] = []
acknowledged: set[str] = set()
handled: collections.Counter[str] = collections.Counter()
longest = [0.0] * PRODUCERS
ending = threading.Event()


class Heard(logging.Handler):
    """Counts what the client logs as a failure."""

    def emit(self, record: logging.LogRecord) -> None:
        errors.append(record.getMessage())


def produce(number: int) -> None:
    client = Client(addresses)
    count = 0
    while not ending.wait(PAUSE):
        count += 1
        body = f"{number}-{count}"
        began = time.monotonic()
        try:
            client.put(body, tube=tube)
            acknowledged.add(body)
        except Exception as error:
            errors.append(f"put: {error!r}")
        longest[number] = max(longest[number], time.monotonic() - began)
    client.close()


def handle(job) -> None:
    time.sleep(WORK)
    handled[str(job.body)] += 1


heard = Heard(logging.ERROR)
logging.getLogger("redstalk").addHandler(heard)
worker = Worker(addresses, tubes={tube: 1})
working = threading.Thread(target=worker.run, args=(handle,))
working.start()
producers = [threading.Thread(target=produce, args=(number,)) for number in range(PRODUCERS)]
for producer in producers:
    producer.start()
print("started", flush=True)
sys.stdin.read()
ending.set()
for producer in producers:
    producer.join()
deadline = time.monotonic() + 20
while not acknowledged <= handled.keys() and time.monotonic() < deadline:
    time.sleep(0.05)
worker.stop()
working.join()
json.dump({
    "puts": len(acknowledged), "lost": len(acknowledged - handled.keys()), "twice": sum(1 for n in handled.values() if n > 1),
    "longest": max(longest), "errors": errors,
}, sys.stdout)  # fmt: skip
