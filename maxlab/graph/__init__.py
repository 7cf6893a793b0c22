"""Building tensor graphs: types, values, ops and weights, with the names of the MAX Python API.

What edits graphs and keeps them in documents is imported when it is first asked for: building and
running one needs none of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from maxlab.collector import importing

with importing():
    from maxlab.graph import dim, ops, shape
    from maxlab.graph import type as type  # not in __all__: a star import keeps the builtin
    from maxlab.graph.graph import Graph
    from maxlab.graph.kernel_library import KernelLibrary
    from maxlab.graph.module import Module
    from maxlab.graph.sharding import ShardingStrategy
    from maxlab.graph.value import BufferValue, TensorValue, TensorValueLike, Value
    from maxlab.graph.weight import Weight
    from maxlab.ir import (
        AlgebraicDim,
        BufferType,
        ConvInputLayout,
        DeviceKind,
        DeviceRef,
        Dim,
        DimLike,
        FilterLayout,
        OpaqueType,
        Shape,
        StaticDim,
        SymbolicDim,
        TensorType,
        Type,
    )

if TYPE_CHECKING:
    from maxlab.graph import weights as weights
    from maxlab.graph.document import Document
    from maxlab.graph.editing import Editor
    from maxlab.graph.lesson import Case, Goal, Lesson
    from maxlab.graph.notes import Comment, Draft, Place

__all__ = [
    "Graph",
    "Editor",
    "Document",
    "Place",
    "Comment",
    "Draft",
    "Lesson",
    "Goal",
    "Case",
    "KernelLibrary",
    "Module",
    "Value",
    "TensorValue",
    "TensorValueLike",
    "BufferValue",
    "Weight",
    "ShardingStrategy",
    "Type",
    "TensorType",
    "BufferType",
    "OpaqueType",
    "DeviceRef",
    "DeviceKind",
    "Dim",
    "DimLike",
    "StaticDim",
    "SymbolicDim",
    "AlgebraicDim",
    "Shape",
    "FilterLayout",
    "ConvInputLayout",
    "dim",
    "ops",
    "shape",
]

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """The object of this name, imported now."""
        if name == "Document":
            import maxlab.graph.document as place
        elif name == "Editor":
            import maxlab.graph.editing as place
        elif name in ("Case", "Goal", "Lesson"):
            import maxlab.graph.lesson as place
        elif name in ("Comment", "Draft", "Place"):
            import maxlab.graph.notes as place
        elif name == "weights":
            import maxlab.graph.weights as found

            return found
        else:
            raise AttributeError(f"module 'maxlab.graph' has no attribute {name!r}")
        found = globals()[name] = getattr(place, name)
        return found

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
