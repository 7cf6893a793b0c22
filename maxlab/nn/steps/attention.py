"""Attention of one layer in a step: the weight of each key, by head, and the keys that the mask
hides."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from maxlab.errors import ArgumentError, shown
from maxlab.markup import escape
from maxlab.nn.steps.drawing import card, label, rect, svg, wide
from maxlab.opset.attention import seen, slopes

Array = np.ndarray[Any, Any]
MOST_HEADS, MOST_KEYS = 32, 96
"""The most heads and keys that are drawn: the first heads, and the last keys."""
_CELL, _LEFT, _TOP = 15, 74, 18
_SHADES = " .:-=+*#%@"


@dataclass(frozen=True, eq=False, repr=False)
class SeenAttention:
    """The weights of attention of a layer in a step, of one sequence, for one query. As the last
    value of a cell it is a picture: a row for each head, a column for each key.

    Attributes:
        layer: The path of the layer.
        mask: The name of the mask, as of ``ops.cache_attention``.
        window: The keys of a window or of a chunk; 0 for other masks.
        weights: The weights of each sequence, float32 ``[heads, queries, keys]``. A query's sum to
            1, less what sinks take; keys that it does not see have 0.
        first: The position of the first query of each sequence that is kept.
        sequence: The sequence that is shown.
        query: The query that is shown, by its place among those that are kept.
    """

    layer: str
    mask: str
    window: int
    weights: tuple[Array, ...]
    first: tuple[int, ...]
    sequence: int = 0
    query: int = -1

    def at(self, sequence: int | None = None, query: int | None = None) -> SeenAttention:
        """The same, showing another query.

        Args:
            sequence: The number of the sequence in the batch; the same when left out.
            query: Its place among the queries that are kept, from behind when negative; the last
                one when left out.

        Raises:
            ArgumentError: ML473, there is no such sequence or query.
        """
        number = self.sequence if sequence is None else sequence
        place = -1 if query is None else query
        if not _is_place(number, len(self.weights)):
            raise _absent("sequence", number, len(self.weights), self.layer)
        kept = self.weights[number].shape[1]
        if not _is_place(place, kept):
            raise _absent("query", place, kept, self.layer)
        return replace(self, sequence=number % len(self.weights), query=place)

    @property
    def position(self) -> int:
        """The position of the query that is shown in its sequence."""
        kept = int(self.weights[self.sequence].shape[1])
        return self.first[self.sequence] + self.query % kept

    @property
    def by_head(self) -> Array:
        """The weights that are shown, float32 ``[heads, keys]``."""
        found: Array = self.weights[self.sequence][:, self.query]
        return found

    def entropy(self) -> Array:
        """How many bits the choice of a key has, of each head: 0 where one key has all the weight,
        log2 of the keys where all have the same; float64 ``[heads]``."""
        shares = self.by_head.astype(np.float64)
        total = shares.sum(1, keepdims=True)
        shares = np.divide(shares, total, out=np.zeros_like(shares), where=total > 0)
        logs = np.log2(shares, out=np.zeros_like(shares), where=shares > 0)
        made: Array = -(shares * logs).sum(1) + 0.0
        return made

    def allowed(self) -> Array:
        """Whether each kept query of the sequence sees a key, bool ``[queries, keys]``."""
        _, queries, keys = self.weights[self.sequence].shape
        made = np.zeros((queries, keys), np.bool_)
        for row in range(queries):
            begin, end = seen(self.mask, self.window, self.first[self.sequence] + row, keys)
            made[row, begin:end] = True
        return made

    # ------------------------------------------------------------ shown
    def _title(self) -> str:
        heads, _, keys = self.weights[self.sequence].shape
        return (
            f"{self.layer or 'attention'}: {heads} heads × {keys} keys, sequence {self.sequence}, "
            f"query at position {self.position}"
        )

    def _rule(self) -> str:
        return f"mask {self.mask}" + (f" of {self.window}" if self.window else "")

    def __repr__(self) -> str:
        weights, allowed = self.by_head[:MOST_HEADS], self.allowed()[self.query]
        first = max(weights.shape[1] - MOST_KEYS, 0)
        keys = f"keys {first} to {weights.shape[1] - 1}"
        lines = [
            f"SeenAttention: {self._title()}",
            f"{self._rule()}; {keys}, darker is more, | hidden by the mask",
        ]
        for head, (row, bits) in enumerate(zip(weights, self.entropy(), strict=False)):
            cells = (
                "|" if not ok else "!" if not np.isfinite(weight) else _shade(float(weight))
                for weight, ok in zip(row[first:], allowed[first:], strict=True)
            )
            lines.append(f"head {head:<3} [{''.join(cells)}] {bits:.2f} bits")
        more = self.by_head.shape[0] - len(weights)
        return "\n".join([*lines, *([f"… and {more} more heads"] if more else [])])

    def _repr_html_(self) -> str:
        return card(
            self._title(),
            f"<section>{self._heads()}<p>A row is a head, a column a key; more colour is more "
            "weight. Hatched keys are hidden from this query by the mask. Beside a row stand the "
            f"bits of its choice.{self._folded()}</p></section><section><h4>"
            f"{escape(self._rule())}: which keys each query sees</h4>{self._mask()}</section>",
        )

    def _columns(self) -> range:
        keys = self.weights[self.sequence].shape[2]
        return range(max(keys - MOST_KEYS, 0), keys)

    def _folded(self) -> str:
        heads, _, keys = self.weights[self.sequence].shape
        told = ""
        if keys > MOST_KEYS:
            told += f" The last {MOST_KEYS} of {keys} keys are drawn."
        if heads > MOST_HEADS:
            told += f" The first {MOST_HEADS} of {heads} heads are drawn."
        return told

    def _heads(self) -> str:
        columns, weights = self._columns(), self.by_head[:MOST_HEADS]
        allowed, bits = self.allowed()[self.query], self.entropy()
        shapes = [_ticks(columns)]
        for head, row in enumerate(weights):
            y = _TOP + head * _CELL
            shapes.append(label(_LEFT - 6, y + _CELL - 4, f"head {head}", "end"))
            shapes += [
                _hidden(y, run, columns, "hidden from the query by the mask")
                for run in _runs(~allowed, columns)
            ]
            cells = "".join(
                _cell(_LEFT + (key - columns[0]) * _CELL, y, head, key, float(row[key]))
                for key in columns
                if allowed[key]
            )
            shapes.append(f'<g fill="#e0701c" stroke="currentColor" stroke-width=".2">{cells}</g>')
            x = _LEFT + len(columns) * _CELL + 6
            shapes.append(label(x, y + _CELL - 4, f"{bits[head]:.2f}", "start"))
        width = _LEFT + len(columns) * _CELL + 44
        said = f"{self._title()}; the weights are numbers of by_head"
        return wide(said, svg(width, _TOP + len(weights) * _CELL + 4, said, "".join(shapes)))

    def _mask(self) -> str:
        columns, allowed = self._columns(), self.allowed()[-24:]
        skipped = self.weights[self.sequence].shape[1] - len(allowed)
        first = self.first[self.sequence] + skipped
        shapes = [_ticks(columns)]
        for number, row in enumerate(allowed):
            y = _TOP + number * _CELL
            is_shown = first + number == self.position
            mark = f"▸ {first + number}" if is_shown else str(first + number)
            shapes.append(label(_LEFT - 6, y + _CELL - 4, mark, "end"))
            name = f"query {first + number}"
            shapes += [
                _hidden(y, run, columns, f"{name} does not see {_keys(run)}")
                for run in _runs(~row, columns)
            ]
            shapes += [
                _visible(y, run, columns, f"{name} sees {_keys(run)}")
                for run in _runs(row, columns)
            ]
        said = f"{self._rule()}, {len(allowed)} queries × {len(columns)} keys"
        width, height = _LEFT + len(columns) * _CELL + 4, _TOP + len(allowed) * _CELL + 4
        return wide(said, svg(width, height, said, "".join(shapes)))


def _shade(weight: float) -> str:
    return _SHADES[min(max(int(weight * len(_SHADES)), 0), len(_SHADES) - 1)]


def _ticks(columns: range) -> str:
    """The numbers of keys above a grid."""
    return "".join(
        label(_LEFT + (key - columns[0]) * _CELL + _CELL / 2, _TOP - 5, key)
        for key in columns
        if key % 5 == 0
    )


def _keys(run: range) -> str:
    return f"key {run[0]}" if len(run) == 1 else f"keys {run[0]} to {run[-1]}"


def _runs(marks: Array, columns: range) -> list[range]:
    """The runs of neighbouring keys of ``columns`` that are marked."""
    runs: list[range] = []
    for key in columns:
        if marks[key]:
            runs[-1:] = (
                [range(runs[-1].start, key + 1)]
                if runs and runs[-1].stop == key
                else [*runs[-1:], range(key, key + 1)]
            )
    return runs


def _visible(y: float, run: range, columns: range, title: str) -> str:
    """A filled stretch of keys."""
    x, width = _LEFT + (run[0] - columns[0]) * _CELL, len(run) * _CELL - 1
    return rect(x, y, width, _CELL - 2, "currentColor", 0.55, title)


def _hidden(y: float, run: range, columns: range, title: str) -> str:
    """A hatched stretch of keys."""
    x, width, high = _LEFT + (run[0] - columns[0]) * _CELL, len(run) * _CELL - 1, _CELL - 2
    lines = "".join(
        f"M{x + n * _CELL:g} {y + high:g}L{x + (n + 1) * _CELL - 2:g} {y:g}"
        for n in range(len(run))
    )
    return (
        f'<path d="{lines}" stroke="currentColor" stroke-opacity=".4" stroke-width=".8"/>'
        + rect(x, y, width, high, "none", 0, title, "1 2", 0.3).replace(
            'fill="none"', 'fill="none" pointer-events="all"'
        )
    )


def _cell(x: float, y: float, head: int, key: int, weight: float) -> str:
    """The square of a key that the query sees."""
    title = f"<title>head {head}, key {key}: {weight:.4f}</title>"
    size = _CELL - 1
    place = f'x="{x:g}" y="{y:g}" width="{size}" height="{size - 1}"'
    if not np.isfinite(weight):
        return f'<rect {place} fill="#d62728">{title}</rect>' + label(
            x + size / 2, y + size - 3, "!"
        )
    return f'<rect {place} fill-opacity="{weight**0.6:.2g}">{title}</rect>'


def _is_place(value: object, count: int) -> bool:
    return (
        isinstance(value, (int, np.integer))
        and not isinstance(value, bool)
        and -count <= int(value) < count
    )


def _absent(name: str, value: object, count: int, layer: str) -> ArgumentError:
    return ArgumentError(
        "ML473",
        f"{layer}: there is no {name} {shown(value)}, {count} are recorded",
        fix=f"pass an int from 0 to {count - 1}" if count else "record a step with rows",
    )


def weights_of(
    q: Array,
    keys: Array,
    offsets: Array,
    lengths: Array,
    *,
    mask: str,
    window: int,
    scale: float,
    sinks: Array | None,
    most: int,
) -> tuple[list[Array], list[int]]:
    """The weights of each sequence, float32 ``[heads, queries, keys]``, and the position of the
    first query of each: those of the last ``most`` queries.

    Args:
        q: The queries, ``[tokens, heads, dim]``.
        keys: The keys of all pages of each sequence, ``[batch, places, heads of keys, dim]``.
        offsets: Where the rows of each sequence begin, ``[batch + 1]``.
        lengths: The tokens that were cached before, ``[batch]``.
        mask: The mask, as of ``ops.cache_attention``.
        window: The keys of a window or of a chunk.
        scale: The factor of products.
        sinks: A score of each head, ``[heads]``, or None.
        most: The most queries of a sequence.
    """
    made, firsts = [], []
    heads, group = q.shape[1], q.shape[1] // keys.shape[2]
    for number, cached in enumerate(lengths.tolist()):
        begin, end = int(offsets[number]), int(offsets[number + 1])
        total, kept = cached + end - begin, min(end - begin, most)
        first = total - kept
        own = np.repeat(keys[number, :total].astype(np.float64), group, axis=1)
        rows = q[end - kept : end].astype(np.float64)
        scores = np.einsum("qhd,khd->hqk", rows, own) * scale
        found = np.zeros((heads, kept, total), np.float32)
        for row in range(kept):
            low, high = seen(mask, window, first + row, total)
            if low >= high:
                continue
            part = scores[:, row, low:high]
            if mask == "alibi":
                part = part - np.outer(slopes(heads), first + row - np.arange(low, high))
            if sinks is not None:
                part = np.concatenate([part, sinks.astype(np.float64)[:, None]], axis=1)
            shares = np.exp(part - part.max(1, keepdims=True))
            shares /= shares.sum(1, keepdims=True)
            found[:, row, low:high] = shares[:, : high - low]
        made.append(found)
        firsts.append(first)
    return made, firsts


__all__ = ["SeenAttention", "weights_of"]
