"""Which operations take given values.

Each is tried in a copy of the graph, so that what is named is accepted, and no rule of an operation
is written down a second time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from maxlab.errors import MaxlabError
from maxlab.graph.editing import Editor
from maxlab.graph.graph import LIVE, Graph
from maxlab.graph.value import BufferValue, Value
from maxlab.ir import Type
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
    scratch = scratch_of(editor)
    given = [scratch.value(id) for id in ids]

    def added(editor: Editor, offer: Offer) -> Sequence[Value]:
        return editor.add(offer.name, *bound(offer, given))

    make = attempt or added
    found: list[Fit] = []
    for offer in offers().values():
        needs = missing(offer, len(given))
        if needs is None or not takes(offer, given):
            continue
        result: str | None = ""
        if not needs:
            made = tried(scratch, partial(_apply, make, offer))
            result = None if isinstance(made, MaxlabError) else type_texts(made) or None
        if result is not None:
            found.append(Fit(offer, needs, result))
    return found


def _apply(make: Attempt, offer: Offer, editor: Editor) -> Sequence[Value]:
    return make(editor, offer)


def scratch_of(editor: Editor) -> Editor:
    """The editor of a copy of the graph, whose ids are those of the graph."""
    copy = Graph(path=editor.graph.function.clone())
    LIVE.discard(copy)  # it is none of the user's
    return Editor(copy)


def takes(offer: Offer, given: Sequence[Value]) -> bool:
    """Whether the first value is a buffer where ``offer`` takes one, and a tensor elsewhere."""
    kind = "buffer" if given and isinstance(given[0], BufferValue) else "tensor"
    return not given or offer.takes in (kind, "either")


def tried(
    editor: Editor, attempt: Callable[[Editor], Sequence[Value]]
) -> tuple[Type, ...] | MaxlabError:
    """The types of what ``attempt`` makes in the graph of ``editor``, which stays as it is; the
    error where it does not fit."""
    try:
        with editor.step():
            made = attempt(editor)
            raise _Taken(tuple(editor.in_function(value).type for value in made))
    except _Taken as took:
        return took.types
    except MaxlabError as error:
        return error


def type_texts(types: Sequence[Type]) -> str:
    """Several types as they are typed, with commas between them."""
    return ", ".join(map(type_text, types))


class _Taken(Exception):  # noqa: N818 - it is no error
    """It fits; raised so that it is taken back."""

    def __init__(self, types: tuple[Type, ...]) -> None:
        super().__init__(types)
        self.types = types


__all__ = ["Attempt", "Fit", "fitting", "scratch_of", "takes", "tried", "type_texts"]
