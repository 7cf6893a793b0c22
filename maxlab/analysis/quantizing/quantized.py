"""``Quantized``: a model whose products multiply bytes, and what that costs and saves."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from maxlab import progress, trace
from maxlab.analysis.quantizing.calibration import Difference, apart, loaded
from maxlab.analysis.quantizing.products import kept_names
from maxlab.analysis.quantizing.report import HEADS, Layer, cells_of, layers_of, summary_of
from maxlab.analysis.quantizing.rewriting import Source, quantised
from maxlab.analysis.quantizing.rounding import Range
from maxlab.driver import Tensor
from maxlab.engine import Model
from maxlab.engine.profile import Profile, measure_model
from maxlab.markup import table
from maxlab.tabular import Field, Tabular

Activations = Literal["dynamic", "calibrated"]


@dataclass(frozen=True)
class Measured:
    """All that does not depend on which layers are kept in floats.

    Attributes:
        model: The model in floats.
        source: Its graph and products.
        activations: How activations are rounded.
        samples: Calibration data; empty without.
        ranges: The range of each activation, by the name of its product; None when each row has its
            own.
        errors: The error of each product, by name; None without calibration data.
        runs: Timed runs of each model.
        before: A profile of the model in floats; None where no time was measured.
    """

    model: Model
    source: Source
    activations: Activations
    samples: Sequence[Sequence[Tensor]]
    ranges: Mapping[str, Range] | None
    errors: Mapping[str, Difference] | None
    runs: int
    before: Profile | None


class Quantized(Tabular):
    """A model whose products multiply bytes, with a report, layer by layer, of what that costs in
    accuracy, time and memory. ``maxlab.quantize`` makes it.

    It is called as the model, and shown in a notebook as a table.

    Attributes:
        model: The quantised model: it is run, profiled, drawn and saved as any other.
        layers: A ``Layer`` for each product with weights, in the order of the graph.
        activations: How activations are rounded: ``"dynamic"`` or ``"calibrated"``.
        outputs: How far the outputs are from those in floats on the calibration data, with
            ``relative``, ``cosine`` and ``snr_db``; None without calibration data.
        before_ns: Nanoseconds of a run in floats on the first item of the calibration data, the
            median; None where no time was measured.
        after_ns: The same of the quantised model.
    """

    def __init__(self, measured: Measured, keep: Iterable[str]) -> None:
        """The model that ``measured`` becomes with the products ``keep`` in floats.

        Raises:
            ArgumentError: ML242, a name in ``keep`` is that of no product.
        """
        self._measured = measured
        source, float_model = measured.source, measured.model
        self._keep = kept_names(source.products, keep)
        made = quantised(source, self._keep, measured.ranges)
        self.model: Model = loaded(float_model, made)
        self.activations = measured.activations
        samples = measured.samples
        self.outputs = apart(float_model, self.model, samples) if samples else None
        after = None
        if measured.before is not None:
            after = measure_model(self.model, samples[0], measured.runs, 1)
        self.before_ns = None if measured.before is None else measured.before.wall_ns
        self.after_ns = None if after is None else after.wall_ns
        self.layers: list[Layer] = layers_of(
            source.products, self._keep, measured.errors, measured.before, after
        )
        self._colour()

    def _colour(self) -> None:
        """Let views of the model colour it by what is known of each layer, the error first."""
        columns = {
            "time in float": ("µs", {x.node: x.before_ns for x in self.layers}, 1e-3),
            "time in int8": ("µs", {x.node: x.after_ns for x in self.layers}, 1e-3),
            "int8 error": ("%", {x.node: x.error for x in self.layers}, 100.0),
        }
        for title, (unit, numbers, factor) in columns.items():
            known = {node: factor * n for node, n in numbers.items() if n is not None}
            if known and all(n < float("inf") for n in known.values()):
                self.model.overlay(known, title, unit=unit)

    # ------------------------------------------------------------ keeping layers in floats
    @property
    def kept(self) -> list[str]:
        """The names of the layers in floats, in the order of the graph."""
        return [layer.name for layer in self.layers if layer.is_kept]

    def keeping(self, *names: str) -> Quantized:
        """The same model with the layers ``names`` in floats, and no others. Calibration data and
        what was measured on it are used again.

        Args:
            *names: Layers by their names, by the ids of their ops, or by scopes around them.

        Raises:
            ArgumentError: ML242, a name is that of no layer.

        Example:
            >>> import numpy as np
            >>> import maxlab
            >>> layer = maxlab.nn.Linear(64, 32, maxlab.float32, maxlab.DeviceRef.CPU())
            >>> graph = maxlab.Graph("g", layer, [maxlab.TensorType(maxlab.float32, ["n", 64])])
            >>> weights = {"weight": np.eye(32, 64, dtype=np.float32)}
            >>> made = maxlab.quantize(graph, weights_registry=weights)
            >>> made.kept, made.keeping(made.layers[0].name).kept
            ([], ['linear'])
        """
        with progress.working(f"quantise {self._measured.model.name}"):
            return Quantized(self._measured, names)

    def toggling(self, name: str) -> Quantized:
        """The same model with the layer ``name`` in floats if it multiplies bytes now, and in bytes
        if it is in floats.

        Raises:
            ArgumentError: ML242, a name is that of no layer.
        """
        chosen = kept_names(self._measured.source.products, [name])
        return self.keeping(*(self._keep ^ chosen))

    # ------------------------------------------------------------ using
    def __call__(self, *args: Any, **kwargs: Any) -> list[Tensor]:
        """The outputs of the quantised model, as ``Model`` gives them."""
        return self.model(*args, **kwargs)

    @property
    def graph(self) -> Any:
        """The quantised graph."""
        return self.model.graph

    def save(self, path: Any) -> str:
        """The SHA-256 of the file at ``path``, which now holds the quantised model; see
        ``Model.save``. ``maxlab.load(path)`` reads it."""
        return self.model.save(path)

    # ------------------------------------------------------------ looking
    def _heads(self) -> Sequence[str]:
        return (
            "layer", "op", "depth", "columns", "kept in float", "error", "SNR [dB]", "cosine",
            "time in float [ns]", "time now [ns]", "weights in float [B]", "weights now [B]",
        )  # fmt: skip

    def _records(self) -> Iterator[Sequence[Field]]:
        for x in self.layers:
            yield (
                x.name, x.node, x.depth, x.columns, x.is_kept, x.error, x.snr_db, x.cosine,
                x.before_ns, x.after_ns, x.before_bytes, x.after_bytes,
            )  # fmt: skip

    @property
    def summary(self) -> str:
        """The model before and after, in a sentence."""
        walls = None
        if self.before_ns is not None and self.after_ns is not None:
            walls = self.before_ns, self.after_ns
        threads = self.model.num_threads
        name, how = self.model.name, self.activations
        return summary_of(name, self.layers, self.outputs, walls, how, threads)

    def table(self) -> str:
        """The layers as text, below the summary."""
        rows = [HEADS, *map(cells_of, self.layers)]
        widths = [max(len(row[n]) for row in rows) for n in range(len(HEADS))]
        lines = [
            "  ".join(
                text.ljust(width) if n in (0, 2) else text.rjust(width)
                for n, (text, width) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
            for row in rows
        ]
        return "\n".join([self.summary, "", *lines])

    def __str__(self) -> str:
        return self.table()

    def __repr__(self) -> str:
        count = len(self.layers) - len(self.kept)
        how = f"activations {self.activations}"
        return f"Quantized({self.model.name!r}, {count} of {len(self.layers)} in int8, {how})"

    def to_html(self) -> str:
        """The table as HTML, for pages without a kernel."""
        numbers = [n for n in range(len(HEADS)) if n not in (0, 2)]
        rows = [cells_of(layer) for layer in self.layers]
        return table(HEADS, rows, caption=self.summary, right=numbers, wide=True)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> Any:
        return trace.mimebundle(self, include, exclude)


__all__ = ["Activations", "Measured", "Quantized"]
