"""Graphs in files: MLIR's generic form, as text."""

from __future__ import annotations

from pathlib import Path

from maxlab.errors import InvalidPathError, ParseError
from maxlab.graph.module import unknown_graph
from maxlab.ir import Function

UNNAMED = "graph"
"""The name of a graph that was given none."""


def read_function(path: Path, name: str) -> Function:
    """The function in the file at ``path``, verified: the one there is, or of several the one that
    is called ``name``. One alone gets the name, unless it is `UNNAMED`.

    Raises:
        InvalidPathError: ML793, there is no file that can be read.
        ParseError: The file has no graph.
        ArgumentError: ML366, it has several graphs, none of this name.
    """
    found = read_functions(path)
    if len(found) == 1:
        (function,) = found
        if name != UNNAMED:
            function.name = name
        return function
    for function in found:
        if function.name == name:
            return function
    raise unknown_graph(str(path), name, [function.name for function in found])


def read_functions(path: Path) -> list[Function]:
    """The functions in the file at ``path``, verified.

    Raises:
        InvalidPathError: ML793, there is no file that can be read.
        ParseError: The file has no graph.
    """
    from maxlab.ir.parser import parse_module
    from maxlab.opset.verify import verify

    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        if isinstance(error, UnicodeDecodeError):
            raise ParseError(
                "ML350",
                f"{path} is not a graph: it is not text",
                fix="read what Graph.save wrote",
            ) from error
        raise InvalidPathError(
            "ML793",
            f"the graph {str(path)!r} cannot be read: {error}",
            fix="pass the path of a file that graph.save wrote",
        ) from error
    functions = parse_module(text, str(path))
    for function in functions:
        verify(function)
    return functions


__all__ = ["UNNAMED", "read_function", "read_functions"]
