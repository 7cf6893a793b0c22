"""The intermediate representation: dims, types, values and ops, with printer, parser and
verifier.

Its names are imported when they are first asked for: what runs plans needs types and sizes, and
neither values nor edits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from maxlab.ir.constants import Constant, HostCall
    from maxlab.ir.core import Block, Op, Value, copied, walk
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
    from maxlab.ir.function import Call, Function, symbols_of
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

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """The object of this name, imported now."""
        if name in ("Constant", "HostCall"):
            from maxlab.ir import constants as place
        elif name in ("Block", "Op", "Value", "copied", "walk"):
            from maxlab.ir import core as place
        elif name in ("Call", "Function", "symbols_of"):
            from maxlab.ir import function as place
        elif name in (
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
        ):
            from maxlab.ir import dims as place
        elif name in ("Log", "Rewrite", "apply", "at_revision", "listen", "touched"):
            from maxlab.ir import edit_log as place
        elif name == "Poly":
            from maxlab.ir import poly as place
        elif name == "Rewriting":
            from maxlab.ir import rewriting as place
        elif name in ("Scopes", "location_of", "user_frame", "user_location"):
            from maxlab.ir import source as place
        elif name in (
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
        ):
            from maxlab.ir import types as place
        else:
            raise AttributeError(f"module 'maxlab.ir' has no attribute {name!r}")
        found = globals()[name] = getattr(place, name)
        return found
