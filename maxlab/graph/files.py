"""Graphs in files: documents, and MLIR's generic form. Which it is, the text says, not the name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from maxlab import files, trace
from maxlab.errors import ArgumentError, ArgumentTypeError, FileError, InvalidPathError, ParseError
from maxlab.graph.signing import recall
from maxlab.ir import Function
from maxlab.opset.verify import verify

if TYPE_CHECKING:
    from maxlab.graph.document import Notes

UNNAMED = "graph"
"""The name of a graph that was given none."""

_TORCH = "in PyTorch: module = torch.load(path); then maxlab.torch.load(module, x)"
_READERS = {
    ".mlprof": "it is a saved run: maxlab.load_run(path)",
    ".safetensors": "these are weights: maxlab.graph.weights.load_weights([path])",
    ".gguf": "these are weights: maxlab.graph.weights.load_weights([path])",
    ".pt": _TORCH,
    ".pth": _TORCH,
}
"""By the end of a file's name, how to read it where it is no graph."""


def read_function(path: files.AnyPath, name: str) -> tuple[Function, Notes | None]:
    """The function in the file at ``path``, verified, and what a document has beside it: the one
    there is, or of several the one that is called ``name``. One alone gets the name, unless it is
    `UNNAMED`.

    Raises:
        InvalidPathError: ML793, there is no file that can be read.
        ParseError: The file has no graph.
        ArgumentError: ML366, it has several graphs, none of this name.
    """
    found = _read(path)
    if len(found) == 1:
        ((function, notes),) = found
        if name != UNNAMED:
            function.rename(name)
        return function, notes
    for function, notes in found:
        if function.name == name:
            return function, notes
    raise unknown_graph(str(path), name, [function.name for function, _ in found])


def read_functions(path: files.AnyPath) -> list[Function]:
    """The functions in the file at ``path``, verified.

    Raises:
        InvalidPathError: ML793, there is no file that can be read.
        ParseError: The file has no graph.
    """
    return [function for function, _ in _read(path)]


def _read(path: files.AnyPath) -> list[tuple[Function, Notes | None]]:
    from maxlab.graph.document import SUFFIX
    from maxlab.graph.document_json import MOST_BYTES

    try:
        text = files.read_bytes(path, "the graph", MOST_BYTES).decode("utf-8")
    except (FileError, ArgumentTypeError) as error:
        fix = "pass the path of a file that graph.save wrote"
        raise InvalidPathError("ML793", error.what, fix=fix) from error
    except UnicodeDecodeError as error:
        raise ParseError(
            "ML350",
            f"{path} is not text, as a graph is",
            fix=_READERS.get(files.as_path(path).suffix, "read what Graph.save wrote"),
        ) from error
    where = files.as_path(path)
    if not text.strip("\ufeff \t\r\n") and where.suffix == SUFFIX:
        # What makes a new file writes nothing into it: nobody has built anything in it yet.
        trace.emit("graph", "empty", message=f"{where} has no bytes: it is an empty graph")
        return [(Function(where.stem or UNNAMED), None)]
    found = functions_of(text, str(where))
    for function, notes in found:
        recall(text, function)
        if notes is not None:
            notes.weights.folder = where.absolute().parent
    return found


def functions_of(text: str, where: str) -> list[tuple[Function, Notes | None]]:
    """The functions of ``text``, verified, each with what a document has beside it; ``where`` is
    the place of the text in messages.

    Raises:
        ParseError: The text has no graph.
    """
    from maxlab.graph.document import is_document
    from maxlab.graph.document import parse as parse_document
    from maxlab.ir.parser import parse_module

    found: list[tuple[Function, Notes | None]]
    text = text.removeprefix("\ufeff")  # the mark that some editors begin files with
    if is_document(text):
        found = [parse_document(text, where)]
    else:
        found = [(function, None) for function in parse_module(text, where)]
    for function, notes in found:
        verify(function)
        for body in () if notes is None or notes.groups is None else notes.groups.bodies:
            verify(body)
    return found


def unknown_graph(where: str, name: str, known: list[str]) -> ArgumentError:
    """The error for a graph that is not among the graphs ``known``."""
    return ArgumentError(
        "ML366",
        f"{where} has no graph {name!r}",
        fix=f"its graphs are {', '.join(known)}" if known else "it has no graphs",
    )


__all__ = ["UNNAMED", "functions_of", "read_function", "read_functions", "unknown_graph"]
