"""The report of a quantised model: each of its products before and after."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from maxlab.analysis.quantizing.calibration import Difference
from maxlab.analysis.quantizing.products import Product
from maxlab.engine.profile import Profile
from maxlab.engine.times import size_text, time_text

HEADS = (
    "layer", "shape", "runs in", "error", "SNR", "cosine", "float", "now", "bytes", "bytes now",
)  # fmt: skip
"""The heads of the table that is shown."""


@dataclass(frozen=True, slots=True)
class Layer:
    """A product with weights, before and after.

    Attributes:
        name: Its name: that of its weight without ``.weight``, or of its scope or op.
        node: The id of the op that multiplies, the same in both graphs.
        depth: How many numbers each sum adds up.
        columns: Columns of the result.
        is_kept: Whether it stays in floats.
        error: The error of its result when it multiplies bytes, on the activations of the model in
            floats: the root of the sum of squares, as a fraction of that of the result. None
            without calibration data. Of a layer that is kept, what it would be.
        cosine: The cosine between the two results; None likewise.
        before_ns: Nanoseconds of its kernels in floats; None where no time was measured.
        after_ns: Nanoseconds of its kernels now; None likewise.
        before_bytes: Bytes of its weight in floats.
        after_bytes: Bytes of its weight and scales now.
    """

    name: str
    node: str
    depth: int
    columns: int
    is_kept: bool
    error: float | None
    cosine: float | None
    before_ns: float | None
    after_ns: float | None
    before_bytes: int
    after_bytes: int

    @property
    def snr_db(self) -> float | None:
        """The ratio of signal to noise in decibels; None without calibration data."""
        if self.error is None:
            return None
        return -20 * math.log10(self.error) if self.error else math.inf


def layers_of(
    found: Sequence[Product],
    kept: Iterable[str],
    errors: Mapping[str, Difference] | None,
    before: Profile | None,
    after: Profile | None,
) -> list[Layer]:
    """A row for each product of ``found``.

    Args:
        found: The products.
        kept: Names of those in floats.
        errors: The error of each, by name; None without calibration data.
        before: A profile of the model in floats; None when no time was measured.
        after: One of the quantised model.
    """
    names = frozenset(kept)
    old = _times(found, before) if before is not None else {}
    new = _times(found, after) if after is not None else {}
    rows = []
    for p in found:
        error = errors[p.name] if errors is not None else None
        is_kept = p.name in names
        rows.append(
            Layer(
                p.name,
                p.node,
                p.depth,
                p.columns,
                is_kept,
                None if error is None else error.relative,
                None if error is None else error.cosine,
                old.get(p.name),
                new.get(p.name),
                p.nbytes,
                p.nbytes if is_kept else p.work + 4 * p.columns,
            )
        )
    return rows


def _times(found: Sequence[Product], profile: Profile) -> dict[str, float]:
    """Nanoseconds of the kernels of each product; one that computes several is shared out by their
    work."""
    by_node = {p.node: p for p in found}
    spent = dict.fromkeys([p.name for p in found], 0.0)
    for kernel in profile.kernels:
        here = [by_node[node] for node in kernel.nodes if node in by_node]
        total = sum(p.work for p in here)
        for p in here:
            spent[p.name] += kernel.ns * p.work / total
    return spent


def cells_of(layer: Layer) -> tuple[str, ...]:
    """The cells of a row for ``layer``, under ``HEADS``."""
    return (
        layer.name,
        f"{layer.depth} × {layer.columns}",
        "float" if layer.is_kept else "int8",
        _percent(layer.error),
        "" if layer.snr_db is None else f"{layer.snr_db:.1f} dB",
        "" if layer.cosine is None else f"{layer.cosine:.6f}",
        "" if layer.before_ns is None else time_text(layer.before_ns),
        "" if layer.after_ns is None else time_text(layer.after_ns),
        size_text(layer.before_bytes),
        size_text(layer.after_bytes),
    )


def _percent(error: float | None) -> str:
    return "" if error is None else f"{100 * error:.2g} %"


def summary_of(
    name: str,
    layers: Sequence[Layer],
    outputs: Difference | None,
    walls: tuple[float, float] | None,
    activations: str,
    threads: int,
) -> str:
    """The sentence about a whole quantised model."""
    count = sum(not layer.is_kept for layer in layers)
    before = sum(layer.before_bytes for layer in layers)
    after = sum(layer.after_bytes for layer in layers)
    how = {"dynamic": "rounded row by row", "calibrated": "rounded by calibrated ranges"}
    parts = [
        f"{name}: {count} of {len(layers)} products multiply bytes",
        f"activations {how[activations]}",
        f"their weights {size_text(before)} → {size_text(after)}",
    ]
    if outputs is not None:
        parts.append(f"outputs {_percent(outputs.relative)} apart, cosine {outputs.cosine:.6f}")
    if walls is not None:
        parts.append(f"a run {time_text(walls[0])} → {time_text(walls[1])} with {threads} threads")
    return "; ".join(parts)


__all__ = ["HEADS", "Layer", "cells_of", "layers_of", "summary_of"]
