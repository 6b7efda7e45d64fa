"""``python -m redstalk MODULE:APP`` runs a worker of an App."""

from __future__ import annotations

import argparse
import importlib
import logging
import sys

from .app import App


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m redstalk", description="Run the tasks of an App.")
    parser.add_argument("app", metavar="MODULE:APP")
    parser.add_argument("--concurrency", type=int, default=10, help="handlers at a time (default 10)")
    parser.add_argument("--tube", action="append", default=[], metavar="NAME[=WEIGHT]", help="by default those of all tasks")
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    sys.path.insert(0, "")
    module, _, name = arguments.app.partition(":")
    app = getattr(importlib.import_module(module), name or "app")
    if not isinstance(app, App):
        parser.error(f"{arguments.app} is no App")
    tubes = {name: int(weight or 1) for name, _, weight in (tube.partition("=") for tube in arguments.tube)}
    return 1 if app.run(tubes, arguments.concurrency) else 0


if __name__ == "__main__":
    sys.exit(main())
