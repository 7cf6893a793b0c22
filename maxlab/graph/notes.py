"""Notes that people lay beside a graph: places, folds, comments and drafts.

They are notes of its function (`Function.notes`): texts by table and key, so that the log has each
change of one, and a step that changes both the graph and a note is undone as one. What is here
reads and writes them: `Places`, `Folds`, `Comments` and `Drafts` are the dicts and lists of
``graph.document``.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, MutableSequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, Generic, NoReturn, Protocol, TypeVar, overload

from maxlab.errors import DocumentError, shown
from maxlab.graph.tables import COMMENTS, DRAFTS, FOLDS, PLACES
from maxlab.ir import Function
from maxlab.ir.edit_log import Log

Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where something is drawn, in the units of the canvas, and whether it was pinned there.

    ``more`` has the fields that this version does not know.
    """

    x: float
    y: float
    pinned: bool = False
    more: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Comment:
    """A text on the canvas: at a place, or at the operation ``on``."""

    id: str
    text: str
    on: str = ""
    x: float = 0
    y: float = 0
    more: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """An operation that is not whole yet.

    Attributes:
        id: An id that no other draft has. No new operation gets it.
        name: The operation, such as ``mo.matmul``.
        reason: What is missing or wrong, for people.
        operands: The ids of values; None for one that is missing.
        attrs: Attributes by name, as texts.
    """

    id: str
    name: str
    reason: str
    operands: tuple[str | None, ...] = ()
    attrs: Mapping[str, str] = field(default_factory=dict)
    more: Mapping[str, Any] = field(default_factory=dict)


class _Entry(Protocol):
    """A comment or a draft."""

    @property
    def id(self) -> str:
        """The id, which no other note has."""


E = TypeVar("E", bound=_Entry)
K = TypeVar("K", bound=Place | Comment | Draft)
V = TypeVar("V")
Refuse = Callable[[str, str], NoReturn]
"""Raises the error of what is wrong, at the object that has the id that is given."""


def cannot_hold(what: str, id: str) -> NoReturn:
    """Raises the error for ``what``, which no document can have.

    Raises:
        DocumentError: ML867.
    """
    raise DocumentError(
        "ML867",
        f"a document cannot hold this: {what}",
        fix="leave it out, or write it as texts, finite numbers, lists and objects",
    )


# ---------------------------------------------------------------- rules
def data_of(entry: Place | Comment | Draft) -> Json:
    """``entry`` as an object; fields with their usual value are left out."""
    made: Json = dict(entry.more)
    for one in fields(entry):
        value = getattr(entry, one.name)
        usual = one.default_factory() if one.default_factory is not MISSING else one.default
        if one.name != "more" and value != usual:
            made[one.name] = list(value) if isinstance(value, tuple) else value
    return made


def is_number(value: object) -> bool:
    """Whether ``value`` can be a coordinate."""
    return value.__class__ in (int, float) and math.isfinite(value)


def _is_operands(value: object) -> bool:
    return isinstance(value, (list, tuple)) and all(x is None or isinstance(x, str) for x in value)


def is_texts(value: object) -> bool:
    """Whether ``value`` has texts by name."""
    return isinstance(value, Mapping) and all(
        isinstance(k, str) and isinstance(v, str) for k, v in value.items()
    )


_RULES: dict[str, tuple[Callable[[object], bool], str]] = {
    **dict.fromkeys(("x", "y"), (is_number, "a finite number")),
    "pinned": (lambda value: isinstance(value, bool), "true or false"),
    **dict.fromkeys(
        ("id", "text", "on", "name", "reason"), (lambda value: isinstance(value, str), "a text")
    ),
    "operands": (_is_operands, "a list of ids, and null for what is missing"),
    "attrs": (is_texts, "texts by name"),
}
"""The rules for the fields of places, comments and drafts, and their words."""


def entry_of(kind: type[K], data: Any, what: str, key: str, refuse: Refuse) -> K:
    """The place, comment or draft that ``data`` is.

    Args:
        kind: Which of them.
        data: What was read.
        what: What errors call it.
        key: The id of the object, for ``refuse``.
        refuse: Called with what is wrong.
    """
    if not isinstance(data, dict):
        refuse(f"{what} is {shown(data)}, expected an object", key)
    known = {one.name: one for one in fields(kind) if one.name != "more"}
    given: Json = {}
    for name, one in known.items():
        if name in data:
            is_right, expected = _RULES[name]
            if not is_right(data[name]):
                refuse(f"{what}: {name} is {shown(data[name])}, expected {expected}", key)
            value = data[name]
            given[name] = tuple(value) if isinstance(value, list) else value
        elif one.default is MISSING and one.default_factory is MISSING:
            refuse(f"{what} has no {name}", key)
    more = {name: value for name, value in data.items() if name not in known}
    return kind(**given, more=more)


# ---------------------------------------------------------------- texts
_encode = json.JSONEncoder(
    ensure_ascii=False, sort_keys=True, allow_nan=False, separators=(",", ":")
).encode


def _text(kind: type[K], entry: Any, what: str) -> str:
    """``entry`` as a note, without its id, which is the key.

    Raises:
        DocumentError: ML867, it is something else, or has what no file can hold.
    """
    if not isinstance(entry, kind):
        cannot_hold(f"{what} is {shown(entry)}, expected a {kind.__name__}", "")
    data = data_of(entry)
    entry_of(kind, data, what, "", cannot_hold)
    data.pop("id", None)
    try:
        return _encode(data)
    except (TypeError, ValueError, RecursionError) as error:
        cannot_hold(f"{what}: {error}", "")


def _loaded(note: str, what: str) -> Any:
    """The data of a note.

    Raises:
        DocumentError: ML867, a record from elsewhere has put something else there.
    """
    try:
        return json.loads(note)
    except (ValueError, RecursionError):
        cannot_hold(f"{what} is {shown(note)}, expected JSON", "")


class _Table:
    """The notes of one table of a function."""

    __slots__ = ("_function", "_name")

    def __init__(self, function: Function, name: str) -> None:
        self._function = function
        self._name = name

    @property
    def _notes(self) -> dict[str, str]:
        return self._function.notes.get(self._name, {})

    def _put(self, key: Any, note: str | None, before: str | None = None) -> None:
        if not isinstance(key, str):
            cannot_hold(f"{self._name} has {shown(key)}, which is no text", "")
        self._function.reserve(key)  # no new operation gets what is spoken of
        self._function.set_note(self._name, key, note, before)

    def _whole(self) -> AbstractContextManager[object]:
        """A ``with`` block that is done whole or not at all."""
        log = self._function.log
        return log.transaction() if isinstance(log, Log) else nullcontext()


# ---------------------------------------------------------------- by key
class _ByKey(_Table, MutableMapping[str, V]):
    """A dict whose changes are records."""

    __slots__ = ()

    def _read(self, key: str, note: str) -> V:
        raise NotImplementedError

    def _write(self, key: Any, value: Any) -> str:
        raise NotImplementedError

    def __getitem__(self, key: str) -> V:
        return self._read(key, self._notes[key])

    def __setitem__(self, key: str, value: V) -> None:
        self._put(key, self._write(key, value))

    def __delitem__(self, key: str) -> None:
        if key not in self._notes:
            raise KeyError(key)
        self._put(key, None)

    def __iter__(self) -> Iterator[str]:
        return iter(self._notes)

    def __len__(self) -> int:
        return len(self._notes)

    def __repr__(self) -> str:
        return repr(dict(self))

    def popitem(self) -> tuple[str, V]:
        """The newest key with its value, which are taken out."""
        for key in reversed(self._notes):
            return key, self.pop(key)
        raise KeyError("popitem(): there is nothing")

    def clear(self) -> None:
        """Takes all out."""
        with self._whole():
            for key in reversed(list(self._notes)):
                self._put(key, None)

    def update(self, other: Any = (), /, **more: Any) -> None:
        """Sets all of ``other`` and ``more``, or nothing."""
        with self._whole():
            super().update(other, **more)


class Places(_ByKey[Place]):
    """Where things are drawn, by their structural keys: ``"n3"``, ``"box:encoder.0"``."""

    __slots__ = ()

    def _read(self, key: str, note: str) -> Place:
        what = f"the place of {shown(key)}"
        return entry_of(Place, _loaded(note, what), what, key, cannot_hold)

    def _write(self, key: Any, value: Any) -> str:
        return _text(Place, value, f"the place of {shown(key)}")


class Folds(_ByKey[bool]):
    """Whether a scope is folded, by its path."""

    __slots__ = ()

    def _read(self, key: str, note: str) -> bool:
        return note == "true"

    def _write(self, key: Any, value: Any) -> str:
        if not isinstance(value, bool):
            cannot_hold(
                f"the fold of {shown(key)} is {shown(value)}, expected true or false", str(key)
            )
        return "true" if value else "false"


# ---------------------------------------------------------------- in order
class InOrder(_Table, MutableSequence[E], Generic[E]):
    """A list whose changes are records, and whose entries have ids."""

    __slots__ = ()

    def _read(self, key: str, note: str) -> E:
        raise NotImplementedError

    def _write(self, value: Any) -> str:
        raise NotImplementedError

    @overload
    def __getitem__(self, at: int) -> E: ...
    @overload
    def __getitem__(self, at: slice) -> list[E]: ...
    def __getitem__(self, at: int | slice) -> E | list[E]:
        notes = self._notes
        if isinstance(at, slice):
            return [self._read(key, notes[key]) for key in list(notes)[at]]
        key = list(notes)[at]
        return self._read(key, notes[key])

    @overload
    def __setitem__(self, at: int, value: E) -> None: ...
    @overload
    def __setitem__(self, at: slice, value: Iterable[E]) -> None: ...
    def __setitem__(self, at: int | slice, value: Any) -> None:
        if isinstance(at, slice):
            made = list(self)
            made[at] = value
            with self._whole():
                self.clear()
                self.extend(made)
            return
        key = list(self._notes)[at]
        if getattr(value, "id", None) == key:
            self._put(key, self._write(value))
            return
        with self._whole():
            place = at if at >= 0 else at + len(self)
            del self[place]
            self.insert(place, value)

    def __delitem__(self, at: int | slice) -> None:
        keys = list(self._notes)[at]
        with self._whole():
            for key in [keys] if isinstance(keys, str) else reversed(keys):
                self._put(key, None)

    def __len__(self) -> int:
        return len(self._notes)

    def __iter__(self) -> Iterator[E]:
        return iter([self._read(key, note) for key, note in self._notes.items()])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, (list, InOrder)):
            return NotImplemented
        return list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(list(self))

    def insert(self, at: int, value: E) -> None:
        """Puts ``value`` before number ``at``.

        Raises:
            DocumentError: ML867, there is one with its id, or no file can hold it.
        """
        keys = list(self._notes)
        self._add(value, next(iter(keys[at:]), None))

    def append(self, value: E) -> None:
        """Puts ``value`` at the end.

        Raises:
            DocumentError: ML867, there is one with its id, or no file can hold it.
        """
        self._add(value, None)

    def _add(self, value: E, before: str | None) -> None:
        note = self._write(value)
        if value.id in self._notes:
            cannot_hold(f"two {self._name} have the id {shown(value.id)}", value.id)
        self._put(value.id, note, before)

    def clear(self) -> None:
        """Takes all out."""
        del self[:]

    def extend(self, values: Iterable[E]) -> None:
        """Puts all of ``values`` at the end, or none."""
        with self._whole():
            for value in list(values):
                self.append(value)

    def reverse(self) -> None:
        """Turns the order around."""
        self[:] = list(self)[::-1]


class Comments(InOrder[Comment]):
    """The texts on the canvas."""

    __slots__ = ()

    def _read(self, key: str, note: str) -> Comment:
        what = f"the comment {shown(key)}"
        return entry_of(Comment, _with_id(key, note, what), what, key, cannot_hold)

    def _write(self, value: Any) -> str:
        note = _text(Comment, value, f"the comment {getattr(value, 'id', '')}")
        self._function.reserve(value.on)
        return note


class Drafts(InOrder[Draft]):
    """The operations that are not whole yet."""

    __slots__ = ()

    def _read(self, key: str, note: str) -> Draft:
        what = f"the draft {shown(key)}"
        return entry_of(Draft, _with_id(key, note, what), what, key, cannot_hold)

    def _write(self, value: Any) -> str:
        return _text(Draft, value, f"the draft {getattr(value, 'id', '')}")


def _with_id(key: str, note: str, what: str) -> Any:
    data = _loaded(note, what)
    return {**data, "id": key} if isinstance(data, dict) else data


__all__ = [
    "COMMENTS",
    "DRAFTS",
    "FOLDS",
    "PLACES",
    "Comment",
    "Comments",
    "Draft",
    "Drafts",
    "Folds",
    "InOrder",
    "Place",
    "Places",
    "Refuse",
    "cannot_hold",
    "data_of",
    "entry_of",
    "is_texts",
]
