"""The time of a kernel that computes several operations, split among them by estimated work.

A clock sees kernels. What one operation of several takes is an estimate, made here alone and shown
with ``≈`` wherever it is shown: ``protocol.SPLIT_MODEL`` says how.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from maxlab.lab import protocol
from maxlab.lab.protocol.query import QUERY_ITEM_BYTES
from maxlab.lab.sizes import evaluated

_FLOPS_PER_BYTE = 16
"""Operations that take as long as one byte of traffic on a typical core."""


class Spent(NamedTuple):
    """The time that one operation takes of a run.

    Attributes:
        ns: Nanoseconds.
        is_split: True when part of them is an estimate: a kernel computes other operations too.
    """

    ns: float
    is_split: bool


class Splitter:
    """Splits the kernels of a document among its operations.

    Args:
        document: The document, with the operations, and the kernels that compute them.
        dims: The sizes of the run. A size that is not known counts as 1: better than nothing
            in a split.
    """

    def __init__(self, document: protocol.GraphDocument, dims: Mapping[str, int]) -> None:
        self._dims = dims
        self._nodes = {node["id"]: node for node in document["nodes"]}
        self._values = {value["id"]: value for value in document["values"]}
        self._outputs = frozenset(document["outputs"])
        self._read = {id for node in document["nodes"] for id in node["operands"]}
        self._work: dict[str, float] = {}

    def parts(self, ids: Sequence[str]) -> list[float]:
        """How much of a kernel's time each of the operations ``ids`` takes, from 0 to 1."""
        known = [self._nodes[id] for id in ids if id in self._nodes]
        shown = {node["id"] for node in known if not self._is_fixed(node)}
        shown = shown or {node["id"] for node in known}
        work = [self._of(id) if id in shown else 0.0 for id in ids]
        whole = sum(work)
        return [one / whole for one in work] if whole else [0.0 for _ in ids]

    def _is_fixed(self, node: protocol.Node) -> bool:
        """True for a weight or constant, which is drawn on what reads it and takes no time."""
        return (
            not node["operands"]
            and bool(node["results"])
            and all(
                self._values[id]["kind"] in ("weight", "constant")
                and id in self._read
                and id not in self._outputs
                for id in node["results"]
                if id in self._values
            )
        )

    def _of(self, id: str) -> float:
        found = self._work.get(id)
        if found is None:
            found = self._work[id] = self._estimated(self._nodes[id])
        return found

    def _estimated(self, node: protocol.Node) -> float:
        made = sum(self._nbytes(id) for id in node["results"])
        read = [self._nbytes(id) for id in node["operands"]]
        if node.get("family") in ("index", "view"):
            # A part of an operand may be all that is read: rows of a table, a slice.
            read = [min(one, made) for one in read]
        nbytes = evaluated(node.get("bytes"), self._dims) or made + sum(read)
        flops = evaluated(node.get("flops"), self._dims) or 0.0
        return max(nbytes, flops / _FLOPS_PER_BYTE, 1.0)

    def _nbytes(self, id: str) -> float:
        value = self._values.get(id)
        if value is None:
            return 0.0
        known = value.get("nbytes")
        if known is not None:
            return float(known)
        sizes = (evaluated(dim, self._dims) for dim in value["shape"])
        count = math.prod(1.0 if size is None else size for size in sizes)
        return count * QUERY_ITEM_BYTES.get(value["dtype"], 1)


def members_of(
    document: protocol.GraphDocument,
) -> Iterator[tuple[protocol.KernelProfile, list[tuple[str, float]]]]:
    """Each timed kernel of ``document``, with its operations and the part that each takes of it."""
    profile = document["profile"]
    nodes = {kernel["id"]: kernel["nodes"] for kernel in document["kernels"]}
    for timed in profile["kernels"] if profile is not None else []:
        ids = timed["nodes"] or nodes.get(timed["id"], [])
        parts = timed.get("parts")
        if parts is None or len(parts) != len(ids):
            parts = [1 / len(ids) for _ in ids]
        yield timed, list(zip(ids, parts, strict=True))


def time_of_operations(document: protocol.GraphDocument) -> dict[str, Spent]:
    """The time of each operation of ``document``, by its id; empty where nothing was timed."""
    found: dict[str, Spent] = {}
    for timed, members in members_of(document):
        is_split = sum(part > 0 for _, part in members) > 1
        for id, part in members:
            before = found.get(id, Spent(0.0, False))
            if part > 0:
                ns = before.ns + timed["ns"] * part
                found[id] = Spent(ns, before.is_split or is_split)
            else:
                found.setdefault(id, before)
    return found


__all__ = ["Spent", "Splitter", "members_of", "time_of_operations"]
