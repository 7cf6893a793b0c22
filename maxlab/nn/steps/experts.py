"""The load of experts: the tokens that each got in a step, a row for each layer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from maxlab.graph.sharding import share
from maxlab.markup import escape
from maxlab.nn.steps.drawing import HUES, card, label, rect, svg
from maxlab.tabular import Field, Tabular, aligned

Array = np.ndarray[Any, Any]
MOST_EXPERTS = 64
"""Of more experts of a layer, those with most tokens are drawn."""
_WIDTH, _BAR, _TEXT = 560, 44, 15


@dataclass(frozen=True, eq=False)
class SentTokens:
    """The way of the tokens of a layer to their experts on other devices, in a step.

    Attributes:
        vectors: How many vectors each device sent to the experts of each, int64 ``[devices,
            devices]``: a row for each device with tokens, a column for each with experts. Those on
            the diagonal stay where they are.
        dispatch_bytes: The bytes of one on its way to an expert.
        combine_bytes: The bytes of a result on its way back.

    Example:
        >>> sent = SentTokens(np.array([[3, 1], [2, 0]]), 68, 64)
        >>> sent.by_device.tolist(), sent.dispatched, sent.combined
        ([5, 1], 204, 192)
    """

    vectors: Array
    dispatch_bytes: int
    combine_bytes: int

    @property
    def by_device(self) -> Array:
        """How many vectors the experts of each device got, int64 ``[devices]``."""
        found: Array = self.vectors.sum(axis=0)
        return found

    @property
    def dispatched(self) -> int:
        """The bytes that went from one device to another, to experts."""
        return self._moved * self.dispatch_bytes

    @property
    def combined(self) -> int:
        """The bytes that came back from experts on other devices."""
        return self._moved * self.combine_bytes

    @property
    def _moved(self) -> int:
        return int(self.vectors.sum() - np.trace(self.vectors))

    def device_of(self, expert: int, experts: int) -> int:
        """The device that has an expert.

        Args:
            expert: The number of the expert.
            experts: How many there are.
        """
        many = len(self.vectors)
        return next(n for n in range(many) if expert < share(experts, n, many)[1])

    def __str__(self) -> str:
        counts = ", ".join(f"device {n} {count}" for n, count in enumerate(self.by_device))
        return (
            f"vectors by device: {counts}; {self.dispatched} bytes dispatched to other devices, "
            f"{self.combined} bytes combined"
        )


class SeenExperts(Tabular):
    """The tokens that experts got in a step. As the last value of a cell it is a row of bars for
    each layer; ``to_dataframe()`` has a row for each expert, with its device where tokens were sent
    to several.

    Args:
        counts: The tokens of each expert, int64 ``[experts]``, by the path of the layer.
        sent: What devices sent to each other, by the path of the layer; of layers on one device
            nothing.

    Attributes:
        counts: As above.
        sent: As above.

    Example:
        >>> seen = SeenExperts({"layers.0.mlp": np.array([6, 1, 0, 1])})
        >>> seen.imbalance("layers.0.mlp")
        3.0
    """

    def __init__(
        self, counts: Mapping[str, Array], sent: Mapping[str, SentTokens] | None = None
    ) -> None:
        self.counts = dict(counts)
        self.sent = dict(sent or {})

    def imbalance(self, layer: str) -> float:
        """The tokens of the busiest expert of a layer, in multiples of the mean; 0 without tokens.

        Args:
            layer: The path of the layer.
        """
        counts = self.counts[layer]
        return float(counts.max() / counts.mean()) if counts.sum() else 0.0

    def _heads(self) -> Sequence[str]:
        heads = ("layer", "expert", "tokens")
        return (*heads, "device") if self.sent else heads

    def _records(self) -> Iterable[Sequence[Field]]:
        for layer, counts in self.counts.items():
            sent = self.sent.get(layer)
            for expert, count in enumerate(counts):
                row = (layer, expert, int(count))
                place = None if sent is None else sent.device_of(expert, len(counts))
                yield (*row, place) if self.sent else row

    def _told(self, layer: str) -> str:
        counts = self.counts[layer]
        busiest, idle = int(counts.argmax()), int((counts == 0).sum())
        return (
            f"expert {busiest} has most, {int(counts[busiest])} of {int(counts.sum())}, "
            f"{self.imbalance(layer):.2f} times the mean; {idle} of {len(counts)} have none"
        )

    def __repr__(self) -> str:
        lines = ["SeenExperts: tokens by expert"]
        for layer, counts in self.counts.items():
            lines.append(f"{layer or 'the layer'}: {self._told(layer)}")
            order = np.argsort(-counts, kind="stable")[:10]
            most = max(int(counts.max()), 1)
            rows = [
                (
                    f"  expert {expert}",
                    str(int(counts[expert])),
                    "#" * int(20 * counts[expert] / most),
                )
                for expert in order
                if counts[expert]
            ]
            lines += aligned(rows, right=(1,)) if rows else ["  no tokens"]
            if layer in self.sent:
                lines.append(f"  {self.sent[layer]}")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        parts = [self._layer(layer) for layer in self.counts]
        return card("Tokens by expert", "".join(parts))

    def _layer(self, layer: str) -> str:
        counts = self.counts[layer]
        order = np.arange(len(counts))
        note = ""
        if len(counts) > MOST_EXPERTS:
            order = np.sort(np.argsort(-counts, kind="stable")[:MOST_EXPERTS])
            note = f" The {MOST_EXPERTS} experts with most tokens are drawn."
        step = min(_WIDTH / max(len(order), 1), 60)
        most, mean = max(int(counts.max()), 1), float(counts.mean())
        shapes = []
        for place, expert in enumerate(order):
            count = int(counts[expert])
            high = _BAR * count / most
            title = f"expert {expert}: {count} tokens"
            x = place * step
            shapes.append(
                rect(x, 4 + _BAR - high, step - 3, high, "#4c78a8", 0.75, title)
                if count
                else rect(x, 4 + _BAR - 4, step - 3, 4, "none", 0, title, "1 2")
            )
            if step >= 20:
                shapes.append(label(x + (step - 3) / 2, 4 + _BAR + _TEXT - 3, expert))
        y = 4 + _BAR * (1 - mean / most)
        width = int(step * len(order))
        shapes.append(
            f'<line x1="0" x2="{width}" y1="{y:.1f}" y2="{y:.1f}" stroke="currentColor" '
            f'stroke-dasharray="4 3"><title>mean: {mean:.1f} tokens</title></line>'
        )
        name = escape(layer or "the layer")
        picture = svg(width, _BAR + _TEXT + 6, f"{layer}: {self._told(layer)}", "".join(shapes))
        return (
            f"<section><h4>{name}</h4>{picture}<p>{escape(self._told(layer))}. The dashed line is "
            f"the mean.{note}</p>{self._devices(layer)}</section>"
        )

    def _devices(self, layer: str) -> str:
        """A row of bars, one for each device that has experts of a layer."""
        sent = self.sent.get(layer)
        if sent is None:
            return ""
        counts = sent.by_device
        step, most = min(_WIDTH / len(counts), 60), max(int(counts.max()), 1)
        shapes = []
        for device, count in enumerate(counts):
            high, x = _BAR * int(count) / most, device * step
            title = f"device {device}: {int(count)} vectors"
            shapes.append(rect(x, 4 + _BAR - high, step - 3, high, HUES[0], 0.75, title))
            shapes.append(label(x + (step - 3) / 2, 4 + _BAR + _TEXT - 3, device))
        said = str(sent)
        picture = svg(step * len(counts), _BAR + _TEXT + 6, f"{layer}: {said}", "".join(shapes))
        return f"{picture}<p>{escape(said[0].upper() + said[1:])}.</p>"


__all__ = ["SeenExperts", "SentTokens"]
