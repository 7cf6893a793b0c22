"""Private names of one package that another one uses.

A *package* is a folder or module directly below the root, such as ``maxlab.graph``; a name is
*private* that begins with one underscore. A use is

- ``from package.module import _name``, or an import of, or from, a module ``_name``;
- ``x._name``, an attribute, where the own package of the code binds no attribute, method or
  variable of that name and another package does. The type of ``x`` is not looked at: a name that
  both packages have is taken for one's own. Attributes of what was imported from elsewhere, as
  ``torch._ops``, do not count.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from scripts.structure.modules import ImportGraph


@dataclass(frozen=True, slots=True)
class Use:
    """One use of a private name.

    Attributes:
        package: Where it is used, ``maxlab.engine``.
        name: ``_alloc``.
        owners: The packages that it belongs to.
        module: The module that uses it.
        line: Where.
    """

    package: str
    name: str
    owners: tuple[str, ...]
    module: str
    line: int

    def __str__(self) -> str:
        return f"{self.module}:{self.line} uses {self.name} of {' or '.join(self.owners)}"


def uses(graph: ImportGraph) -> list[Use]:
    """Every use, in the order of the files."""
    bound: dict[str, set[str]] = {}
    for name, tree in graph.trees.items():
        for private in bound_in(tree):
            bound.setdefault(private, set()).add(package_of(name))
    found = []
    for name, tree in graph.trees.items():
        here = package_of(name)
        for private, owner, line in _imported(tree, graph):
            if owner != here:
                found.append(Use(here, private, (owner,), name, line))
        foreign = _foreign(tree, graph.root)
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and is_private(node.attr):
                owners = bound.get(node.attr, set())
                if owners and here not in owners and _root(node) not in foreign:
                    found.append(Use(here, node.attr, tuple(sorted(owners)), name, node.lineno))
    return found


def package_of(module: str) -> str:
    """The package of ``module``, ``maxlab.graph`` of ``maxlab.graph.ops.shaping``."""
    return ".".join(module.split(".")[:2])


def is_private(name: str) -> bool:
    """Whether ``name`` begins with one underscore; ``__name__`` and ``_`` do not count."""
    return name.startswith("_") and not name.startswith("__") and len(name) > 1


def _imported(tree: ast.Module, graph: ImportGraph) -> Iterator[tuple[str, str, int]]:
    """``(private name, package, line)`` of the imports of a module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module in graph.paths:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names if alias.name in graph.paths]
        else:
            continue
        for name in names:
            private = next((part for part in name.split(".")[2:] if is_private(part)), None)
            if private is not None:
                yield private, package_of(name), node.lineno


def bound_in(tree: ast.Module) -> Iterator[str]:
    """The private names that a module binds: functions, classes, variables, attributes, slots."""
    for node in ast.walk(tree):
        names: list[str] = []
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                names = [name]
            case ast.ClassDef(name=name):
                names = [name]
            case ast.Name(id=name, ctx=ast.Store()):
                names = [name]
            case ast.Attribute(attr=name, ctx=ast.Store(), value=ast.Name(id="self" | "cls")):
                names = [name]
            case ast.Assign(targets=[ast.Name(id="__slots__")], value=value):
                strings = (one for one in ast.walk(value) if isinstance(one, ast.Constant))
                names = [one.value for one in strings if isinstance(one.value, str)]
        yield from filter(is_private, names)


def _foreign(tree: ast.Module, root: str) -> set[str]:
    """The names that a module imports from outside of ``root``."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                top = alias.name.split(".")[0]
                if top != root:
                    found.add(alias.asname or top)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] != root:
            found.update(alias.asname or alias.name for alias in node.names)
    return found


def _root(node: ast.Attribute) -> str:
    """The name that a chain of attributes begins with; empty when it is no name."""
    at: ast.expr = node
    while isinstance(at, ast.Attribute):
        at = at.value
    return at.id if isinstance(at, ast.Name) else ""
