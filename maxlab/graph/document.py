"""``Document``: a graph with what people laid beside it, as the text of an ``.mlgraph`` file.

Beside its graph a document has where operations are drawn, which scopes are folded, comments, and
*drafts*: operations that are not whole yet, with the reason. A graph never has a draft, so what is
whole always runs. Fields that this version does not know are kept where they stand.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn, Protocol

from maxlab.errors import DocumentError, ParseError, shown
from maxlab.graph.conflicts import CONFLICTS, Conflict, Conflicts, conflict_of
from maxlab.graph.document_json import TooLargeError, dump, load, refusal, too_large
from maxlab.graph.grouped import Groups, groups_data, read_groups
from maxlab.graph.kept import (
    WEIGHTS,
    Entry,
    Kept,
    KeptWeights,
    read_weights,
    set_weights,
    weights_data,
)
from maxlab.graph.lesson import (
    GOAL,
    LESSON,
    Goal,
    Lesson,
    goal_of,
    lesson_of,
    read_goal,
    read_lesson,
    set_goal,
    set_lesson,
    taught_by,
)
from maxlab.graph.notes import (
    COMMENTS,
    DRAFTS,
    FOLDS,
    PLACES,
    Comment,
    Comments,
    Draft,
    Drafts,
    Folds,
    K,
    Place,
    Places,
    Refuse,
    cannot_hold,
    data_of,
    entry_of,
    is_texts,
)
from maxlab.ir import Function
from maxlab.ir.function_json import Json, Reader, Unknown, Writer

FORMAT: Final = "maxlab.document"
VERSION: Final = 1
"""The newest version of the format, which is written; older ones are read."""
SUFFIX: Final = ".mlgraph"
MOST_OPS: Final = 1 << 20
"""Operations, with those of regions and subgraphs, that a document may have."""

_KNOWN = frozenset(
    {
        "comments",
        "conflicts",
        "constants",
        "drafts",
        "format",
        "goal",
        "graph",
        "groups",
        "layout",
        "lesson",
        "names",
        "version",
        "weights",
    }
)


@dataclass(slots=True)
class Notes:
    """The parts of a document beside its graph and the notes of it.

    Attributes:
        inputs: What the program that was read called its inputs; empty where it did not tell.
        scopes: The classes of the modules whose scopes it has.
        groups: The subgraphs that it calls, as they were read.
        weights: Where the numbers of weights are that it keeps.
        unknown: Fields that this version does not know, by the path of the object that has them;
            those of the document itself by ``"/"``, of its layout by ``"/layout"``.
    """

    inputs: tuple[str, ...] = ()
    scopes: Mapping[str, str] = field(default_factory=dict)
    groups: Groups | None = None
    weights: Kept = field(default_factory=Kept)
    unknown: Unknown = field(default_factory=dict)


class Owner(Protocol):
    """The owner of a document: a ``Graph``."""

    @property
    def function(self) -> Function:
        """Its operations."""

    @property
    def input_names(self) -> Sequence[str]:
        """The names that its program gives to the inputs; empty where it does not tell."""

    @property
    def scope_types(self) -> Mapping[str, str]:
        """The class names of modules, by the scopes of their operations."""

    def body_scopes(self) -> Mapping[Function, Mapping[str, str]]:
        """The class names of modules in each subgraph that is called, by its body."""


class Document:
    """A graph with its layout, comments and drafts: what an ``.mlgraph`` file holds.

    ``graph.document`` is the one of a graph. What is changed in it is saved with the graph, and is
    undone in one order with what is changed in the graph.

    Args:
        graph: The graph, with its notes.
        notes: What there is beside them.

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

    def __init__(self, graph: Owner, notes: Notes | None = None) -> None:
        self.graph = graph
        self.notes = notes or Notes()

    @property
    def places(self) -> Places:
        """Where things are drawn, by their structural keys: ``"n3"``, ``"box:encoder.0"``."""
        return Places(self.graph.function, PLACES)

    @property
    def folds(self) -> Folds:
        """Whether a scope is folded, by its path."""
        return Folds(self.graph.function, FOLDS)

    @property
    def comments(self) -> Comments:
        """The texts on the canvas, in their order."""
        return Comments(self.graph.function, COMMENTS)

    @property
    def drafts(self) -> Drafts:
        """The operations that are not whole yet, in their order."""
        return Drafts(self.graph.function, DRAFTS)

    @property
    def conflicts(self) -> Conflicts:
        """The conflicts of a merge that are left, in its order; empty where all is decided."""
        return Conflicts(self.graph.function, CONFLICTS)

    @property
    def weights(self) -> KeptWeights:
        """The numbers of weights that are saved with the document, by the names of the weights. A
        session that loads the graph takes from here what it is not given."""
        return KeptWeights(self.graph.function, self.notes.weights)

    @property
    def lesson(self) -> Lesson | None:
        """The lesson of the document; None where it is none."""
        return lesson_of(self.graph.function)

    @lesson.setter
    def lesson(self, lesson: Lesson | None) -> None:
        set_lesson(self.graph.function, lesson)

    @property
    def goal(self) -> Goal | None:
        """The goal of the graph; None where it has none."""
        return goal_of(self.graph.function)

    @goal.setter
    def goal(self, goal: Goal | None) -> None:
        set_goal(self.graph.function, goal)

    def text(self) -> str:
        """The text of the file: JSON with sorted keys, one operation a line. Equal documents have
        equal texts.

        Raises:
            GraphError: ML355, an attribute of the graph is of this process alone.
            DocumentError: ML867, something beside the graph is not what a file can hold.
        """
        made = self.data()
        # What is written is held against the rules of what is read.
        _notes(made, cannot_hold)
        count = _count(made["graph"]) + _count(made.get("groups", {}))
        if count > MOST_OPS:
            raise _too_large(f"{count:,} operations, and at most {MOST_OPS:,} are read")
        try:
            return dump(made)
        except TooLargeError as error:
            raise _too_large(str(error)) from None
        except (TypeError, ValueError) as error:
            cannot_hold(str(error), "")

    def data(self) -> Json:
        """The data that `text` writes as JSON.

        Raises:
            GraphError: ML355, an attribute of the graph is of this process alone.
        """
        notes = self.notes
        writer = Writer(notes.unknown)
        made: Json = {
            **notes.unknown.get("/", {}),
            "format": FORMAT,
            "graph": writer.function(self.graph.function),
            "version": VERSION,
        }
        groups = groups_data(self.graph.function, writer, self.graph.body_scopes())
        if groups is not None:
            made["groups"] = groups
        if writer.constants:
            made["constants"] = writer.constants
        layout = dict(notes.unknown.get("/layout", {}))
        if self.places:
            layout["places"] = {key: data_of(place) for key, place in self.places.items()}
        if self.folds:
            layout["folds"] = dict(self.folds)
        if layout:
            made["layout"] = layout
        names = dict(notes.unknown.get("/names", {})) | _names(self.graph)
        if names:
            made["names"] = names
        if self.comments:
            made["comments"] = [data_of(comment) for comment in self.comments]
        if self.drafts:
            made["drafts"] = [data_of(draft) for draft in self.drafts]
        if self.conflicts:
            made["conflicts"] = [conflict.to_dict() for conflict in self.conflicts]
        made.update(taught_by(self.graph.function))
        weights = weights_data(notes.weights, self.graph.function)
        if weights:
            made[WEIGHTS] = weights
        return made


def _names(graph: Owner) -> Json:
    """The names that the program of ``graph`` gives to its inputs, and the modules of its
    operations.
    """
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


def _too_large(what: str) -> DocumentError:
    return DocumentError(
        "ML867",
        f"a document of this graph has {what}",
        fix="save it in MLIR's generic form: graph.save('name.mlir'); or keep large constants as "
        "weights, in files of their own",
    )


# ---------------------------------------------------------------- what stands beside the graph
def _entries(kind: type[K], data: Json, key: str, refuse: Refuse) -> list[K]:
    found = data.get(key, [])
    if not isinstance(found, list):
        refuse(f"{key} is {shown(found)}, expected a list", key)
    made: list[K] = []
    ids: set[str] = set()
    for value in found:
        id = value.get("id") if isinstance(value, dict) else None
        what = f"the {key[:-1]} {id}" if isinstance(id, str) else f"a {key[:-1]}"
        made.append(entry_of(kind, value, what, id if isinstance(id, str) else key, refuse))
        if id in ids:
            refuse(f"two {key} have the id {shown(id)}", str(id))
        ids.add(str(id))
    return made


def _conflicts(data: Json, refuse: Refuse) -> list[Conflict]:
    found = data.get("conflicts", [])
    if not isinstance(found, list):
        refuse(f"conflicts is {shown(found)}, expected a list", "conflicts")
    made = {conflict.id: conflict for conflict in (conflict_of(one, refuse) for one in found)}
    if len(made) != len(found):
        refuse("two conflicts have the same id", "conflicts")
    return list(made.values())


def _objects(data: Json, key: str, refuse: Refuse) -> Json:
    found = data.get(key, {})
    if not isinstance(found, dict):
        refuse(f"{key} is {shown(found)}, expected an object", key)
    for name in found:
        if not isinstance(name, str):
            refuse(f"{key} has {shown(name)}, which is no text", key)
    return found


@dataclass(slots=True)
class _Read:
    """The parts of a document beside its graph, as they were read."""

    places: dict[str, Place]
    folds: dict[str, bool]
    comments: list[Comment]
    drafts: list[Draft]
    conflicts: list[Conflict]
    lesson: Lesson | None
    goal: Goal | None
    weights: Mapping[str, tuple[Entry, str]]
    notes: Notes


def _notes(data: Json, refuse: Refuse) -> _Read:
    """The parts of ``data``, a document, beside its graph."""
    layout = _objects(data, "layout", refuse)
    folds = _objects(layout, "folds", refuse)
    for key, value in folds.items():
        if not isinstance(value, bool):
            refuse(f"the fold of {shown(key)} is {shown(value)}, expected true or false", key)
    names = _objects(data, "names", refuse)
    scopes, inputs = _objects(names, "scopes", refuse), names.get("inputs", [])
    is_right = isinstance(inputs, list) and all(isinstance(name, str) for name in inputs)
    if not (is_right and is_texts(scopes)):
        refuse("names are texts", "names")
    notes = Notes(
        tuple(inputs),
        scopes,
    )
    read = _Read(
        {
            key: entry_of(Place, value, f"the place of {shown(key)}", key, refuse)
            for key, value in _objects(layout, "places", refuse).items()
        },
        folds,
        _entries(Comment, data, "comments", refuse),
        _entries(Draft, data, "drafts", refuse),
        _conflicts(data, refuse),
        read_lesson(data[LESSON], refuse) if LESSON in data else None,
        read_goal(data[GOAL], refuse) if GOAL in data else None,
        read_weights(_objects(data, WEIGHTS, refuse), refuse),
        notes,
    )
    for path, found, known in (
        ("/", data, _KNOWN),
        ("/layout", layout, {"folds", "places"}),
        ("/names", names, {"inputs", "scopes"}),
    ):
        more = {key: value for key, value in found.items() if key not in known}
        if more:
            notes.unknown[path] = more
    return read


# ---------------------------------------------------------------- reading
def is_document(text: str) -> bool:
    """Whether ``text`` begins as a document does, and not as a graph in MLIR's generic form."""
    return text.lstrip()[:1] == "{"


def parse(text: str, file: str) -> tuple[Function, Notes]:
    """The graph that ``text`` has, not verified yet, with its notes, and what stands beside them.

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
    return contents(data, text, file, MOST_OPS)


def contents(data: Json, text: str, file: str, most: int) -> tuple[Function, Notes]:
    """The graph that the object ``data`` has, not verified yet, and what stands beside it.

    Args:
        data: What ``text`` is as JSON.
        text: Where errors are.
        file: What errors call it.
        most: How many operations are read.

    Raises:
        ParseError: ML864, something is not what it should be; ML866, it is too large.
    """

    def refuse(what: str, id: str) -> NoReturn:
        raise refusal(text, file, what, id)

    count = _count(data.get("graph")) + _count(data.get("groups"))
    if count > most:
        raise too_large(file, f"it has {count:,} operations, and at most {most:,} are read")
    read = _notes(data, refuse)
    reader = Reader(_objects(data, "constants", refuse), refuse)
    try:
        function = reader.function(data.get("graph"))
        if "groups" in data:
            read.notes.groups = read_groups(data["groups"], reader, refuse)
    except MemoryError:
        raise too_large(file, "it takes more memory than there is") from None
    read.notes.unknown |= reader.unknown
    Places(function, PLACES).update(read.places)
    Folds(function, FOLDS).update(read.folds)
    Comments(function, COMMENTS).extend(read.comments)
    Drafts(function, DRAFTS).extend(read.drafts)
    Conflicts(function, CONFLICTS).extend(read.conflicts)
    set_lesson(function, read.lesson)
    set_goal(function, read.goal)
    read.notes.weights = set_weights(function, read.weights)
    return function, read.notes


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
    "Document",
    "Notes",
    "contents",
    "is_document",
    "parse",
]
