"""Graphs in files: MLIR's generic form, as text."""

from __future__ import annotations

from pathlib import Path

from maxlab.errors import InvalidPathError, ParseError
from maxlab.ir import Function


def read_function(path: Path) -> Function:
    """The function in the file at ``path``, verified.

    Raises:
        InvalidPathError: ML793, there is no file that can be read.
        ParseError: The file has no graph.
    """
    from maxlab.ir.parser import parse_function
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
    function = parse_function(text, str(path))
    verify(function)
    return function
