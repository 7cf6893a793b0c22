"""Documents of long chains of ops, made without building a graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from maxlab.lab.protocol import GraphDocument

Step = tuple[str, str]
"""An op and the type of its result."""

F32, BF16, LONGER = "f32[n, 8]", "bf16[n, 8]", "f32[n, 16]"


def chain(steps: Sequence[Step]) -> GraphDocument:
    """The document of a graph whose ops each read the one before."""
    nodes: list[dict[str, object]] = [
        {
            "id": f"n{n}",
            "op": op,
            "family": "elementwise",
            "name": op,
            "scope": "layer",
            "operands": [f"v{n}"],
            "results": [f"v{n + 1}"],
            "attrs": {},
            "source": None,
            "error": None,
        }
        for n, (op, _) in enumerate(steps)
    ]
    values = [
        {
            "id": f"v{n}",
            "type": type,
            "dtype": "float32",
            "shape": ["n", 8],
            "kind": "tensor" if n else "input",
        }
        for n, type in enumerate((F32, *(type for _, type in steps)))
    ]
    made = {
        "format": "maxlab.graph",
        "version": 1,
        "name": "chain",
        "revision": 1,
        "nodes": nodes,
        "values": values,
        "inputs": ["v0"],
        "outputs": [f"v{len(steps)}"],
        "scopes": [],
        "kernels": [],
        "passes": [],
        "profile": None,
        "error": None,
    }
    return cast("GraphDocument", made)


def mixed(count: int) -> list[Step]:
    """Steps of three kinds in turn, as layers repeat them."""
    return [(("mul", "tanh", "exp")[n % 3], F32) for n in range(count)]
