"""Two counts about the engine: the classes that run a compiled graph, and who reaches into them.

**Model classes** are ``Model`` of ``maxlab.engine`` and all classes that derive from it, wherever
they are.

**Private uses** of the engine are names with one underscore in front, of objects of the engine, in
any Python file outside of it, tests and benchmarks included:

- ``from maxlab.engine.module import _name``, or the import of a module ``_name`` of it;
- ``model._name``, where the engine binds ``_name`` and the name before the dot is one that objects
  of the engine usually have (``OBJECTS``), as in ``self.model._name`` and ``context.model._name``;
- ``x._name``, where of all of maxlab the engine alone binds ``_name``.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from scripts.structure import private_names
from scripts.structure.modules import ImportGraph, source_files

ENGINE = "maxlab.engine"
MODEL = "Model"
OBJECTS = frozenset({"model", "session", "binding", "program", "frame", "timer", "walk", "profile"})
"""What variables and attributes that hold objects of the engine are called."""


def model_classes(graph: ImportGraph, engine: str = ENGINE) -> list[str]:
    """The classes that run a compiled graph, each with its place."""
    classes = [
        (node, name)
        for name, tree in graph.trees.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
    ]
    known = {MODEL} if any(_is_model(node, name, engine) for node, name in classes) else set()
    before = 0
    while len(known) > before:
        before = len(known)
        known |= {node.name for node, _ in classes if known & set(_bases(node))}
    return [
        f"{name}:{node.lineno} {node.name}"
        for node, name in classes
        if _is_model(node, name, engine) or (node.name in known and known & set(_bases(node)))
    ]


def _is_model(node: ast.ClassDef, module: str, engine: str) -> bool:
    return node.name == MODEL and _within(module, engine)


def _bases(node: ast.ClassDef) -> Iterator[str]:
    for base in node.bases:
        if isinstance(base, (ast.Name, ast.Attribute)):
            yield _last(base)


def private_uses(graph: ImportGraph, others: list[Path], engine: str = ENGINE) -> list[str]:
    """The uses of private names of the engine in the package and in the files ``others``.

    Args:
        graph: The package that the engine is a part of.
        others: Folders beside the package.
        engine: The name of the engine's package.
    """
    bound: dict[str, set[bool]] = {}
    for name, tree in graph.trees.items():
        for private in private_names.bound_in(tree):
            bound.setdefault(private, set()).add(_within(name, engine))
    known = {private for private, where in bound.items() if True in where}
    alone = {private for private, where in bound.items() if where == {True}}
    files = [
        (graph.paths[name], tree) for name, tree in graph.trees.items() if not _within(name, engine)
    ]
    paths = [path for folder in others for path in source_files(folder)]
    files += [(path, ast.parse(path.read_text("utf-8"), str(path))) for path in paths]
    root = graph.folder.parent
    return [
        f"{path.relative_to(root)}:{line} {private}"
        for path, tree in files
        for private, line in _used(tree, known, alone, engine)
    ]


def _within(module: str, package: str) -> bool:
    return f"{module}.".startswith(f"{package}.")


def _used(
    tree: ast.Module, known: set[str], alone: set[str], engine: str
) -> Iterator[tuple[str, int]]:
    own = set(private_names.bound_in(tree))
    for node in ast.walk(tree):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            module = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
            names = [f"{module}{alias.name}" for alias in node.names]
            parts = (part for name in names if _within(name, engine) for part in name.split("."))
            yield from ((part, node.lineno) for part in parts if private_names.is_private(part))
        elif isinstance(node, ast.Attribute) and node.attr in known:
            receiver = node.value
            if isinstance(receiver, ast.Call) and receiver.args:  # type(model)
                receiver = receiver.args[0]
            is_object = (
                isinstance(receiver, (ast.Name, ast.Attribute)) and _last(receiver) in OBJECTS
            )
            if is_object or (node.attr in alone and node.attr not in own):
                yield node.attr, node.lineno


def _last(node: ast.Name | ast.Attribute) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr


__all__ = ["model_classes", "private_uses"]
