"""The places that ask what kind of device something is on, in the packages above ``maxlab.driver``.

What a device can do is a method of the driver's devices, streams and tensors, so that nobody above
needs to know which kind it has. The places that ask all the same are counted in ``PACKAGES``:

- ``x.is_host``, ``x.is_cpu()``, ``x.is_gpu()``;
- ``isinstance(x, Accelerator)``, and the same of the other classes of one kind (``CLASSES``);
- ``x is HOST`` and ``x is CPU()``: a comparison with the host itself, or with its stream;
- ``x.label == "gpu"``, and the same of the other words for a kind (``WORDS``);
- ``device is None``: a comparison with None of a variable or attribute that holds a device, by its
  name (``DEVICES``), where None means the host. What is asserted does not count.

Whether a step of a plan has a kernel for a GPU, ``step.gpu is None``, is a fact of the plan, and
does not count.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from scripts.structure.modules import ImportGraph

PACKAGES = ("maxlab.engine", "maxlab.analysis")
QUESTIONS = frozenset({"is_host", "is_cpu", "is_gpu"})
CLASSES = frozenset(
    {
        "Accelerator",
        "AcceleratorStream",
        "Block",
        "CPU",
        "DeviceBlock",
        "PinnedBlock",
        "PinnedDeviceBlock",
        "VirtualBlock",
        "VirtualCPU",
    }
)
HOSTS = frozenset({"HOST", "_HOST"})
"""Names that the host device, or its stream, is bound to."""
WORDS = frozenset({"api", "device_type", "label"})
DEVICES = frozenset({"device", "origin", "start", "to"})
"""What variables and attributes are called that hold an accelerator, or None for the host."""


def sites(graph: ImportGraph, packages: tuple[str, ...] = PACKAGES) -> list[str]:
    """Each place that asks, with what it asks.

    Args:
        graph: The package that ``packages`` are parts of.
        packages: Where to look.
    """
    root = graph.folder.parent
    return [
        f"{graph.paths[name].relative_to(root)}:{node.lineno} {ast.unparse(node)}"
        for name, tree in graph.trees.items()
        if any(f"{name}.".startswith(f"{package}.") for package in packages)
        for node in sorted(_asking(tree), key=lambda node: (node.lineno, node.col_offset))
    ]


def _asking(tree: ast.Module) -> Iterator[ast.expr]:
    asserted = {
        part
        for node in ast.walk(tree)
        if isinstance(node, ast.Assert)
        for part in ast.walk(node.test)
    }
    for node in ast.walk(tree):
        if node in asserted:
            continue
        match node:
            case ast.Attribute(attr=name) if name in QUESTIONS:
                yield node
            case ast.Call(func=ast.Name(id="isinstance"), args=[_, kinds]):
                if any(_last(one) in CLASSES for one in ast.walk(kinds)):
                    yield node
            case ast.Compare(left=left, ops=[operator], comparators=[right]):
                if _is_asking(left, operator, right):
                    yield node


def _is_asking(left: ast.expr, operator: ast.cmpop, right: ast.expr) -> bool:
    if isinstance(operator, (ast.Is, ast.IsNot)):
        if isinstance(right, ast.Constant):
            return right.value is None and _last(left) in DEVICES
        return any(_last(one) in HOSTS or _is_cpu(one) for one in (left, right))
    is_word = isinstance(right, ast.Constant) and isinstance(right.value, str)
    return isinstance(operator, (ast.Eq, ast.NotEq)) and is_word and _last(left) in WORDS


def _is_cpu(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and _last(node.func) == "CPU"


def _last(node: ast.AST) -> str:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
    return ""


__all__ = ["sites"]
