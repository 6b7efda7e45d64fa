"""The options of commands and the tags that the server knows are the same."""

from __future__ import annotations

import inspect
import json
import subprocess
import unittest

from redstalk import Client, options, request
from redstalk.options import GroupLimits, Policy, PutOptions, ScheduleOptions
from tests.server import PROGRAM

#: Arguments of the commands that are not tags.
PLAIN = {"name", "tube", "body", "priority", "ttr", "tags"}


class FieldsTest(unittest.TestCase):
    def test_arguments(self) -> None:
        fields = json.loads(subprocess.check_output([PROGRAM, "--fields"]))
        for command in ("touch", "release", "bury", "kick", "kick-job", "replay-job"):
            parameters = inspect.signature(getattr(Client, command.replace("-", "_"))).parameters
            for name in (field["name"] for field in fields if command in field["in"]):
                self.assertIn(name.replace("-", "_"), parameters, command)

    def test_options(self) -> None:
        fields = json.loads(subprocess.check_output([PROGRAM, "--fields"]))
        for command, names in (
            ("put", {*PutOptions.__annotations__}),
            ("set-policy", {*Policy.__annotations__}),
            ("set-group", {*GroupLimits.__annotations__}),
            ("set-schedule", {*ScheduleOptions.__annotations__, *inspect.signature(request.set_schedule).parameters}),
        ):
            known = {field["name"]: field["value"] for field in fields if command in field["in"]}
            tags = {options.line([(name, "")]).strip(" :"): name for name in names - PLAIN}
            self.assertEqual(set(tags), set(known), command)
            self.assertRaises(TypeError, options.pairs, {"dealy": 1.5})
            for tag, name in tags.items():
                if known[tag] == "DURATION" and name != "delay":  # which is an argument of its own
                    self.assertEqual(options.pairs({name: 1.5}), [(name, "1500ms")])
