"""put.py ADDR TUBE FROM: puts a job with a type, waits for its end, and prints its result."""

import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[3] / "clients" / "python"))

import redstalk  # noqa: E402

address, tube, sender = sys.argv[1:]
app = redstalk.App(address)


@app.task(tube=tube, keep=3600, retry=[0, 0])
def pair(n: int, text: str, **more: str) -> None:
    """Its worker is another program."""


id = pair.send_with_options(
    kwargs={"from": sender, "n": 7, "text": "é\n"},
    key=f"pair-{sender}-{tube}",
    meta={"request": "4711"},
    trace="00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    batch=f"batch-{tube}",
    group="acme",
)
print(json.dumps(pair.result(id, timeout=60)))
