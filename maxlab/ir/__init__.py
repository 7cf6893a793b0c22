"""The intermediate representation: dims, types, values and ops, with printer, parser and
verifier."""

from __future__ import annotations

from maxlab.ir.constants import Constant, HostCall
from maxlab.ir.core import (
    Block,
    Call,
    Function,
    Op,
    Value,
    copied,
    symbols_of,
    walk,
)
from maxlab.ir.dims import (
    POC,
    AlgebraicDim,
    Dim,
    DimLike,
    Shape,
    StaticDim,
    SymbolicDim,
    from_poly,
    mlir_text,
    parse_dim,
)
from maxlab.ir.edit_log import Log, Rewrite, apply, at_revision, listen, touched
from maxlab.ir.poly import Poly
from maxlab.ir.rewriting import Rewriting
from maxlab.ir.source import Scopes, location_of, user_frame, user_location
from maxlab.ir.types import (
    BufferType,
    ChainType,
    ConvInputLayout,
    DeviceKind,
    DeviceRef,
    FilterLayout,
    HandleType,
    OpaqueType,
    TensorType,
    Type,
    parse_type,
)

__all__ = [
    "POC",
    "AlgebraicDim",
    "Block",
    "BufferType",
    "Call",
    "ChainType",
    "Constant",
    "ConvInputLayout",
    "DeviceKind",
    "DeviceRef",
    "Dim",
    "DimLike",
    "FilterLayout",
    "Function",
    "HostCall",
    "Op",
    "HandleType",
    "Log",
    "OpaqueType",
    "Poly",
    "Rewrite",
    "Rewriting",
    "Scopes",
    "Shape",
    "StaticDim",
    "SymbolicDim",
    "TensorType",
    "Type",
    "Value",
    "apply",
    "at_revision",
    "copied",
    "from_poly",
    "listen",
    "location_of",
    "mlir_text",
    "parse_dim",
    "parse_type",
    "symbols_of",
    "touched",
    "user_frame",
    "user_location",
    "walk",
]
