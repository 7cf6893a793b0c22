"""``Document``: a graph with what people laid beside it, as the text of an ``.mlgraph`` file.

Beside its graph a document has where operations are drawn, which scopes are folded, comments, and
*drafts*: operations that are not whole yet, with the reason. A graph never has a draft, so what is
whole always runs. Fields that this version does not know are kept where they stand.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, Final, NoReturn, Protocol, TypeVar

from maxlab.errors import DocumentError, ParseError, shown
from maxlab.graph.document_json import TooLargeError, dump, load, refusal, too_large
from maxlab.ir import Function
from maxlab.ir.function_json import Json, Reader, Unknown, Writer

FORMAT: Final = "maxlab.document"
VERSION: Final = 1
"""The newest version of the format, which is written; older ones are read."""
SUFFIX: Final = ".mlgraph"
MOST_OPS: Final = 1 << 20
"""Operations, with those of regions and subgraphs, that a document may have."""

_KNOWN = frozenset(
    {"comments", "constants", "drafts", "format", "graph", "layout", "names", "version"}
)
T = TypeVar("T")


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
        id: An id that no other draft has. Once it is saved, no new operation gets it.
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


@dataclass(slots=True)
class Notes:
    """What a document has beside its graph.

    Attributes:
        places: Where things are drawn, by their structural keys: ``"n3"``, ``"box:encoder.0"``.
        folds: Whether a scope is folded, by its path.
        comments: Texts on the canvas.
        drafts: Operations that are not whole yet.
        inputs: What the program that was read called its inputs; empty where it did not tell.
        scopes: The classes of the modules whose scopes it has.
        unknown: Fields that this version does not know, by the path of the object that has them;
            those of the document itself by ``"/"``, of its layout by ``"/layout"``.
    """

    places: dict[str, Place] = field(default_factory=dict)
    folds: dict[str, bool] = field(default_factory=dict)
    comments: list[Comment] = field(default_factory=list)
    drafts: list[Draft] = field(default_factory=list)
    inputs: tuple[str, ...] = ()
    scopes: Mapping[str, str] = field(default_factory=dict)
    unknown: Unknown = field(default_factory=dict)


class Kept(Protocol):
    """What a document is of: a ``Graph``."""

    @property
    def function(self) -> Function:
        """Its operations."""

    @property
    def input_names(self) -> Sequence[str]:
        """What its program calls the inputs; empty where it does not tell."""

    @property
    def scope_types(self) -> Mapping[str, str]:
        """The class names of modules, by the scopes of their operations."""


class Document:
    """A graph with its layout, comments and drafts: what an ``.mlgraph`` file holds.

    ``graph.document`` is the one of a graph. What is changed in it is saved with the graph.

    Args:
        graph: The graph.
        notes: What there is beside it.

    Example:
        >>> from maxlab.dtype import DType
        >>> from maxlab.graph import Comment, Graph, Place, TensorType
        >>> graph = Graph("double", lambda x: x * 2, [TensorType(DType.float32, ["n"])])
        >>> document = graph.document
        >>> document.places["n1"] = Place(x=40, y=120, pinned=True)
        >>> document.comments.append(Comment(id="c0", text="twice", on="n1"))
        >>> print(*document.text().splitlines()[:3], sep="\\n")
        {
         "comments": [
          {"id": "c0", "on": "n1", "text": "twice"}
    """

    def __init__(self, graph: Kept, notes: Notes | None = None) -> None:
        self.graph = graph
        self.notes = notes or Notes()

    @property
    def places(self) -> dict[str, Place]:
        """Where things are drawn, by their structural keys: ``"n3"``, ``"box:encoder.0"``."""
        return self.notes.places

    @property
    def folds(self) -> dict[str, bool]:
        """Whether a scope is folded, by its path."""
        return self.notes.folds

    @property
    def comments(self) -> list[Comment]:
        """The texts on the canvas."""
        return self.notes.comments

    @property
    def drafts(self) -> list[Draft]:
        """The operations that are not whole yet."""
        return self.notes.drafts

    def text(self) -> str:
        """The text of the file: JSON with sorted keys, one operation a line. Equal documents have
        equal texts.

        Raises:
            GraphError: ML355, an attribute of the graph is of this process alone.
            DocumentError: ML867, something beside the graph is not what a file can hold.
        """
        notes = self.notes
        writer = Writer(notes.unknown)
        made: Json = {
            **notes.unknown.get("/", {}),
            "format": FORMAT,
            "graph": writer.function(self.graph.function),
            "version": VERSION,
        }
        if writer.constants:
            made["constants"] = writer.constants
        layout = dict(notes.unknown.get("/layout", {}))
        if notes.places:
            layout["places"] = {key: _data(place) for key, place in notes.places.items()}
        if notes.folds:
            layout["folds"] = dict(notes.folds)
        if layout:
            made["layout"] = layout
        names = dict(notes.unknown.get("/names", {})) | _names(self.graph)
        if names:
            made["names"] = names
        if notes.comments:
            made["comments"] = [_data(comment) for comment in notes.comments]
        if notes.drafts:
            made["drafts"] = [_data(draft) for draft in notes.drafts]
        # What is written is held against the rules of what is read.
        _notes(made, _cannot_hold)
        count = _count(made["graph"])
        if count > MOST_OPS:
            raise _too_large(f"{count:,} operations, and at most {MOST_OPS:,} are read")
        _reserve(self.graph.function, notes)
        try:
            return dump(made)
        except TooLargeError as error:
            raise _too_large(str(error)) from None
        except (TypeError, ValueError) as error:
            _cannot_hold(str(error), "")


def _names(graph: Kept) -> Json:
    """What the program of ``graph`` calls its inputs, and the modules of its operations."""
    made: Json = {}
    if graph.input_names and len(graph.input_names) == len(graph.function.inputs):
        made["inputs"] = list(graph.input_names)
    if graph.scope_types:
        used = {""}
        for scope in {op.scope for op in graph.function.walk()}:
            parts = scope.split(".")
            used.update(".".join(parts[: n + 1]) for n in range(len(parts)))
        scopes = {path: kind for path, kind in graph.scope_types.items() if path in used}
        if scopes:
            made["scopes"] = scopes
    return made


def _cannot_hold(what: str, id: str) -> NoReturn:
    raise DocumentError(
        "ML867",
        f"a document cannot hold this: {what}",
        fix="leave it out, or write it as texts, finite numbers, lists and objects",
    )


def _too_large(what: str) -> DocumentError:
    return DocumentError(
        "ML867",
        f"a document of this graph has {what}",
        fix="save it in MLIR's generic form: graph.save('name.mlir'); or keep large constants as "
        "weights, in files of their own",
    )


# ---------------------------------------------------------------- what stands beside the graph
def _data(entry: Any) -> Json:
    """``entry`` as an object; fields with their usual value are left out."""
    made: Json = dict(entry.more)
    for one in fields(entry):
        value = getattr(entry, one.name)
        usual = one.default_factory() if one.default_factory is not MISSING else one.default
        if one.name != "more" and value != usual:
            made[one.name] = list(value) if isinstance(value, tuple) else value
    return made


def _is_number(value: object) -> bool:
    return value.__class__ in (int, float) and math.isfinite(value)


def _is_operands(value: object) -> bool:
    return isinstance(value, (list, tuple)) and all(x is None or isinstance(x, str) for x in value)


def _is_texts(value: object) -> bool:
    return isinstance(value, Mapping) and all(
        isinstance(k, str) and isinstance(v, str) for k, v in value.items()
    )


_RULES: dict[str, tuple[Callable[[object], bool], str]] = {
    **dict.fromkeys(("x", "y"), (_is_number, "a finite number")),
    "pinned": (lambda value: isinstance(value, bool), "true or false"),
    **dict.fromkeys(
        ("id", "text", "on", "name", "reason"), (lambda value: isinstance(value, str), "a text")
    ),
    "operands": (_is_operands, "a list of ids, and null for what is missing"),
    "attrs": (_is_texts, "texts by name"),
}
"""What the fields of places, comments and drafts may be, and how to say so."""

Refuse = Callable[[str, str], NoReturn]


def _entry(kind: Callable[..., T], data: Any, what: str, key: str, refuse: Refuse) -> T:
    """The place, comment or draft that ``data`` is."""
    if not isinstance(data, dict):
        refuse(f"{what} is {shown(data)}, expected an object", key)
    known = {one.name: one for one in fields(kind) if one.name != "more"}  # type: ignore[arg-type]
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


def _entries(kind: Callable[..., T], data: Json, key: str, refuse: Refuse) -> list[T]:
    found = data.get(key, [])
    if not isinstance(found, list):
        refuse(f"{key} is {shown(found)}, expected a list", key)
    made: list[T] = []
    ids: set[str] = set()
    for value in found:
        id = value.get("id") if isinstance(value, dict) else None
        what = f"the {key[:-1]} {id}" if isinstance(id, str) else f"a {key[:-1]}"
        made.append(_entry(kind, value, what, id if isinstance(id, str) else key, refuse))
        if id in ids:
            refuse(f"two {key} have the id {shown(id)}", str(id))
        ids.add(str(id))
    return made


def _objects(data: Json, key: str, refuse: Refuse) -> Json:
    found = data.get(key, {})
    if not isinstance(found, dict):
        refuse(f"{key} is {shown(found)}, expected an object", key)
    for name in found:
        if not isinstance(name, str):
            refuse(f"{key} has {shown(name)}, which is no text", key)
    return found


def _notes(data: Json, refuse: Refuse) -> Notes:
    """What ``data``, a document, has beside its graph."""
    layout = _objects(data, "layout", refuse)
    folds = _objects(layout, "folds", refuse)
    for key, value in folds.items():
        if not isinstance(value, bool):
            refuse(f"the fold of {shown(key)} is {shown(value)}, expected true or false", key)
    names = _objects(data, "names", refuse)
    scopes, inputs = _objects(names, "scopes", refuse), names.get("inputs", [])
    is_right = isinstance(inputs, list) and all(isinstance(name, str) for name in inputs)
    if not (is_right and _is_texts(scopes)):
        refuse("names are texts", "names")
    notes = Notes(
        {
            key: _entry(Place, value, f"the place of {shown(key)}", key, refuse)
            for key, value in _objects(layout, "places", refuse).items()
        },
        folds,
        _entries(Comment, data, "comments", refuse),
        _entries(Draft, data, "drafts", refuse),
        tuple(inputs),
        scopes,
    )
    for path, found, known in (
        ("/", data, _KNOWN),
        ("/layout", layout, {"folds", "places"}),
        ("/names", names, {"inputs", "scopes"}),
    ):
        more = {key: value for key, value in found.items() if key not in known}
        if more:
            notes.unknown[path] = more
    return notes


# ---------------------------------------------------------------- reading
def is_document(text: str) -> bool:
    """Whether ``text`` begins as a document does, and not as a graph in MLIR's generic form."""
    return text.lstrip()[:1] == "{"


def parse(text: str, file: str) -> tuple[Function, Notes]:
    """The graph that ``text`` has, not verified yet, and what stands beside it.

    Args:
        text: What ``Document.text`` gave.
        file: What errors call it.

    Raises:
        ParseError: ML864, it is no document, with the line and column; ML865, a newer version of
            maxlab wrote it; ML866, it is too large.
    """
    data = load(text, file)

    def refuse(what: str, id: str) -> NoReturn:
        raise refusal(text, file, what, id)

    if not isinstance(data, dict) or data.get("format") != FORMAT:
        told = data.get("format") if isinstance(data, dict) else data
        refuse(f"the format is {shown(told)}, expected {FORMAT!r}", "format")
    version = data.get("version")
    if version.__class__ is not int or version < 1:
        refuse(f"the version is {shown(version)}, expected 1 to {VERSION}", "version")
    if version > VERSION:
        raise _newer(text, file, version)
    count = _count(data.get("graph"))
    if count > MOST_OPS:
        raise too_large(file, f"it has {count:,} operations, and at most {MOST_OPS:,} are read")
    notes = _notes(data, refuse)
    reader = Reader(_objects(data, "constants", refuse), refuse)
    try:
        function = reader.function(data.get("graph"))
    except MemoryError:
        raise too_large(file, "it takes more memory than there is") from None
    notes.unknown |= reader.unknown
    _reserve(function, notes)
    return function, notes


def _reserve(function: Function, notes: Notes) -> None:
    """Let no new operation get an id that something beside the graph speaks of."""
    named = [*notes.places, *(comment.on for comment in notes.comments)]
    for id in (*named, *(draft.id for draft in notes.drafts)):
        function.reserve(id)


def _newer(text: str, file: str, version: int) -> ParseError:
    at = refusal(text, file, "", "version").at
    return ParseError(
        "ML865",
        f"{file} is a document of version {shown(version)}; this maxlab reads versions up to "
        f"{VERSION}",
        at=at,
        fix="pip install -U maxlab",
    )


def _count(data: Any) -> int:
    """How many operations ``data`` has, with all that stand in others."""
    count = 0
    waiting = [data]
    while waiting:
        one = waiting.pop()
        if not isinstance(one, dict):
            continue
        for key in ("ops", "regions", "subgraphs"):
            inner = one.get(key)
            if isinstance(inner, list):
                count += len(inner) if key == "ops" else 0
                waiting += inner
    return count


__all__ = [
    "SUFFIX",
    "Comment",
    "Document",
    "Draft",
    "Notes",
    "Place",
    "is_document",
    "parse",
]
