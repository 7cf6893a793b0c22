"""The op table. Whatever is asked of this package declares every op first; its modules can be
imported without, by what runs plans and knows no ops."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from maxlab.opset import (
        attention,
        binary,
        buffer_slices,
        casting,
        collective,
        control,
        convolution,
        custom,
        data,
        dynamic,
        dynamic_elements,
        dynamic_sizes,
        effects,
        elementwise,
        host,
        inplace,
        packed_products,
        pooling,
        quantized,
        ragged,
        random,
        reduce,
        resizing,
        scan,
        scattering,
        sorting,
        spectral,
        view,
    )
    from maxlab.opset.builder import Builder, Ops
    from maxlab.opset.core import (
        OPSET,
        Call,
        Check,
        Cost,
        OpDef,
        Sample,
        checks_of,
        evaluate,
        fault_of,
        flops_of,
        lookup,
        scalar_text,
        scalar_weight,
    )
    from maxlab.opset.facts import Family, Role
    from maxlab.opset.roles import (
        is_call,
        is_cast,
        is_chain,
        is_constant,
        is_dim,
        is_operation,
        is_output,
        is_transfer,
        is_weight,
        named,
        operations,
        role_of,
    )

__all__ = [
    "OPSET",
    "Builder",
    "Call",
    "Check",
    "Cost",
    "Family",
    "OpDef",
    "Role",
    "Ops",
    "Sample",
    "attention",
    "binary",
    "buffer_slices",
    "casting",
    "checks_of",
    "collective",
    "control",
    "convolution",
    "custom",
    "data",
    "dynamic",
    "dynamic_elements",
    "dynamic_sizes",
    "effects",
    "elementwise",
    "evaluate",
    "fault_of",
    "flops_of",
    "host",
    "inplace",
    "is_call",
    "is_cast",
    "is_chain",
    "is_constant",
    "is_dim",
    "is_operation",
    "is_output",
    "is_transfer",
    "is_weight",
    "lookup",
    "named",
    "packed_products",
    "pooling",
    "quantized",
    "ragged",
    "random",
    "reduce",
    "resizing",
    "operations",
    "role_of",
    "scalar_text",
    "scalar_weight",
    "scan",
    "scattering",
    "sorting",
    "spectral",
    "view",
]

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """The object of this name, with every op declared."""
        if name not in __all__:
            raise AttributeError(f"module 'maxlab.opset' has no attribute {name!r}")
        from maxlab.opset import table

        found = globals()[name] = getattr(table, name)
        return found
