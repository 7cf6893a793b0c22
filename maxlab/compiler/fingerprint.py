"""The fingerprint of a graph, which differs where graphs become different plans: `fingerprint`.

Two functions of one fingerprint become equal plans, up to the user's lines, which a plan that is
found by it gets from the graph at hand. So the fingerprint has everything of a function that
passes, schedule and planner may read: ops, operands, types, attributes, the contents of constants,
ids, names, scopes, and which ops stand on the same line; of lines themselves nothing.
"""

from __future__ import annotations

import functools
import os
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from maxlab.compiler.options import Options
from maxlab.digests import blake2b
from maxlab.errors import Location
from maxlab.ir import Block, Call, Constant, Function, Op, Type
from maxlab.ir.attrtext import attr_text, type_text
from maxlab.toolchain.prelude import kernels_dir

PACKAGE = Path(__file__).resolve().parents[1]
SOURCES = (".", "ir", "opset", "compiler", "compiler/codegen", "compiler/passes", "toolchain")
"""The folders whose files decide what plan a graph becomes."""


class Fingerprint(NamedTuple):
    """Everything by which a graph becomes a plan.

    Attributes:
        graph: A digest of the function.
        version: A digest of the files of the compiler, of Python and NumPy, whose arithmetic folds
            constants.
        options: A digest of the options.
        places: The user's lines, by the ids of ops.
    """

    graph: str
    version: str
    options: str
    places: dict[str, Location | None]


def fingerprint(function: Function, options: Options) -> Fingerprint:
    """Everything by which ``function`` becomes a plan with ``options``.

    Raises:
        GraphError: ML355, it has an attribute that no text can hold, such as a function of Python.
    """
    writer = _Writer()
    writer.function(function)
    text = "\n".join(writer.lines)
    return Fingerprint(_digest(text), version(), _digest(options_text(options)), writer.places)


def options_text(options: Options) -> str:
    """All fields of ``options``."""
    values = ((one.name, getattr(options, one.name)) for one in fields(options))
    return ", ".join(
        f"{name}={sorted(value) if isinstance(value, frozenset) else value!r}"
        for name, value in values
    )


def _digest(text: str) -> str:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


@functools.cache
def version() -> str:
    """A digest of the sizes and times of the compiler's files and of the texts of ops' kernels:
    another version, or an edited file, makes other plans."""
    rows = [f"{sys.version} {np.__version__}"]
    places = [(folder, PACKAGE / folder) for folder in SOURCES]
    for folder, place in (*places, ("kernels/ops", kernels_dir() / "ops")):
        for entry in sorted(os.scandir(place), key=lambda entry: entry.name):
            if entry.name.endswith((".py", ".c", ".cu")):
                info = entry.stat()
                rows.append(f"{folder}/{entry.name} {info.st_size} {info.st_mtime_ns}")
    return _digest("\n".join(rows))


class _Writer:
    """The lines of a function's text."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.places: dict[str, Location | None] = {}
        self._types: dict[int, str] = {}
        self._lines: dict[Location, int] = {}
        self._by_identity: dict[int, int] = {}
        self._bodies: dict[Function, int] = {}

    def function(self, function: Function) -> None:
        """Write ``function`` and those that it calls."""
        self.lines.append(f"graph {function.name!r} {function.numbering} {[*function.parameters]}")
        self._block(function.block, "")
        for call in function.calls:
            self.lines.append(f"call {self._call(call)}")

    def _call(self, call: Call) -> str:
        number = self._bodies.get(call.body)
        if number is None:
            number = self._bodies[call.body] = len(self._bodies)
            places, self.places = self.places, {}
            self.function(call.body)
            # A body has ids of its own: its lines are known by their text alone.
            self.lines.append(repr([*self.places.values()]))
            self.places = places
        return f"{number} {call.ids} {call.weights} {call.operands} {call.results}"

    def _block(self, block: Block, pad: str) -> None:
        args = [f"{v.id} {v.name!r} {self._type(v.type)}" for v in block.args]
        self.lines.append(f"{pad}{args}")
        for op in block.ops:
            self._op(op, pad)

    def _op(self, op: Op, pad: str) -> None:
        operands = ",".join([v.id for v in op.operands])
        types = self._types
        results = [
            f"{r.id} {r.name!r} {types.get(id(r.type)) or self._type(r.type)}" for r in op.results
        ]
        attrs = [f"{key}={self._attr(value)}" for key, value in op.attrs.items()]
        self.places[op.id] = op.loc
        own = "" if op.origins == (op.id,) else op.origins
        self.lines.append(
            f"{pad}{op.id} {op.name} {operands} {results} {attrs} {op.scope!r} {own} "
            f"{self._line(op.loc)}"
        )
        for region in op.regions:
            self._block(region, pad + " ")

    def _line(self, at: Location | None) -> int:
        if at is None:
            return -1
        found = self._by_identity.get(id(at))
        if found is None:
            found = self._by_identity[id(at)] = self._lines.setdefault(at, len(self._lines))
        return found

    def _type(self, type: Type) -> str:
        found = self._types.get(id(type))
        if found is None:  # the function keeps its types alive
            found = self._types[id(type)] = type_text(type)
        return found

    def _attr(self, value: Any) -> str:
        if isinstance(value, Constant):
            return value.digest
        if isinstance(value, (tuple, list)):
            return f"[{', '.join([self._attr(one) for one in value])}]"
        if isinstance(value, Call):
            return self._call(value)
        return attr_text(value)


__all__ = ["Fingerprint", "fingerprint", "version"]
