"""Building tensor graphs: types, values, ops and weights, with the names of the MAX Python API."""

from __future__ import annotations

import maxlab.opset.table  # noqa: F401 - declares every op
from maxlab.graph import dim, ops, shape
from maxlab.graph import type as type  # not in __all__: a star import keeps the builtin
from maxlab.graph.document import Document
from maxlab.graph.editing import Editor
from maxlab.graph.graph import Graph
from maxlab.graph.kernel_library import KernelLibrary
from maxlab.graph.lesson import Case, Goal, Lesson
from maxlab.graph.module import Module
from maxlab.graph.notes import Comment, Draft, Place
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
