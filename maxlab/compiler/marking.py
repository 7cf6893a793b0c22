"""The ids that options name, held against a graph: `Marker`, `check_ids`."""

from __future__ import annotations

from collections.abc import Iterable

from maxlab.compiler.options import Options
from maxlab.errors import ArgumentError
from maxlab.ir import Function, Op, Value
from maxlab.opset import OPSET, named


class Marker:
    """An op outside of the function that reads the values to keep, so that passes keep what
    computes them, and say by what they were replaced.
    """

    def __init__(self, function: Function, ids: Iterable[str]) -> None:
        self._keys: list[str] = []
        values: list[Value] = []
        for id in sorted(ids):
            for key, value in _values(function, id):
                self._keys.append(key)
                values.append(value)
        self._op = Op("keep", named("output"), values, [])

    def taken_out(self) -> dict[str, Value]:
        """The values by the ids they were asked for by; nothing reads them for us any more."""
        found = dict(zip(self._keys, self._op.operands, strict=True))
        self._op.drop()
        return found


def _values(function: Function, id: str) -> list[tuple[str, Value]]:
    for value in function.inputs:
        if value.id == id:
            return [(id, value)]
    for op in function.ops:
        if op.id == id and not op.results and op.name in OPSET and OPSET[op.name].effect:
            return []  # it has made what there is to keep in its buffer
        if op.id == id and op.results:
            return [(id, op.results[0]), *((v.id, v) for v in op.results)]
        for value in op.results:
            if value.id == id:
                return [(id, value)]
    raise _unknown(function, "keep", id)


def check_ids(function: Function, options: Options) -> None:
    """Return if every id of ``options.apart`` is an op of ``function``.

    Raises:
        ArgumentError: ML626, one is not.
    """
    if options.apart:
        known = {op.id for op in function.ops}
        for id in sorted(options.apart):
            if id not in known:
                raise _unknown(function, "apart", id)


def _unknown(function: Function, name: str, id: str) -> ArgumentError:
    ids = [op.id for op in function.ops]
    shown = ", ".join(ids[:4]) + (" …" if len(ids) > 4 else "")
    return ArgumentError(
        "ML626",
        f"the option {name} names {id!r}, which is nothing of the graph {function.name!r}",
        fix=f"its ops are {shown}: take an id from the graph's text or from its picture",
    )


__all__ = ["Marker", "check_ids"]
