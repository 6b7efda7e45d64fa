"""work.py ADDR TUBE TO: a worker for the jobs of the put programs, until SIGTERM. Each job fails once."""

import pathlib
import sys
from typing import Any

sys.path.insert(0, str(pathlib.Path(__file__).parents[3] / "clients" / "python"))

import redstalk  # noqa: E402

address, tube, receiver = sys.argv[1:]
app = redstalk.App(address)


@app.task(tube=tube)
def pair(n: int, text: str, **more: str) -> dict[str, Any]:
    job = app.current_job()
    checkpoint = job.last_checkpoint()
    if checkpoint is None:
        job.checkpoint({"step": 1})
        job.progress("1/2")
        raise ValueError(f"first try of {receiver}")
    stats = job.client.stats_job(job.id)  # with what is not sent to handlers
    return {
        "to": receiver,
        "from": more["from"],
        "n": n + 1,
        "text": text,
        "step": checkpoint["step"],
        "key": job.key,
        "request": job.meta["request"],
        "type": job.meta["content-type"],
        "trace": job.trace,
        "group": stats["group"],
        "batch": stats["batch"],
        "reason": job.reason,
    }


sys.exit(app.run())
