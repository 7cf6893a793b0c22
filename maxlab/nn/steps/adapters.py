"""The adapters of a batch: which rows use which."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from maxlab.markup import escape
from maxlab.nn.steps.drawing import HUES, card, label, rect, svg
from maxlab.tabular import Field, Tabular, aligned

Array = np.ndarray[Any, Any]
_WIDTH, _HIGH = 460, 26


class SeenAdapters(Tabular):
    """The adapters of the rows of a batch. As the last value of a cell it is a bar whose parts are
    groups of rows; ``to_dataframe()`` has a row for each group.

    Args:
        ids: The slot of the adapter of each group, int64 ``[groups]``; -1 is the base.
        ranks: The rank of each, int64 ``[groups]``.
        offsets: Where groups begin, and the end of the last one, int64 ``[groups + 1]``.
        layers: The number of layers with adapters.
        names: The names of adapters, by slot; slots that are not there have none.

    Attributes:
        ids: As above.
        ranks: As above.
        offsets: As above.
        layers: As above.
        names: As above.

    Example:
        >>> seen = SeenAdapters(np.array([0, -1]), np.array([4, 0]), np.array([0, 3, 5]), 7)
        >>> seen.rows()
        {0: 3, -1: 2}
    """

    def __init__(
        self,
        ids: Array,
        ranks: Array,
        offsets: Array,
        layers: int,
        names: dict[int, str] | None = None,
    ) -> None:
        self.ids, self.ranks, self.offsets, self.layers = ids, ranks, offsets, layers
        self.names = names or {}

    def rows(self) -> dict[int, int]:
        """The number of rows of each slot, -1 for the base, in the order of the batch."""
        found: dict[int, int] = {}
        for slot, size in zip(self.ids.tolist(), np.diff(self.offsets).tolist(), strict=True):
            found[slot] = found.get(slot, 0) + size
        return found

    def _name(self, slot: int) -> str:
        return "the base" if slot < 0 else self.names.get(slot, f"slot {slot}")

    def _heads(self) -> Sequence[str]:
        return ("group", "slot", "adapter", "rank", "first row", "rows")

    def _records(self) -> Iterable[Sequence[Field]]:
        for group, slot in enumerate(self.ids.tolist()):
            first, end = int(self.offsets[group]), int(self.offsets[group + 1])
            yield group, slot, self._name(slot), int(self.ranks[group]), first, end - first

    def _told(self) -> str:
        total = int(self.offsets[-1]) if len(self.offsets) else 0
        own = sum(size for slot, size in self.rows().items() if slot >= 0)
        kinds = len([slot for slot in self.rows() if slot >= 0])
        return (
            f"{own} of {total} rows use {kinds} {'adapter' if kinds == 1 else 'adapters'}, "
            f"in {self.layers} {'layer' if self.layers == 1 else 'layers'}"
        )

    def __repr__(self) -> str:
        rows = [("slot", "adapter", "rank", "rows")]
        ranks = dict(zip(self.ids.tolist(), self.ranks.tolist(), strict=True))
        rows += [
            (str(slot), self._name(slot), str(ranks[slot]), str(size))
            for slot, size in self.rows().items()
        ]
        return "\n".join([f"SeenAdapters: {self._told()}", *aligned(rows, right=(0, 2, 3))])

    def _repr_html_(self) -> str:
        total = max(int(self.offsets[-1]) if len(self.offsets) else 0, 1)
        shapes, slots = [], list(self.rows())
        for _, slot, name, rank, first, count in self._records():
            assert isinstance(slot, int)
            x, wide = int(first or 0) * _WIDTH / total, int(count or 0) * _WIDTH / total
            hue = "none" if slot < 0 else HUES[slots.index(slot) % len(HUES)]
            title = f"{name}, rank {rank}: {count} rows from row {first} on"
            dashes = "2 2" if slot < 0 else ""
            shapes.append(rect(x, 2, max(wide - 2, 1), _HIGH, hue, 0.5, title, dashes))
            text = str(name)
            if wide > 7 * len(text):
                shapes.append(label(x + wide / 2, _HIGH / 2 + 6, text, size=12))
        ranks = dict(zip(self.ids.tolist(), self.ranks.tolist(), strict=True))
        listed = "".join(
            f"<li>{escape(self._name(slot))}: {size} rows"
            f"{'' if slot < 0 else f', rank {ranks[slot]}'}</li>"
            for slot, size in self.rows().items()
        )
        picture = svg(_WIDTH, _HIGH + 6, self._told(), "".join(shapes))
        return card(
            "Adapters in the batch",
            f"<section>{picture}<p>{escape(self._told())}. Rows of the base have no fill.</p>"
            f"<ul>{listed}</ul></section>",
        )


__all__ = ["SeenAdapters"]
