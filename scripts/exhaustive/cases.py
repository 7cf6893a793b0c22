"""What is run: the unary maps of the op table on float32, each in a graph of its own."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from maxlab import engine
from maxlab.dtype import DType
from maxlab.errors import MaxlabError
from maxlab.graph import Graph, TensorType
from maxlab.graph.build import add
from maxlab.ir import TensorType as IrType
from maxlab.opset import OPSET, OpDef

LOOSER = {"gelu": 3.1, "sigmoid": 1.3, "silu": 2.3}
"""Cases whose results may be further from the exact one than ``ULPS``."""
ULPS = 1.0


@dataclass(frozen=True)
class UnaryCase:
    """One row of the op table with one choice of its attributes.

    Attributes:
        name: what results are filed under: the scalar operator, and for casts the target.
        row: the row.
        attrs: the attributes of the op.
        target: the dtype of the result.
    """

    name: str
    row: OpDef
    target: DType
    attrs: dict[str, Any] = field(default_factory=dict)

    @property
    def exact(self) -> bool:
        """Whether every result must be the one that the reference of the row computes."""
        return self.row.ulps == 0

    @property
    def limit(self) -> float:
        """The largest error allowed, in units of the spacing at the exact result."""
        return 0.0 if self.exact else LOOSER.get(self.name, ULPS)

    def load(self) -> engine.Model:
        """The compiled model: one float32 input of any length, one output."""
        with Graph(f"every_{self.name}", input_types=[TensorType(DType.float32, ["n"])]) as graph:
            short = self.row.name.removeprefix("mo.")
            graph.output(add(short, [graph.inputs[0].tensor], **self.attrs))
        return engine.InferenceSession(num_threads=1).load(graph)


def unary_cases() -> Iterator[UnaryCase]:
    """Every map of the op table that takes one float32 tensor, with all attributes of its
    samples."""
    operand = IrType(DType.float32, ["n"])
    for row in OPSET.values():
        if row.kind != "map" or _operands(row) != 1:
            continue
        tried: list[dict[str, Any]] = []
        for attrs in [dict(s.attrs) for s in row.samples()] if row.samples else [{}]:
            if attrs in tried:
                continue
            tried.append(attrs)
            try:
                (result,) = row.infer([operand], attrs)
            except MaxlabError:  # it takes no floats
                continue
            assert isinstance(result, IrType)
            yield UnaryCase(_name(row, attrs), row, result.dtype, attrs)


def _operands(row: OpDef) -> int:
    """How many arrays the reference takes after the call."""
    names = inspect.signature(row.reference).parameters.values()
    return sum(p.default is p.empty for p in names) - 1


def _name(row: OpDef, attrs: dict[str, Any]) -> str:
    if row.name == "mo.cast":
        return f"cast_{attrs['dtype'].name}"
    return row.scalar_name(attrs)
