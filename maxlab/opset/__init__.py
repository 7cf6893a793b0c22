"""The op table. A row is declared when it is first asked for, see ``core.Table``; what runs plans
imports modules of this package and knows no ops."""

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
        experts,
        float8,
        host,
        inplace,
        latent,
        latent_attention,
        lora,
        packed_products,
        penalties,
        pooling,
        quantized,
        ragged,
        random,
        reduce,
        resizing,
        sampling,
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
    "experts",
    "evaluate",
    "fault_of",
    "flops_of",
    "host",
    "inplace",
    "lora",
    "is_call",
    "is_cast",
    "is_chain",
    "is_constant",
    "is_dim",
    "is_operation",
    "is_output",
    "is_transfer",
    "is_weight",
    "latent",
    "latent_attention",
    "lookup",
    "named",
    "float8",
    "packed_products",
    "penalties",
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
    "sampling",
    "scan",
    "scattering",
    "sorting",
    "spectral",
    "view",
]

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """The object of this name; what declares ops is imported when it is asked for."""
        if name not in __all__:
            raise AttributeError(f"module 'maxlab.opset' has no attribute {name!r}")
        from importlib import import_module

        from maxlab.opset.places import PLACES

        if name in PLACES:
            return import_module(f"{__name__}.{name}")
        from maxlab.opset import builder, core, facts, roles

        place = next(each for each in (core, builder, facts, roles) if name in vars(each))
        found = globals()[name] = getattr(place, name)
        return found
