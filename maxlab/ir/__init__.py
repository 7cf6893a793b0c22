"""The intermediate representation: dims, types, values and ops, with printer, parser and
verifier.

Its names are imported when they are first asked for: what runs plans needs types and sizes, and
neither values nor edits.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
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

_PLACES = {
    **dict.fromkeys(
        (
            "Constant",
            "HostCall",
        ),
        "maxlab.ir.constants",
    ),
    **dict.fromkeys(
        (
            "Block",
            "Call",
            "Function",
            "Op",
            "Value",
            "copied",
            "symbols_of",
            "walk",
        ),
        "maxlab.ir.core",
    ),
    **dict.fromkeys(
        (
            "POC",
            "AlgebraicDim",
            "Dim",
            "DimLike",
            "Shape",
            "StaticDim",
            "SymbolicDim",
            "from_poly",
            "mlir_text",
            "parse_dim",
        ),
        "maxlab.ir.dims",
    ),
    **dict.fromkeys(
        (
            "Log",
            "Rewrite",
            "apply",
            "at_revision",
            "listen",
            "touched",
        ),
        "maxlab.ir.edit_log",
    ),
    **dict.fromkeys(("Poly",), "maxlab.ir.poly"),
    **dict.fromkeys(("Rewriting",), "maxlab.ir.rewriting"),
    **dict.fromkeys(
        (
            "Scopes",
            "location_of",
            "user_frame",
            "user_location",
        ),
        "maxlab.ir.source",
    ),
    **dict.fromkeys(
        (
            "BufferType",
            "ChainType",
            "ConvInputLayout",
            "DeviceKind",
            "DeviceRef",
            "FilterLayout",
            "HandleType",
            "OpaqueType",
            "TensorType",
            "Type",
            "parse_type",
        ),
        "maxlab.ir.types",
    ),
}
"""The module of each name."""

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """The object of this name, imported now."""
        place = _PLACES.get(name)
        if place is None:
            raise AttributeError(f"module 'maxlab.ir' has no attribute {name!r}")
        found = globals()[name] = getattr(import_module(place), name)
        return found
