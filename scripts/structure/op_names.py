"""Where code outside of the op table knows an op by its name.

**(file, op) pairs** are counted thus. A pair is a file of ``maxlab`` outside of ``maxlab/opset``
and the name of a row of the op table, counted once however often the file says it:

- a string that is the full name of a row, ``"mo.add"``;
- a use of a name that some module of ``maxlab`` binds to such a string, ``BIND = "mo.bind_dim"``,
  imported by ``from … import BIND`` or reached as ``dynamic.BIND``;
- a use of a name bound to a row, ``RELU = define("relu", …)`` or ``OPSET["mo.relu"]``.

No pairs: strings with ``mo.`` that are no row (the keys of metadata in a file of a graph, such as
``mo.scope``), docstrings, and names without ``mo.``, by which callers of ``Builder.op`` say which
row they mean to add: a builder makes ops, and the pairs count places that decide by a name what an
op *is*. A collection of names makes pairs where it is written; asking it ``op.name in …`` elsewhere
makes none.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from scripts.structure.modules import ImportGraph

Pair = tuple[str, str]


def pairs(graph: ImportGraph, rows: Collection[str]) -> dict[Pair, int]:
    """Each (file, op) pair with the line of its first sight, sorted.

    Args:
        graph: The modules of maxlab.
        rows: The full names of the rows of the op table.
    """
    bound = {name: bindings(tree, rows) for name, tree in graph.trees.items()}
    opset = f"{graph.root}.opset"
    found: dict[Pair, int] = {}
    for name, tree in graph.trees.items():
        if name == opset or name.startswith(f"{opset}."):
            continue
        file = str(graph.paths[name].relative_to(graph.folder))
        for op, line in sorted(_known_in(tree, rows, bound), key=lambda found: found[1]):
            found.setdefault((file, op), line)
    return dict(sorted(found.items()))


def bindings(tree: ast.Module, rows: Collection[str]) -> dict[str, frozenset[str]]:
    """The names that the head of a module binds to names of rows: name -> the rows."""
    found: dict[str, frozenset[str]] = {}
    for node in tree.body:
        if isinstance(node, ast.Assign):
            targets, value = node.targets, node.value
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            targets, value = [node.target], node.value
        else:
            continue
        ops = frozenset(_held(value, rows, found))
        for target in targets:
            if isinstance(target, ast.Name) and ops:
                found[target.id] = ops
    return found


def _held(
    value: ast.expr, rows: Collection[str], known: Mapping[str, frozenset[str]]
) -> Iterator[str]:
    """The row that ``value`` names, or makes."""
    match value:
        case ast.Constant(value=str(text)) if text in rows:
            yield text
        case ast.Name(id=name):
            yield from known.get(name, ())
        case ast.Subscript(slice=key):
            yield from _held(key, rows, known)
        case ast.Call(func=ast.Name(id="define"), args=[ast.Constant(value=str(text)), *_]):
            if f"mo.{text}" in rows:
                yield f"mo.{text}"


def _known_in(
    tree: ast.Module, rows: Collection[str], bound: Mapping[str, Mapping[str, frozenset[str]]]
) -> Iterator[tuple[str, int]]:
    """``(op, line)`` for each sight of an op's name in the module ``tree``."""
    names: dict[str, frozenset[str]] = {}
    modules: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                here, inner = alias.asname or alias.name, f"{node.module}.{alias.name}"
                if ops := _exported(node.module, alias.name, bound):
                    names[here] = ops
                elif inner in bound:
                    modules[here] = inner
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name in bound and (alias.asname or "." not in alias.name):
                    modules[alias.asname or alias.name] = alias.name
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in rows:
            yield node.value, node.lineno
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            for op in names.get(node.id, ()):
                yield op, node.lineno
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            module = modules.get(node.value.id)
            if module is not None:
                for op in _exported(module, node.attr, bound):
                    yield op, node.lineno


def _exported(
    module: str, name: str, bound: Mapping[str, Mapping[str, frozenset[str]]]
) -> frozenset[str]:
    """The rows that ``name`` of ``module`` stands for. A package's front hands names of its modules
    on, so of a package each module below it is asked too."""
    if module not in bound:
        return frozenset()
    if name in bound[module]:
        return bound[module][name]
    below = (found for at, found in bound.items() if at.startswith(f"{module}."))
    return next((found[name] for found in below if name in found), frozenset())


def rows_of(root: Path) -> frozenset[str]:
    """The names of the rows of the op table of the checkout ``root``, which is the one imported."""
    from maxlab import opset

    assert Path(str(opset.__file__)).is_relative_to(root), f"{opset.__file__} is not below {root}"
    return frozenset(opset.OPSET)
