"""Which operations take given values.

Each is tried in a copy of the graph, so that what is named is accepted, and no rule of an operation
is written down a second time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from maxlab.errors import MaxlabError
from maxlab.graph.editing import Editor
from maxlab.graph.graph import LIVE, Graph
from maxlab.graph.value import BufferValue, Value
from maxlab.lab.fields import type_text
from maxlab.lab.palette import Offer, bound, missing, offers


class Fit(NamedTuple):
    """An operation that takes the values.

    Attributes:
        offer: The operation.
        needs: The parameters that must be typed before it can be said whether it fits.
        result: The types of its results; empty while something is missing.
    """

    offer: Offer
    needs: tuple[str, ...]
    result: str


Attempt = Callable[[Editor, Offer], Sequence[Value]]
"""Adds an operation with the editor, and gives its results."""


def fitting(
    editor: Editor, values: Sequence[Value | str], attempt: Attempt | None = None
) -> list[Fit]:
    """The operations whose first operands can be ``values``, in alphabetic order.

    Each is tried in a copy of the graph, which stays as it is.

    Args:
        editor: Of the graph.
        values: Values, their ids or names.
        attempt: What tries one; by default it is added at the end.

    Raises:
        GraphError: ML300, the graph has no such value.

    Example:
        >>> from maxlab.dtype import DType
        >>> from maxlab.graph import Editor, Graph, TensorType
        >>> from maxlab.lab.fits import fitting
        >>> with Graph("g", input_types=[TensorType(DType.int32, ["n"])]) as graph:
        ...     graph.output(graph.inputs[0].tensor)
        >>> found = {fit.offer.name: fit for fit in fitting(Editor(graph), ["input0"])}
        >>> "logical_not" in found, found["abs"].result, found["reshape"].needs
        (False, 'int32[n]', ('shape',))
    """
    ids = [editor.in_function(v).id for v in values]
    copy = Graph(path=editor.graph.function.clone())
    LIVE.discard(copy)  # it is none of the user's
    scratch = Editor(copy)
    given = [scratch.value(id) for id in ids]

    def added(editor: Editor, offer: Offer) -> Sequence[Value]:
        return editor.add(offer.name, *bound(offer, given))

    found: list[Fit] = []
    for offer in offers().values():
        needs = missing(offer, len(given))
        if needs is None or not _takes(offer, given):
            continue
        result = "" if needs else _tried(scratch, offer, attempt or added)
        if result is not None:
            found.append(Fit(offer, needs, result))
    return found


def _takes(offer: Offer, given: Sequence[Value]) -> bool:
    """Whether the first value is a buffer where ``offer`` takes one, and a tensor elsewhere."""
    wants_buffer = offer.family == "buffer" and offer.name != "print"
    return not given or wants_buffer == isinstance(given[0], BufferValue)


def _tried(editor: Editor, offer: Offer, attempt: Attempt) -> str | None:
    """The types of the results of ``offer``; None where it does not fit."""
    try:
        with editor.step():
            made = attempt(editor, offer)
            raise _Taken(", ".join(type_text(editor.in_function(value).type) for value in made))
    except _Taken as took:
        return took.result or None
    except MaxlabError:
        return None


class _Taken(Exception):  # noqa: N818 - it is no error
    """The operation took the values; raised so that it is taken back."""

    def __init__(self, result: str) -> None:
        super().__init__(result)
        self.result = result


__all__ = ["Attempt", "Fit", "fitting"]
