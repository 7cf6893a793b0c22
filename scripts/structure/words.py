"""The words of the package: how docstrings begin, how many there are, and how long functions are.

**First words**: a docstring that begins with ``Nothing``, ``What``, ``Who`` or ``None;`` tells what
a thing is not, or asks a question. Its first line says what is returned, or begins with a verb.

**Long functions**: those of more than ``MOST_LINES`` lines from ``def`` to the end, without the
docstring. A function inside of one counts with it.

**Public docstrings**: of modules, classes, functions and attributes none of whose names begins
with an underscore, the file's and the folders' included.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from scripts.structure.modules import ImportGraph

FIRST = re.compile(r"\s*(Nothing\b|What(ever)?\b|Who(ever)?\b|None;)")
MOST_LINES = 80
Named = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def first_words(graph: ImportGraph) -> list[str]:
    """Each docstring with a first word that says too little: where it stands and its first line."""
    return [
        f"{place}:{line} {text.strip().splitlines()[0]}"
        for place, line, _, text in _docstrings(graph)
        if FIRST.match(text)
    ]


def public_docstrings(graph: ImportGraph) -> list[str]:
    """Where each docstring of a public thing stands."""
    return [
        f"{place}:{line} {name}"
        for place, line, name, _ in _docstrings(graph)
        if not any(part.startswith("_") and part != "__init__" for part in name.split("."))
    ]


def long_functions(graph: ImportGraph) -> list[str]:
    """Each function that is too long, with its lines."""
    found = []
    for module, tree in graph.trees.items():
        place = graph.paths[module].relative_to(graph.folder.parent)
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = _height(node)
                if _text(node.body[0]) is not None:
                    lines -= _height(node.body[0])
                if lines > MOST_LINES:
                    found.append(f"{place}:{node.lineno} {node.name}: {lines} lines")
    return found


def _docstrings(graph: ImportGraph) -> Iterator[tuple[str, int, str, str]]:
    """File, line, name of the thing and text of each docstring."""
    for module, tree in graph.trees.items():
        place = str(graph.paths[module].relative_to(graph.folder.parent))
        for line, name, text in _inside(tree, module):
            yield place, line, name, text


def _inside(node: Named, name: str) -> Iterator[tuple[int, str, str]]:
    above: ast.stmt | None = None
    for at, child in enumerate(node.body):
        text = _text(child)
        if text is not None:
            owner = name if at == 0 else f"{name}.{_assigned(above)}"
            yield child.lineno, owner, text
        if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            # What stands inside of a function is private to it.
            deeper = name if isinstance(node, ast.Module | ast.ClassDef) else f"{name}._"
            yield from _inside(child, f"{deeper}.{child.name}")
        above = child


def _height(node: ast.stmt) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


def _text(node: ast.stmt) -> str | None:
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        value = node.value.value
        return value if isinstance(value, str) else None
    return None


def _assigned(node: ast.stmt | None) -> str:
    """The name that an assignment gives a value to; ``_`` when it is none."""
    if isinstance(node, ast.AnnAssign | ast.AugAssign):
        target: ast.expr = node.target
    elif isinstance(node, ast.Assign):
        target = node.targets[0]
    else:
        return "_"
    if isinstance(target, ast.Attribute):
        return target.attr
    return target.id if isinstance(target, ast.Name) else "_"


__all__ = ["first_words", "long_functions", "public_docstrings"]
