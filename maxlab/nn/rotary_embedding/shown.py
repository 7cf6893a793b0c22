"""Frequencies of a rotary embedding as a table: text, HTML, CSV and DataFrame."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from maxlab.markup import escape
from maxlab.nn.rotary_embedding.frequencies import Array
from maxlab.tabular import Field, Tabular, aligned

MOST = 16
"""The most pairs that text and HTML list."""


def _number(x: Field) -> str:
    """``x`` with four digits that count; all before the point where there are more."""
    return f"{x:,.0f}" if isinstance(x, float) and x >= 1000 else f"{x:.4g}"


class Frequencies(Tabular):
    """The frequencies of a rotary embedding, a row for each pair of dimensions.

    Attributes:
        title: The embedding, in words.
        per_token: Radians a token, float64 ``[head_dim / 2]``.
        plain: The same without scaling.
        stretched: For embeddings with two sets, those of positions from ``original`` on.
        original: The first position that the second set is for; None without one.
    """

    __slots__ = ("original", "per_token", "plain", "stretched", "title")

    def __init__(
        self,
        title: str,
        per_token: Array,
        plain: Array,
        stretched: Array | None = None,
        original: int | None = None,
    ) -> None:
        self.title = title
        self.per_token = per_token
        self.plain = plain
        self.stretched = stretched
        self.original = original

    def _heads(self) -> Sequence[str]:
        heads = ["pair", "wavelength [tokens]", "scaled by"]
        if self.stretched is not None:
            heads += ["long wavelength [tokens]", "long scaled by"]
        return heads

    def _records(self) -> Iterator[Sequence[Field]]:
        for pair in range(len(self.per_token)):
            yield self._record(pair)

    def _record(self, pair: int) -> list[Field]:
        row: list[Field] = [pair]
        sets = [self.per_token] if self.stretched is None else [self.per_token, self.stretched]
        for per_token in sets:
            row += [float(2 * math.pi / per_token[pair]), float(per_token[pair] / self.plain[pair])]
        return row

    def _listed(self, most: int) -> list[list[str]]:
        """The rows as texts: all, or ``most`` of them evenly over the pairs, first and last
        among them."""
        count = len(self.per_token)
        shown = range(count)
        numbers = list(shown)
        if count > most:
            numbers = sorted({round(n * (count - 1) / (most - 1)) for n in range(most)})
        rows = []
        for pair in numbers:
            record = self._record(pair)
            rows.append([str(record[0]), *map(_number, record[1:])])
        return rows

    @property
    def heading(self) -> str:
        """The title, and where the second set begins."""
        if self.original is None:
            return self.title
        return f"{self.title}; long: from position {self.original} on"

    def table(self, most: int = MOST) -> str:
        """It as text, with at most ``most`` of the pairs.

        Example:
            >>> from maxlab.nn.rotary_embedding import RotaryEmbedding
            >>> print(RotaryEmbedding(64, 16, 10000.0, 2048).frequencies.table())
            RotaryEmbedding(head_dim=4, n_heads=16, theta=10000, max_seq_len=2048, interleaved=True)
            pair  wavelength [tokens]  scaled by
               0                6.283          1
               1                628.3          1
        """
        cells = [list(self._heads()), *self._listed(max(most, 2))]
        return "\n".join([self.heading, *aligned(cells, right=range(len(cells[0])))])

    def __str__(self) -> str:
        return self.table()

    __repr__ = __str__

    def _repr_html_(self) -> str:
        from maxlab.compiler.plan_html import card, table

        count = len(self.per_token)
        rows = self._listed(MOST)
        what = f"{count} pairs" if len(rows) == count else f"{len(rows)} of {count} pairs"
        note = (
            f"<p>{what}. A pair of dimensions turns once in as many tokens as its wavelength; "
            "“scaled by” is its frequency over the unscaled one.</p>"
        )
        listing = table([escape(head) for head in self._heads()], rows)
        return card(
            [
                f"<header><b>{escape(self.heading)}</b></header>",
                f"<section>{note}{listing}</section>",
            ]
        )


__all__ = ["Frequencies"]
