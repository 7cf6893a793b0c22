"""The imports of the code of a graph: of the names that it uses, in ruff's order."""

from __future__ import annotations

import ast
from typing import Final

_WHERE: Final = {
    "BufferType": "maxlab.graph",
    "Constant": "maxlab.ir",
    "ConvInputLayout": "maxlab.graph",
    "DType": "maxlab.dtype",
    "DeviceRef": "maxlab.graph",
    "Dim": "maxlab.graph",
    "FilterLayout": "maxlab.graph",
    "Graph": "maxlab.graph",
    "OpaqueType": "maxlab.graph",
    "QuantizationEncoding": "maxlab.graph.quantization",
    "SafetensorWeights": "maxlab.graph.weights",
    "TensorType": "maxlab.graph",
    "TensorValue": "maxlab.graph",
    "Weight": "maxlab.graph",
    "ops": "maxlab.graph",
}
NAMES: Final = frozenset({*_WHERE, "np", "Path"})
"""The names that are imported where they are used."""


def imports_of(code: str) -> list[str]:
    """The lines that import what ``code`` uses.

    Example:
        >>> print(*imports_of("np.zeros(3)\\nops.relu(x).cast(DType.int8)"), sep="\\n")
        import numpy as np
        <BLANKLINE>
        from maxlab.dtype import DType
        from maxlab.graph import ops
    """
    used = {node.id for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Name)}
    by_module: dict[str, list[str]] = {}
    for name in sorted(used & set(_WHERE)):
        by_module.setdefault(_WHERE[name], []).append(name)
    blocks: list[list[str]] = []
    if "Path" in used:
        blocks.append(["from pathlib import Path"])
    if "np" in used:
        blocks.append(["import numpy as np"])
    own = []
    for module in sorted(by_module):
        names = sorted(by_module[module], key=_order)
        line = f"from {module} import {', '.join(names)}"
        if len(line) > 100:
            own += [f"from {module} import (", *(f"    {name}," for name in names), ")"]
        else:
            own.append(line)
    if own:
        blocks.append(own)
    return [line for n, block in enumerate(blocks) for line in ([""] if n else []) + block]


def _order(name: str) -> tuple[int, str]:
    """Constants, then classes, then the rest, as isort orders them."""
    kind = 0 if name.isupper() and len(name) > 1 else 1 if name[:1].isupper() else 2
    return kind, name


__all__ = ["NAMES", "imports_of"]
