"""Whether a document in parts is one that opens: its types follow, and its operations fit."""

from __future__ import annotations

import re

from maxlab.errors import GraphError, MaxlabError
from maxlab.graph.document import MOST_OPS, Notes, contents
from maxlab.graph.flowing import flow
from maxlab.graph.parted import Parted, join
from maxlab.ir import Function, symbols_of
from maxlab.opset.verify import verify

_PLACE = re.compile(r" \(line \d+, column \d+.*?\)")
"""Where in a text something stands: here there is none."""


def checked(parted: Parted, where: str) -> tuple[Function, Notes]:
    """The graph of ``parted`` and what stands beside it, its types those that follow from its
    inputs and attributes.

    Raises:
        GraphError: ML859, it is no graph: operations read each other in a circle, read what is not
            there, or do not take what they would read.
    """
    try:
        data = join(parted)
    except (TypeError, KeyError, ValueError, AttributeError, IndexError, RecursionError) as error:
        # What a side has is read from a file, and may be anything.
        raise GraphError("ML859", f"a side has what is no part of a document: {error}") from error
    try:
        function, notes = contents(data, "", where, MOST_OPS)
        names = [dim.name for dim in symbols_of(value.type for value in function.inputs)]
        function.set_parameters([*names, *(n for n in function.parameters if n not in names)])
        flow(function, ops=set(function.walk()))
        verify(function)
    except MaxlabError as error:
        what = _PLACE.sub("", error.what)
        raise GraphError("ML859", what, at=None, fix=error.fix) from error
    return function, notes


__all__ = ["checked"]
