"""The import graph of a Python package, and its cycles.

**Module cycles** are counted thus. A node is a module: a file, a package's ``__init__`` being the
package. There is an arc from a module to each module of the same package tree that it imports:
at its head, inside of a function, for type checkers (``if TYPE_CHECKING``), and by a string in
``import_module("…")`` or ``__import__("…")``. ``from a.b import c`` is an arc to ``a.b.c`` when
that is a module, else to ``a.b``. That Python runs the ``__init__`` of the packages above an
imported module is no arc: it would make a circle of every package with a front.

A cycle is a strongly connected component of more than one module, so the count is of groups of
modules none of which can be read, tested or moved without the others. Exempt by name is the root
package: what it imports when somebody asks for it (its lazy table and its hooks) makes no arc.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

NOT_SOURCE = frozenset({"labextension", "static", "_kernels"})
"""Folders below a package that hold what was built or copied."""


@dataclass(frozen=True, slots=True)
class Arc:
    """One import.

    Attributes:
        source: The importing module, as ``maxlab.graph.build``.
        target: The imported module.
        line: Where the import stands.
        kind: ``"top"``, ``"lazy"`` (in a function), ``"typing"`` or ``"string"``.
    """

    source: str
    target: str
    line: int
    kind: str

    def __str__(self) -> str:
        return f"{self.source}:{self.line} -> {self.target} ({self.kind})"


class ImportGraph:
    """The modules of the package at ``folder`` and what each of them imports of the others.

    Args:
        folder: The package's folder; its name is the root of all modules' names.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.root = folder.name
        self.paths = {self._name(path): path for path in source_files(folder)}

    def _name(self, path: Path) -> str:
        parts = path.relative_to(self.folder.parent).with_suffix("").parts
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    @cached_property
    def trees(self) -> dict[str, ast.Module]:
        """The syntax tree of each module."""
        return {
            name: ast.parse(path.read_text("utf-8"), str(path)) for name, path in self.paths.items()
        }

    @cached_property
    def arcs(self) -> list[Arc]:
        """Every arc, in the order of the files; one for each pair of modules and kind."""
        found: dict[tuple[str, str, str], Arc] = {}
        for name, tree in self.trees.items():
            for target, line, kind in self._imports(tree):
                exempt = name == self.root and kind != "top"
                if target != name and not exempt:
                    found.setdefault((name, target, kind), Arc(name, target, line, kind))
        return list(found.values())

    @cached_property
    def cycles(self) -> list[list[str]]:
        """The modules of each cycle, sorted; the largest cycle first."""
        onward: dict[str, list[str]] = {name: [] for name in self.paths}
        for arc in self.arcs:
            onward[arc.source].append(arc.target)
        groups = [sorted(group) for group in components(onward) if len(group) > 1]
        return sorted(groups, key=lambda group: (-len(group), group))

    def inside(self, group: list[str]) -> list[Arc]:
        """The arcs between the modules of ``group``."""
        return [arc for arc in self.arcs if arc.source in group and arc.target in group]

    def _imports(self, tree: ast.Module) -> Iterator[tuple[str, int, str]]:
        for node, kind in _with_kinds(tree, "top"):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    yield from self._known(alias.name, node.lineno, kind)
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                for alias in node.names:
                    inner = f"{node.module}.{alias.name}"
                    known = inner if inner in self.paths else node.module
                    yield from self._known(known, node.lineno, kind)
            elif isinstance(node, ast.Call) and (name := imported_by_string(node)) is not None:
                yield from self._known(name, node.lineno, "string")

    def _known(self, name: str, line: int, kind: str) -> Iterator[tuple[str, int, str]]:
        if name in self.paths:
            yield name, line, kind


def source_files(folder: Path) -> list[Path]:
    """The Python files below ``folder`` that were written, sorted."""
    return sorted(
        path for path in folder.rglob("*.py") if path.relative_to(folder).parts[0] not in NOT_SOURCE
    )


def imported_by_string(node: ast.Call) -> str | None:
    """The module that ``node`` imports by a literal name; None when it is no such call."""
    called = node.func.attr if isinstance(node.func, ast.Attribute) else None
    called = node.func.id if isinstance(node.func, ast.Name) else called
    if called not in {"import_module", "__import__"} or not node.args:
        return None
    name = node.args[0]
    return name.value if isinstance(name, ast.Constant) and isinstance(name.value, str) else None


def _with_kinds(node: ast.AST, kind: str) -> Iterator[tuple[ast.AST, str]]:
    """Every node below ``node`` with the kind that an import there has."""
    for child in ast.iter_child_nodes(node):
        inner = kind
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            inner = "lazy"
        elif isinstance(child, ast.If) and kind == "top" and _is_typing(child.test):
            for stmt in child.body:
                yield stmt, "typing"
                yield from _with_kinds(stmt, "typing")
            for stmt in child.orelse:
                yield stmt, kind
                yield from _with_kinds(stmt, kind)
            continue
        yield child, inner
        yield from _with_kinds(child, inner)


def _is_typing(test: ast.expr) -> bool:
    name = test.attr if isinstance(test, ast.Attribute) else None
    name = test.id if isinstance(test, ast.Name) else name
    return name == "TYPE_CHECKING"


def components(onward: dict[str, list[str]]) -> list[list[str]]:
    """The strongly connected components of a graph (Tarjan, without recursion)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    on_stack: set[str] = set()
    found: list[list[str]] = []
    for start, first in onward.items():
        if start in index:
            continue
        work = [(start, iter(first))]
        index[start] = low[start] = len(index)
        stack.append(start)
        on_stack.add(start)
        while work:
            name, rest = work[-1]
            for target in rest:
                if target not in index:
                    index[target] = low[target] = len(index)
                    stack.append(target)
                    on_stack.add(target)
                    work.append((target, iter(onward[target])))
                    break
                if target in on_stack:
                    low[name] = min(low[name], index[target])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[name])
                if low[name] == index[name]:
                    cut = stack.index(name)
                    found.append(stack[cut:])
                    on_stack.difference_update(stack[cut:])
                    del stack[cut:]
    return found
