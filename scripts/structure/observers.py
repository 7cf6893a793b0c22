"""The modules that watch runs of models, and are longer than ``MOST_LINES`` lines.

What looks into a run stands beside it, and is small, because what runs is one thing that all of
them share. Such modules are:

- each module of the engine with a class that is an ``Observer``;
- those that ``limits.json`` lists as ``watchers``, by what they do: not all that looks into a run
  is told of its steps. A module that is listed and does not exist counts too, so that nothing
  leaves the count by another name.

All lines count, blank ones and docstrings too.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping

from scripts.structure.modules import ImportGraph

ENGINE = "maxlab.engine"
OBSERVER = "Observer"
MOST_LINES = 80


def sites(graph: ImportGraph, watchers: Mapping[str, str], engine: str = ENGINE) -> list[str]:
    """Each module that is too long, with its lines; and each that is listed and does not exist.

    Args:
        graph: The package that the engine is a part of.
        watchers: What a module does: the module, below the engine.
        engine: The name of the engine's package.
    """
    listed = {f"{engine}.{module}": what for what, module in watchers.items()}
    found = [f"{name} ({what}): no such module" for name, what in listed.items()
             if name not in graph.paths]  # fmt: skip
    for name, path in graph.paths.items():
        inside = f"{name}.".startswith(f"{engine}.")
        if name in listed or (inside and _is_observer(graph.trees[name])):
            lines = len(path.read_text("utf-8").splitlines())
            if lines > MOST_LINES:
                found.append(f"{path.relative_to(graph.folder.parent)}: {lines} lines")
    return found


def _is_observer(tree: ast.Module) -> bool:
    return any(
        isinstance(base, (ast.Name, ast.Attribute)) and _last(base) == OBSERVER
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
        for base in node.bases
    )


def _last(node: ast.Name | ast.Attribute) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr


__all__ = ["MOST_LINES", "sites"]
