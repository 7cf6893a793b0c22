"""Inputs of a merge: graphs, and files with graphs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal, overload

from maxlab.analysis.revisions import graph_at
from maxlab.errors import ArgumentTypeError, shown
from maxlab.graph import Graph


@overload
def graph_of_given(given: object, name: str) -> Graph: ...


@overload
def graph_of_given(given: object, name: str, *, may_be_empty: Literal[True]) -> Graph | None: ...


def graph_of_given(given: object, name: str, *, may_be_empty: bool = False) -> Graph | None:
    """The graph that ``given`` is, or that is in the file or revision it names; None for an empty
    file, where that may be.

    Raises:
        ArgumentTypeError: ML856, it is something else.
    """
    if isinstance(given, Graph):
        return given
    if not isinstance(given, (str, os.PathLike)):
        raise ArgumentTypeError(
            "ML856",
            f"{name} is {shown(given)}, expected a graph or the path of one",
            fix="pass a Graph, 'name.mlgraph' or 'HEAD~1:name.mlgraph'",
        )
    path = Path(given)
    if may_be_empty and path.is_file() and path.stat().st_size == 0:
        return None
    return graph_at(os.fspath(given))


__all__ = ["graph_of_given"]
