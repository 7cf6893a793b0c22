"""``Graph.to_python``: the program as text, and the files that it consists of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from maxlab import files
from maxlab.errors import ArgumentError
from maxlab.graph.code.comments import comments_of, head_of, tail_of
from maxlab.graph.code.program import Writer
from maxlab.graph.code.weights import Store

SUFFIX = ".safetensors"


def to_python(
    graph: Any,
    path: Path | str | None,
    weights: Mapping[str, Any] | None,
    make: Callable[[], Any],
    more: Mapping[str, Any],
) -> str:
    """The program that builds ``graph``; written to ``path``, with its weights beside it.

    Args:
        graph: The graph.
        path: The file; None to write none.
        weights: The data of the weights by their names; None to leave them where they are.
        make: Makes an empty graph.
        more: Names that expressions may have.

    Raises:
        ArgumentError: ML838, the weights would take the place of the code.
    """
    at = None if path is None else files.as_path(path)
    if at is not None and at.suffix == SUFFIX:
        raise ArgumentError(
            "ML838",
            f"the code cannot be written to {at.name}: the weights of a program stand beside it, "
            f"in a file that ends with {SUFFIX}",
            fix=f"graph.to_python({str(at.with_suffix('.py'))!r})",
        )
    store = Store(weights if at is not None else None, at is not None)
    file = "" if at is None else at.with_suffix(SUFFIX).name
    writer = Writer(graph, make, store, more, comments_of(graph), file)
    text = writer.text(head_of(graph), tail_of(graph))
    if at is not None:
        if store.is_used:
            store.save(at.with_suffix(SUFFIX))
        files.write_text(at, text, "the code")
    return text


__all__ = ["to_python"]
