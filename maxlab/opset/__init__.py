"""The op table. Importing this package declares every op."""

from __future__ import annotations

from maxlab.opset import (
    convolution,
    data,
    dynamic,
    elementwise,
    host,
    random,
    reduce,
    scan,
    sorting,
    view,
)
from maxlab.opset.core import (
    OPSET,
    Builder,
    Call,
    Check,
    Cost,
    OpDef,
    Sample,
    checks_of,
    evaluate,
    flops_of,
    lookup,
    scalar_weight,
)

__all__ = [
    "OPSET",
    "Builder",
    "Call",
    "Check",
    "Cost",
    "OpDef",
    "Sample",
    "checks_of",
    "convolution",
    "data",
    "dynamic",
    "elementwise",
    "evaluate",
    "flops_of",
    "host",
    "lookup",
    "random",
    "reduce",
    "scalar_weight",
    "scan",
    "sorting",
    "view",
]
