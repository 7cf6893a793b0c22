"""Adopts the notes that were laid beside a graph on a page without a kernel, as a step of the
graph.
"""

from __future__ import annotations

from maxlab.errors import MaxlabError
from maxlab.graph import Graph
from maxlab.graph.reading import graph_of
from maxlab.lab.questions.change import editor_of


class _Other(Exception):  # noqa: N818 - it is no error
    """More than what is laid beside the graph is another; raised so that the step is taken back."""


def adopted(saved: str, laid: Graph, where: str) -> Graph | None:
    """The graph of the text ``saved`` with all that ``laid`` has beside it, changed in one step.
    None where ``saved`` has no graph, or another one than ``laid``.

    Args:
        saved: What the file holds.
        laid: The graph of the text that a page has.
        where: What errors call the file.
    """
    try:
        graph = graph_of(saved, where)
        _lay(graph, laid)
    except (MaxlabError, _Other):
        return None
    return graph


def _lay(graph: Graph, laid: Graph) -> None:
    """Lay beside ``graph`` what is beside ``laid``.

    Raises:
        _Other: The two differ in something else; ``graph`` is as it was.
    """
    wanted = laid.document
    with editor_of(graph).step():  # the first one that a person can take back
        mine = graph.document
        for key in set(mine.places) - set(wanted.places):
            del mine.places[key]
        for key, place in wanted.places.items():
            if mine.places.get(key) != place:
                mine.places[key] = place
        for path in set(mine.folds) - set(wanted.folds):
            del mine.folds[path]
        for path, is_folded in wanted.folds.items():
            if mine.folds.get(path) != is_folded:
                mine.folds[path] = is_folded
        if mine.comments != list(wanted.comments):
            mine.comments[:] = list(wanted.comments)
        if mine.text() != wanted.text():
            raise _Other


__all__ = ["adopted"]
