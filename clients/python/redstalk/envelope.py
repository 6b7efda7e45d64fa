"""Bodies of jobs with a type, which all clients write and read: {"type": NAME, "data": ANY}."""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping
from typing import Any

CONTENT_TYPE = {"content-type": "application/json"}  # the meta of such a job

_UNNAMED = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.VAR_POSITIONAL)


def encoded(type: str, signature: inspect.Signature, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bytes:
    """Return the body of a job that calls a function with these arguments. They are checked here, not in a worker."""
    data = _data(signature.bind(*args, **kwargs))
    return json.dumps({"type": type, "data": data}, separators=(",", ":"), allow_nan=False).encode()


def _data(bound: inspect.BoundArguments) -> dict[str, Any] | list[Any]:
    """Return the arguments by name, or as a list if some have no name."""
    kinds = {name: bound.signature.parameters[name].kind for name in bound.arguments}
    if any(kind in _UNNAMED for kind in kinds.values()):
        if bound.kwargs:
            raise ValueError("a job cannot have arguments without names beside such with names")
        return list(bound.args)
    named = dict(bound.arguments)
    for name, kind in kinds.items():
        if kind is inspect.Parameter.VAR_KEYWORD:
            named.update(named.pop(name))
    return named


def decoded(body: bytes | str) -> tuple[str, list[Any], dict[str, Any]]:
    """Return the type of a job and the arguments of a call. ValueError, LookupError or TypeError: it has none.

    Also read what tasks of redstalk 0.2.0 have sent.
    """
    try:
        message = json.loads(body)
    except RecursionError as error:  # nested too deeply
        raise ValueError(str(error)) from None
    if not isinstance(message, dict) or not isinstance(message.get("type"), str):
        return message["task"], message["args"], message["kwargs"]
    data = message.get("data")
    if isinstance(data, dict):
        return message["type"], [], data
    if isinstance(data, list):
        return message["type"], data, {}
    return message["type"], [] if data is None else [data], {}
