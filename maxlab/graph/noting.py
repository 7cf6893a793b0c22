"""The steps of an editor that change what people lay beside the graph: places, folds, comments and
drafts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from numbers import Real
from typing import Any, TypeVar

from maxlab.errors import GraphError, shown
from maxlab.graph.document import Document
from maxlab.graph.notes import Comment, Draft, Place
from maxlab.graph.staged import placed
from maxlab.graph.stepping import Stepping, without
from maxlab.ir import Op

E = TypeVar("E", Comment, Draft)


class Noting(Stepping):
    """Changes what stands beside ``graph``: where operations are drawn, which scopes are folded,
    comments, and drafts. Each change is a step of the graph's."""

    @property
    def _document(self) -> Document:
        return self.graph.document

    # ------------------------------------------------------------ places
    @placed
    def place(self, key: str, x: float, y: float, pinned: bool = True) -> None:
        """Draws something at a place, as a step.

        Args:
            key: An operation or a draft by its id; an input or an output as ``"in:a0"`` or
                ``"out:v3"``, a folded scope as ``"box:encoder.0"``.
            x: How far right, in the units of the canvas.
            y: How far down.
            pinned: Whether a new layout leaves it there.

        Raises:
            GraphError: ML300, there is no such thing.
            DocumentError: ML867, a coordinate is no finite number.
        """
        self._place({key: Place(x=_number(x), y=_number(y), pinned=pinned)})

    @placed
    def place_all(self, places: Mapping[str, Place]) -> None:
        """Draws several things at their places, in one step; see `place`."""
        self._place(places)

    def _place(self, places: Mapping[str, Place]) -> None:
        known = self._keys()
        with self.step():
            for key, place in places.items():
                self._require(key, known)
                self._document.places[key] = place

    @placed
    def unplace(self, *keys: str) -> None:
        """Leaves to the layout where ``keys`` are drawn, in one step.

        Raises:
            GraphError: ML812, one of them has no place.
        """
        with self.step():
            places = self._document.places
            for key in dict.fromkeys(keys):
                if key not in places:
                    raise _unknown(self.graph.name, "place of", key, list(places))
                del places[key]

    @placed
    def fold(self, path: str, is_folded: bool) -> None:
        """Remembers that the scope ``path`` is shown folded, or unfolded.

        Raises:
            DocumentError: ML867, ``path`` is no text, or ``is_folded`` neither true nor false.
        """
        with self.step():
            self._document.folds[path] = is_folded

    # ------------------------------------------------------------ comments
    @placed
    def comment(self, text: str, on: str = "", x: float = 0, y: float = 0) -> str:
        """The id of a new comment.

        Args:
            text: What it says; nothing of it is HTML.
            on: What it is about, by the keys of `place`; it is drawn beside that.
            x: How far right it stands, unless it is about something.
            y: How far down.

        Raises:
            GraphError: ML300, there is nothing like ``on``.
            DocumentError: ML867, ``text`` is no text, or a coordinate no finite number.
        """
        comments = self._document.comments
        id = _free({comment.id for comment in comments})
        made = Comment(id=id, text=text, on=on, x=_number(x), y=_number(y))
        with self.step():
            self._require_on(made)
            comments.append(made)
        return id

    @placed
    def set_comment(
        self,
        id: str,
        text: str | None = None,
        on: str | None = None,
        x: float | None = None,
        y: float | None = None,
    ) -> None:
        """Changes a comment; what is None stays.

        Raises:
            GraphError: ML812, there is no such comment; ML300, there is nothing like ``on``.
            DocumentError: ML867, ``text`` is no text, or a coordinate no finite number.
        """
        comments = self._document.comments
        place = self._number_of("comment", list(comments), id)
        given = {"text": text, "on": on, "x": _number(x), "y": _number(y)}
        made = replace(comments[place], **_given(given))
        with self.step():
            if on is not None:
                self._require_on(made)
            comments[place] = made

    @placed
    def remove_comment(self, id: str) -> None:
        """Removes a comment.

        Raises:
            GraphError: ML812, there is no such comment.
        """
        comments = self._document.comments
        place = self._number_of("comment", list(comments), id)
        with self.step():
            del comments[place]

    # ------------------------------------------------------------ drafts
    @placed
    def draft(
        self,
        name: str,
        operands: Sequence[str | None] = (),
        reason: str = "",
        attrs: Mapping[str, str] | None = None,
    ) -> str:
        """The id of a new draft: an operation that is not whole yet, which the graph does not have.

        Args:
            name: The operation, such as ``mo.matmul``.
            operands: The ids of values; None for one that is missing.
            reason: What is missing or wrong, for people.
            attrs: Attributes by name, as texts.

        Raises:
            GraphError: ML300, there is no such value, of the graph or of a draft.
            DocumentError: ML867, something is no text.
        """
        id = f"n{self.graph.function.fresh()}"
        operands = tuple(operands)
        made = Draft(id=id, name=name, reason=reason, operands=operands, attrs=attrs or {})
        with self.step():
            self._require_operands(made)
            self._document.drafts.append(made)
        return id

    @placed
    def set_draft(
        self,
        id: str,
        name: str | None = None,
        operands: Sequence[str | None] | None = None,
        reason: str | None = None,
        attrs: Mapping[str, str] | None = None,
    ) -> None:
        """Changes a draft; what is None stays.

        Raises:
            GraphError: ML812, there is no such draft; ML300, there is no such value.
            DocumentError: ML867, something is no text.
        """
        drafts = self._document.drafts
        place = self._number_of("draft", list(drafts), id)
        read = None if operands is None else tuple(operands)
        given = {"name": name, "operands": read, "reason": reason, "attrs": attrs}
        made = replace(drafts[place], **_given(given))
        with self.step():
            if operands is not None:
                self._require_operands(made)
            drafts[place] = made

    @placed
    def remove_draft(self, id: str) -> None:
        """Removes a draft, with its place and the comments on it.

        Raises:
            GraphError: ML812, there is no such draft.
        """
        document = self._document
        place = self._number_of("draft", list(document.drafts), id)
        with self.step():
            del document.drafts[place]
            gone = {f"v{id[1:]}"}
            for number, other in enumerate(list(document.drafts)):
                read = {v for v in other.operands if v is not None and v.partition("_")[0] in gone}
                if read:
                    document.drafts[number] = without(other, read)
            document.places.pop(id, None)
            for comment in document.comments:
                if comment.on == id:
                    document.comments.remove(comment)

    # ------------------------------------------------------------ parts of steps
    def _keys(self) -> set[str]:
        """The keys of all that can have a place, but for scopes."""
        function = self.graph.function
        known = {op.id for op in function.walk()}
        known.update(f"in:{value.id}" for value in function.inputs)
        output = function.output
        known.update(f"out:{value.id}" for value in (() if output is None else output.operands))
        known.update(draft.id for draft in self._document.drafts)
        return known

    def _require(self, key: Any, known: set[str]) -> None:
        is_box = isinstance(key, str) and key.startswith("box:") and key != "box:"
        if not is_box and key not in known:
            raise GraphError(
                "ML300",
                f"the graph {self.graph.name!r} has nothing to draw that is called {shown(key)}",
                fix="name an operation by its id, such as 'n12'; an input 'in:a0'; an output "
                "'out:v3'; a scope 'box:encoder.0'",
            )

    def _require_on(self, comment: Comment) -> None:
        if comment.on != "":
            self._require(comment.on, self._keys())

    def _require_operands(self, draft: Draft) -> None:
        drafts = {f"v{one.id[1:]}" for one in self._document.drafts if one.id != draft.id}
        for id in draft.operands:
            if isinstance(id, str) and id.partition("_")[0] not in drafts:
                self._value(id)

    def _number_of(self, what: str, entries: Sequence[E], id: Any) -> int:
        for number, entry in enumerate(entries):
            if entry.id == id:
                return number
        raise _unknown(self.graph.name, what, id, [entry.id for entry in entries])

    def _hand_over(self, old: Op, new: Op) -> None:
        """Lets ``new`` have the place and the comments of ``old``, which it takes the place of."""
        document = self._document
        place = document.places.pop(old.id, None)
        if place is not None:
            document.places[new.id] = place
        for number, comment in enumerate(document.comments):
            if comment.on == old.id:
                document.comments[number] = replace(comment, on=new.id)


def _given(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _number(value: Any) -> Any:
    """``value`` as a number of Python's, if it is one of another kind."""
    is_plain = value.__class__ in (int, float) or isinstance(value, bool)
    return value if is_plain or not isinstance(value, Real) else float(value)


def _free(taken: set[str]) -> str:
    """An id for a new comment that none of ``taken`` is."""
    numbers = [int(id[1:]) for id in taken if id[:1] == "c" and id[1:].isdecimal()]
    return f"c{max(numbers, default=-1) + 1}"


def _unknown(graph: str, what: str, id: Any, known: Sequence[str]) -> GraphError:
    listed = ", ".join(shown(one) for one in known[:8]) + (", …" if len(known) > 8 else "")
    return GraphError(
        "ML812",
        f"the graph {graph!r} has no {what} {shown(id)}",
        fix=f"there are {listed}" if known else "there are none",
    )


__all__ = ["Noting"]
