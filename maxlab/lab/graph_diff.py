"""``GraphDiff``: what differs between two graphs, as text, as records and as a picture."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from maxlab.analysis.runs.shown import Recorded
from maxlab.lab import protocol
from maxlab.lab.contrasts import SIGNS, Contents, Difference, Side, differences_of, pairs_of
from maxlab.lab.united import united
from maxlab.tabular import Field, first_rows

MOST_LISTED = 2000
"""Differences that a view is given; it counts the others."""

MOST_UNITED = 40_000
"""Operations of both graphs together that are drawn in one picture."""


class GraphDiff(Recorded):
    """The differences between two graphs. ``maxlab.diff`` makes it.

    In a notebook both are drawn in one picture, what is in one of them alone beside what both have,
    or side by side, above a list of the differences. ``print`` shows them as text, and its truth is
    whether there is a difference.

    Attributes:
        differences: Each difference: its ``kind``, the id of the operation in each graph, its
            ``name``, ``scope`` and ``what`` changed, as plain JSON, in the order of the graphs.
        pairs: For operations of the first graph that are also in the second, the id they have
            there.
    """

    def __init__(
        self,
        before: protocol.GraphDocument,
        after: protocol.GraphDocument,
        labels: Sequence[str],
        contents: tuple[Contents, Contents] = ({}, {}),
    ) -> None:
        self.name = after["name"]
        self.labels = tuple(labels)
        sides = Side(before, contents[0]), Side(after, contents[1])
        self.pairs = pairs_of(*sides)
        self.differences = differences_of(*sides, self.pairs)
        listed = self.differences[:MOST_LISTED]
        beside: protocol.Beside = {
            "before": before,
            "labels": list(labels),
            "pairs": [[one, other] for one, other in self.pairs.items()],
            "differences": listed,
            "more": len(self.differences) - len(listed),
        }
        if len(before["nodes"]) + len(after["nodes"]) <= MOST_UNITED:
            beside["united"] = united(before, after, self.pairs)
        document: protocol.GraphDocument = {**after, "beside": beside}
        self.document = document

    @property
    def changes(self) -> list[Difference]:
        """The differences as records."""
        return [
            Difference(
                one["kind"],
                one["before"],
                one["after"],
                one["name"],
                one["scope"],
                tuple(one["what"]),
            )
            for one in self.differences
        ]

    def __bool__(self) -> bool:
        return bool(self.differences)

    def to_dict(self) -> dict[str, Any]:
        """It as plain JSON: what the two are called, how many differences of each kind there are,
        and each of them."""
        counts = Counter(one["kind"] for one in self.differences)
        return {
            "before": self.labels[0],
            "after": self.labels[1],
            "counts": {kind: counts[kind] for kind in SIGNS},
            "differences": [one.to_dict() for one in self.changes],
        }

    def _heads(self) -> Sequence[str]:
        return ("kind", "before", "after", "name", "scope", "what")

    def _records(self) -> Iterator[Sequence[Field]]:
        for one in self.differences:
            what = "; ".join(one["what"])
            yield one["kind"], one["before"], one["after"], one["name"], one["scope"], what

    def table(self, rows: int | None = 20) -> str:
        """The differences as text: how many there are, and each with where and what.

        Args:
            rows: How many to list; None lists all.
        """
        changes = self.changes
        shown = first_rows(changes, rows)
        lines = [f"{self.labels[0]} → {self.labels[1]}: {self._counted()}"]
        lines += map(str, shown)
        left = len(changes) - len(shown)
        return "\n".join([*lines, f"… {left} more"] if left else lines)

    def _counted(self) -> str:
        counts = Counter(one["kind"] for one in self.differences)
        told = [f"{counts[kind]} {kind}" for kind in SIGNS if counts[kind]]
        return ", ".join(told) or "no difference"

    def __str__(self) -> str:
        return self.table()

    def __repr__(self) -> str:
        return f"GraphDiff({' → '.join(self.labels)}: {self._counted()})"


__all__ = ["GraphDiff"]
