"""The pages that attention read in a step: a row for each sequence, with those shared and those
that hold numbers that were never written."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from maxlab.nn.kv_cache import page_table_showing
from maxlab.nn.steps.packing import packed, unpacked
from maxlab.tabular import Field, Tabular, aligned

Array = np.ndarray[Any, Any]
STATES = {
    "poisoned": "a key that was read there is NaN: never written, or computed so",
    "shared": "read by several sequences of the batch",
    "prefix": "full, of one sequence",
    "own": "the last one of a sequence, which new tokens are written into",
}
"""The states of a page that was read, and what they mean."""


class SeenPages(Tabular):
    """The pages that a step read, as its own lookup table and lengths say. As the last value of a
    cell it is a picture; ``to_dataframe()`` has a row for each page of each sequence.

    Args:
        table: The pages of each sequence, uint32 ``[batch, most]``; entries that are no pages are
            those from ``total`` on.
        cached: The tokens of each sequence before the step, int64 ``[batch]``.
        new: The tokens that the step added, int64 ``[batch]``.
        page_size: The tokens of a page.
        total: The number of pages.
        poisoned: The pages in which a key that was read is NaN, by the path of the layer.
        names: The names of the sequences; none where they are not known.
        counters: What the cache did so far, by name, where a manager was told.

    Attributes:
        table: As above.
        cached: As above.
        new: As above.
        page_size: As above.
        total: As above.
        poisoned: As above.
        names: As above.
        counters: As above.
    """

    def __init__(
        self,
        table: Array,
        cached: Array,
        new: Array,
        page_size: int,
        total: int,
        poisoned: dict[str, list[int]] | None = None,
        names: Sequence[str] = (),
        counters: dict[str, int] | None = None,
    ) -> None:
        self.table, self.cached, self.new = table, cached, new
        self.page_size, self.total = page_size, total
        self.poisoned = poisoned or {}
        self.names = list(names) or [f"sequence {number}" for number in range(len(table))]
        self.counters = counters or {}

    def pages(self, sequence: int) -> list[int]:
        """The numbers of the pages that hold the tokens of a sequence.

        Args:
            sequence: Its number in the batch.
        """
        tokens = int(self.cached[sequence] + self.new[sequence])
        return [int(page) for page in self.table[sequence, : -(-tokens // self.page_size)]]

    def states(self) -> list[list[tuple[int, str]]]:
        """The pages of each sequence, with their states, keys of `STATES`."""
        bad = {page for pages in self.poisoned.values() for page in pages}
        rows = [self.pages(sequence) for sequence in range(len(self.table))]
        users: dict[int, int] = {}
        for row in rows:
            for page in set(row):
                users[page] = users.get(page, 0) + 1
        made = []
        for number, row in enumerate(rows):
            tokens = int(self.cached[number] + self.new[number])
            found = []
            for place, page in enumerate(row):
                if page in bad:
                    state = "poisoned"
                elif users[page] > 1:
                    state = "shared"
                else:
                    state = "prefix" if (place + 1) * self.page_size <= tokens else "own"
                found.append((page, state))
            made.append(found)
        return made

    def _heads(self) -> Sequence[str]:
        return ("sequence", "place", "page", "state", "tokens")

    def _records(self) -> Iterable[Sequence[Field]]:
        for number, row in enumerate(self.states()):
            tokens = int(self.cached[number] + self.new[number])
            for place, (page, state) in enumerate(row):
                held = min(tokens - place * self.page_size, self.page_size)
                yield self.names[number], place, page, state, held

    def _title(self) -> str:
        read = {page for row in self.states() for page, _ in row}
        return (
            f"{len(read)} of {self.total} pages of {self.page_size} tokens read by "
            f"{len(self.table)} {'sequence' if len(self.table) == 1 else 'sequences'}"
        )

    def _counts(self) -> list[tuple[str, int, str]]:
        found = {page: state for row in self.states() for page, state in row}
        return [
            (state, sum(one == state for one in found.values()), said)
            for state, said in STATES.items()
        ]

    def _notes(self) -> list[str]:
        notes = [
            f"{layer or 'attention'} read NaN in "
            f"{'page' if len(pages) == 1 else 'pages'} {', '.join(map(str, pages))}"
            for layer, pages in self.poisoned.items()
            if pages
        ]
        if self.counters:
            counted = self.counters
            prompt = counted.get("cache_tokens", 0) + counted.get("input_tokens", 0)
            found = f"{counted.get('cache_tokens', 0)} of {prompt} tokens of prompts"
            notes += [
                f"{found} were found in shared pages so far",
                f"pages evicted so far: {counted.get('evictions', 0)}",
            ]
        return notes

    def _lines(self) -> list[page_table_showing.Line]:
        return [
            page_table_showing.Line(
                self.names[number],
                f"{int(self.cached[number])} tokens cached, {int(self.new[number])} new",
                row,
            )
            for number, row in enumerate(self.states())
        ]

    def __repr__(self) -> str:
        rows = [("sequence", "cached", "new", "pages")]
        short = {"poisoned": "!", "shared": "=", "prefix": "", "own": "+"}
        for number, row in enumerate(self.states()):
            told = " ".join(f"{page}{short[state]}" for page, state in row)
            one, more = int(self.cached[number]), int(self.new[number])
            rows.append((self.names[number], str(one), str(more), told))
        return "\n".join(
            [
                f"SeenPages: {self._title()}",
                *aligned(rows, right=(1, 2)),
                "= shared, + written into, ! poisoned",
                *self._notes(),
            ]
        )

    def _repr_html_(self) -> str:
        return page_table_showing.page(self._title(), self._lines(), self._counts(), self._notes())

    # ------------------------------------------------------------ as JSON
    def data(self) -> dict[str, Any]:
        """It as values of JSON, without the pages that are poisoned."""
        return {
            "table": packed(self.table),
            "cached": packed(self.cached),
            "new": packed(self.new),
            "page_size": self.page_size,
            "total": self.total,
            "names": self.names,
            "counters": self.counters,
        }

    @classmethod
    def of(cls, data: dict[str, Any], poisoned: dict[str, list[int]]) -> SeenPages:
        """The pages that `data` told.

        Args:
            data: The values.
            poisoned: The pages in which a key is NaN, by the path of the layer.

        Raises:
            ValueError: They are not such values.
        """
        table = unpacked(data.get("table"), "u", 2)
        cached, new = (unpacked(data.get(name), "i", 1) for name in ("cached", "new"))
        page_size, total = data.get("page_size"), data.get("total")
        names, counters = data.get("names"), data.get("counters")
        if not len(table) == len(cached) == len(new) or (
            len(new) and min(cached.min(), new.min()) < 0
        ):
            raise ValueError("the lengths of sequences do not fit their pages")
        if type(page_size) is not int or page_size < 1 or type(total) is not int:
            raise ValueError("no size of pages")
        if not isinstance(names, list) or len(names) != len(table):
            raise ValueError("the names of sequences do not fit their pages")
        if not isinstance(counters, dict) or any(type(n) is not int for n in counters.values()):
            raise ValueError("no counters")
        return cls(
            table, cached, new, page_size, total, poisoned, [str(n) for n in names], counters
        )


__all__ = ["STATES", "SeenPages"]
