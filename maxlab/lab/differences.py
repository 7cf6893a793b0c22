"""The difference between two documents, so that a view gets what changed and no more.

In: two documents as JSON. Out: a ``Difference`` that makes the second from the first, byte for byte
as JSON. Entries are compared by their ids; an entry that is the same object in both costs nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from maxlab.analysis.runs.aligned import rising
from maxlab.lab import protocol

LISTS = {
    "nodes": ("node", "id"),
    "values": ("value", "id"),
    "scopes": ("scope", "path"),
    "places": ("place", "key"),
}
"""The lists of a document whose entries are sent one by one: the name of one, and of its id."""

REPLACED = ("name", "inputs", "outputs", "kernels", "passes", "profile", "error")
"""The fields that are sent whole when they changed."""

OPTIONAL = ("answers", "overlays", "panel", "beside", "folds", "comments", "drafts", "conflicts")
"""The fields that a document may lack, and that are sent whole when they changed."""


def difference(
    old: protocol.GraphDocument, new: protocol.GraphDocument
) -> protocol.Difference | None:
    """The changes that make ``new`` from ``old``; None where only the whole document can: the
    version differs, or a field that ``old`` has is missing in ``new``.

    Example:
        >>> from maxlab.dtype import DType
        >>> from maxlab.graph import Graph, TensorType, ops
        >>> from maxlab.lab.snapshot import take
        >>> with Graph("grown", input_types=[TensorType(DType.float32, ["n"])]) as graph:
        ...     double = graph.inputs[0].tensor * 2
        >>> before = take(graph).document
        >>> with graph:
        ...     _ = ops.tanh(double)
        >>> made = difference(before, take(graph).document)
        >>> [(one["before"], one["node"]["op"]) for one in made["nodes"]["added"]]
        [(None, 'tanh')]
    """
    before: Mapping[str, Any] = cast("Mapping[str, Any]", old)
    after: Mapping[str, Any] = cast("Mapping[str, Any]", new)
    if old["version"] != new["version"] or any(
        name in before and name not in after for name in (*OPTIONAL, "places")
    ):
        return None
    made: dict[str, Any] = {"revision": new["revision"]}
    for name, (entry, key) in LISTS.items():
        changed = _changed(before.get(name, ()), after.get(name, ()), entry, key)
        if changed is not None:
            made[name] = changed
    for name in (*REPLACED, *(name for name in OPTIONAL if name in after)):
        if name not in before or before[name] != after[name]:
            made[name] = after[name]
    return cast("protocol.Difference", made)


def applied(
    document: protocol.GraphDocument, change: protocol.Difference
) -> protocol.GraphDocument:
    """``document`` after ``change``; entries that stay are shared with ``document``.

    Raises:
        KeyError: ``change`` names an entry that ``document`` does not have.
    """
    given: Mapping[str, Any] = cast("Mapping[str, Any]", change)
    made: dict[str, Any] = {**document}
    for name, value in given.items():
        listed = LISTS.get(name)
        made[name] = value if listed is None else _listed(made.get(name, ()), value, *listed)
    return cast("protocol.GraphDocument", made)


def _changed(
    old: Sequence[dict[str, Any]], new: Sequence[dict[str, Any]], entry: str, key: str
) -> dict[str, Any] | None:
    """The changes of a list; None when there are none."""
    known = {one[key]: place for place, one in enumerate(old)}
    places = [known.get(one[key], -1) for one in new]
    stays = rising(places)
    changed, added = [], []
    before: str | None = None
    for n in range(len(new) - 1, -1, -1):
        one = new[n]
        if not stays[n]:
            added.append({"before": before, entry: one})
            continue
        before = one[key]
        was = old[places[n]]
        if was is not one and was != one:
            changed.append(one)
    kept = {place for place, stay in zip(places, stays, strict=True) if stay}
    removed = [one[key] for place, one in enumerate(old) if place not in kept]
    if not (removed or changed or added):
        return None
    return {"removed": removed, "changed": changed[::-1], "added": added[::-1]}


def _listed(
    old: Sequence[dict[str, Any]], change: Mapping[str, Any], entry: str, key: str
) -> list[dict[str, Any]]:
    """The list ``old`` after ``change``."""
    gone = set(change["removed"])
    replaced = {one[key]: one for one in change["changed"]}
    before: dict[str | None, list[dict[str, Any]]] = {}
    for added in change["added"]:
        before.setdefault(added["before"], []).append(added[entry])
    made: list[dict[str, Any]] = []
    for one in old:
        name = one[key]
        if name in gone:
            gone.discard(name)
            continue
        made += before.pop(name, ())
        made.append(replaced.pop(name, one))
    made += before.pop(None, ())
    for missing in (*gone, *replaced, *before):
        raise KeyError(missing)
    return made
