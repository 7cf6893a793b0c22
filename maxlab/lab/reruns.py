"""Changes in a graph between two runs of the cell that shows it.

Ids say nothing here: a cell that runs again builds a new graph. Nodes are paired by what they are:
the op, its attributes, its types, its scope, its source text, and the nodes around them.
"""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from maxlab.analysis.runs.nodes import Part, match_nodes, match_parts, parts_of, sound_nodes
from maxlab.errors import ArgumentError
from maxlab.graph import Editor, Graph
from maxlab.graph.code import are_equal
from maxlab.graph.drafting import maker_of, result_id
from maxlab.ir import Function
from maxlab.ir.cells import running_cell
from maxlab.lab import protocol
from maxlab.lab.code.bases import base_of
from maxlab.lab.code.expecting import expected
from maxlab.lab.code.refusing import CodeError
from maxlab.lab.snapshot import take

RECENT = 64
"""Graphs of cells that are remembered: what their nodes are, and the graph as long as it lives."""

DRAWN = 16
"""Cells whose graphs are remembered whole, so that what differs can be drawn, at most."""
MOST_DRAWN = 20_000
"""Operations of a graph that is remembered whole, at most."""

NOTHING: protocol.Marks = {"added": [], "changed": [], "removed": 0}


def compared(old: Sequence[Part], new: Sequence[Part]) -> tuple[list[int], list[int], int]:
    """The places in ``new`` of nodes that were added and of those that changed, and how many nodes
    of ``old`` are gone.

    A node has changed when it says something else of itself than its counterpart, has another type,
    or reads from nodes that are no pair.
    """
    back = {place: was for was, place in match_parts(old, new).items()}
    added = [place for place in range(len(new)) if place not in back]
    changed = [
        place
        for place in range(len(new))
        if place in back
        and (not _is_same(old[back[place]], new[place]) or not _reads_alike(old, new, back, place))
    ]
    return added, changed, len(old) - len(back)


def _is_same(old: Part, new: Part) -> bool:
    """Whether two nodes say the same of themselves."""
    return old[:5] == new[:5]


def _reads_alike(
    old: Sequence[Part], new: Sequence[Part], pair: Mapping[int, int], place: int
) -> bool:
    """Whether the node at ``place`` and its counterpart read from pairs, or the same inputs. Of
    equal constants and weights any is as good as another, and one that changed says so itself."""
    before, now = old[pair[place]].reads, new[place].reads

    def alike(left: tuple[int, int], right: tuple[int, int]) -> bool:
        (was, result), (is_, number) = left, right
        if result != number or number < 0:
            return left == right
        if pair.get(is_) == was:
            return True
        if old[was].reads or new[is_].reads:
            return False
        found = pair.get(is_)
        is_changed = found is not None and not _is_same(old[found], new[is_])
        return _is_same(old[was], new[is_]) or (
            is_changed and (old[was].op, old[was].scope) == (new[is_].op, new[is_].scope)
        )

    return len(before) == len(now) and all(map(alike, before, now))


def marks(document: protocol.GraphDocument, old: Sequence[Part]) -> protocol.Marks:
    """The marks for ``document``, whose nodes were ``old`` in the run before."""
    nodes = sound_nodes(document)

    def ids(places: Iterable[int]) -> list[str]:
        return [nodes[place]["id"] for place in places]

    added, changed, removed = compared(old, parts_of(document))
    return {"added": ids(added), "changed": ids(changed), "removed": removed}


# ---------------------------------------------------------------- cells


@dataclass(slots=True)
class _Run:
    """A graph that a cell showed: the nodes, and the graph and its view as long as they live."""

    parts: list[Part]
    document: protocol.GraphDocument | None = None
    graph: weakref.ref[Graph] | None = None
    revision: int = 0
    view: weakref.ref[Selecting] | None = None

    @property
    def alive(self) -> Graph | None:
        """The graph that was shown."""
        return self.graph() if self.graph is not None else None


@dataclass(slots=True)
class _Shown:
    """The graphs of one name that a cell showed, in this run and in the one before."""

    run: str
    now: list[_Run] = field(default_factory=list)
    before: list[_Run] = field(default_factory=list)


_cells: OrderedDict[tuple[str, str], _Shown] = OrderedDict()


class Selecting(Protocol):
    """A view, as far as its selection goes."""

    selection: Any


def _last(cell: str, run: str, name: str) -> _Run | None:
    """The graph of the run before that stands for the one that ``cell`` shows next."""
    shown = _cells.get((cell, name))
    if shown is None:
        return None
    before, number = (shown.now, 0) if shown.run != run else (shown.before, len(shown.now))
    return before[number] if number < len(before) else None


_named: weakref.WeakKeyDictionary[Graph, dict[str, str]] = weakref.WeakKeyDictionary()
"""The names that people gave to values of a graph, by the ids of the values, where a run before has
brought them along: its cell does not give them."""


def carry(graph: Graph) -> None:
    """Lay beside ``graph`` what people laid beside the one that the running cell showed before:
    places, pins, folds, comments and drafts, each at what is the same now. Values that the cell
    gives no name keep the names that people gave them.

    A graph that has notes of its own keeps those.
    """
    cell, run = running_cell()
    last = _last(cell, run, graph.name) if cell else None
    old = last.alive if last is not None else None
    if last is None or old is None or old is graph:
        return
    names = _names_by_hand(old, is_edited=old.log.revision != last.revision)
    has_notes = bool(old.function.notes) and not graph.function.notes
    if not names and not has_notes:
        return
    ids = match_nodes(take(old).document, take(graph).document)
    values = _values(old.function, graph.function, ids)
    if names:
        _name(graph, {values[id]: name for id, name in names.items() if id in values})
    if has_notes:
        _lay(old, graph, {**ids, **_ends(old.function, graph.function)}, values)


def _lay(old: Graph, graph: Graph, keys: dict[str, str], values: dict[str, str]) -> None:
    """Lay beside ``graph`` what lies beside ``old``, at what ``keys`` and ``values`` say."""
    editor = Editor(graph)
    document = old.document
    scopes = {f"box:{path}" for path in _scopes(graph.function)}
    keys |= {key: key for key in document.places if key in scopes}
    with editor.step():
        drafts = list(document.drafts)
        for draft in drafts:
            keys[draft.id] = editor.draft(draft.name, (), draft.reason, draft.attrs)
        for draft in drafts:  # one may read another, whichever was made first
            operands = [_operand(one, keys, values) for one in draft.operands]
            editor.set_draft(keys[draft.id], operands=operands)
        places = document.places.items()
        editor.place_all({keys[key]: place for key, place in places if key in keys})
        for path, is_folded in document.folds.items():
            editor.fold(path, is_folded)
        for comment in document.comments:
            editor.comment(comment.text, keys.get(comment.on, ""), comment.x, comment.y)


def _operand(value: str | None, keys: Mapping[str, str], values: Mapping[str, str]) -> str | None:
    """The counterpart now of the operand ``value`` of a draft; None where that is gone."""
    if value is None or value in values:
        return values.get(value or "")
    draft, number = maker_of(value)
    return result_id(keys[draft], number) if draft in keys else None


def _scopes(function: Function) -> Iterator[str]:
    """The paths of all scopes."""
    for scope in {op.scope for op in function.walk()}:
        parts = scope.split(".")
        yield from (".".join(parts[: n + 1]) for n in range(len(parts)))


def _values(old: Function, new: Function, ids: Mapping[str, str]) -> dict[str, str]:
    """The ids of values in ``new``, by those that they had."""
    pairs = {one.id: other.id for one, other in zip(old.inputs, new.inputs, strict=False)}
    after = {op.id: op for op in new.ops}
    for op in old.ops:
        other = after.get(ids.get(op.id, ""))
        if other is not None:
            same = zip(op.results, other.results, strict=False)
            pairs |= {value.id: twin.id for value, twin in same}
    return pairs


def _names_by_hand(graph: Graph, is_edited: bool) -> dict[str, str]:
    """The names that people gave to values of ``graph``, by the ids of the values."""
    known = {value.id: value.name for value in graph.function.inputs}
    known |= {value.id: value.name for op in graph.function.ops for value in op.results}
    found = {id: name for id, name in _named.get(graph, {}).items() if known.get(id) == name}
    if is_edited:
        try:
            base = base_of(graph)
        except CodeError:  # code has changed it, too: nobody knows what people did
            return found
        were = {value.id: value.name for value in base.inputs}
        were |= {value.id: value.name for op in base.ops for value in op.results}
        found |= {id: name for id, name in known.items() if name and were.get(id, name) != name}
    return found


def _name(graph: Graph, names: Mapping[str, str]) -> None:
    """Give values their names, unless code gave them others."""
    function = graph.function
    values = [value for op in function.ops for value in op.results if not value.name]
    values += [value for n, value in enumerate(function.inputs) if value.name == f"input{n}"]
    editor = Editor(graph)
    with editor.step():
        for value in values:
            if value.id in names:
                editor.rename(value.id, names[value.id])
    _named[graph] = dict(names)


def _ends(old: Function, new: Function) -> dict[str, str]:
    """The keys of inputs and outputs, by those that they had."""
    pairs = {
        f"in:{one.id}": f"in:{other.id}" for one, other in zip(old.inputs, new.inputs, strict=False)
    }
    if old.output is not None and new.output is not None:
        for one, other in zip(old.output.operands, new.output.operands, strict=False):
            pairs[f"out:{one.id}"] = f"out:{other.id}"
    return pairs


def marks_in_cell(
    document: protocol.GraphDocument, graph: object = None, view: Selecting | None = None
) -> protocol.Marks | None:
    """Changes in ``document`` since the cell that is running ran before; None in its first run, and
    outside of a notebook. The graph is remembered for the next run.

    Args:
        document: What is shown.
        graph: The graph that it is of; one that was edited by hand counts as it was last.
        view: What shows it: it selects what was selected in the view before.
    """
    cell, run = running_cell()
    if not cell:
        return None
    name = document["name"]
    last = _last(cell, run, name)
    key = (cell, name)
    shown = _cells.pop(key, None) or _Shown(run)
    if shown.run != run:
        shown.run, shown.before, shown.now = run, shown.now, []
    _cells[key] = shown
    while len(_cells) > RECENT:
        _cells.popitem(last=False)
    for old_shown in list(_cells.values())[:-DRAWN]:
        for old_run in (*old_shown.now, *old_shown.before):
            old_run.document = None
    is_drawn = len(document["nodes"]) <= MOST_DRAWN
    made = _Run(parts_of(document), document if is_drawn else None)
    if isinstance(graph, Graph):
        made.graph, made.revision = weakref.ref(graph), graph.log.revision
    if view is not None:
        made.view = weakref.ref(view)
    shown.now.append(made)
    if last is None:
        return None
    old = last.alive
    before = last.parts
    is_edited = old is not None and old.log.revision != last.revision
    if old is not None and is_edited:
        before = parts_of(take(old).document)
    found = marks(document, before)
    if isinstance(graph, Graph) and old is not graph:
        says = _says(cell, graph, old if is_edited else None)
        if says:
            found["says"] = says
    _select(last, before, document, view)
    return found


def run_before(graph: Graph) -> protocol.GraphDocument:
    """The document that the cell that showed ``graph`` showed in its run before.

    Raises:
        ArgumentError: ML887, no cell has shown the graph, or it has not run before, or what it
            showed is not remembered.
    """
    for shown in reversed(_cells.values()):
        for runs, others in ((shown.now, shown.before), (shown.before, [])):
            for number, run in enumerate(runs):
                if run.alive is not graph:
                    continue
                if number >= len(others):
                    raise _unknown(graph, "the cell that showed it has not run before")
                before = others[number]
                alive = before.alive
                if alive is not None and alive is not graph:
                    return take(alive).document  # as it was edited since
                if before.document is None:
                    raise _unknown(graph, "too much has been shown since its cell ran before")
                return before.document
    raise _unknown(graph, "no cell has shown it")


def _unknown(graph: Graph, why: str) -> ArgumentError:
    return ArgumentError(
        "ML887",
        f"there is no run before to compare the graph {graph.name!r} with: {why}",
        fix="run the cell whose last line shows the graph, change it and run it again; or give "
        "both graphs: maxlab.diff(before, after)",
    )


def _says(cell: str, graph: Graph, edited: Graph | None) -> str:
    """Says how edits by hand came through."""
    wanted = expected(cell, graph.name)
    if wanted is not None:
        if are_equal(wanted, graph.function):
            return "the cell builds the graph that was edited"
        return "the cell builds another graph than the one that was written to it"
    if edited is not None and not are_equal(edited.function, graph.function):
        return "edits by hand of the run before are not in the cell"
    return ""


def _select(
    last: _Run, before: Sequence[Part], document: protocol.GraphDocument, view: Selecting | None
) -> None:
    """Let ``view`` select what was selected in the run before."""
    old = last.view() if last.view is not None else None
    graph = last.alive
    if old is None or view is None or graph is None or not old.selection or view.selection:
        return
    ids = match_nodes(take(graph).document, document)
    view.selection = [ids[one] for one in old.selection if one in ids]
