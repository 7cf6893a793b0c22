"""Calibration: what activations are, and what rounding them to bytes costs, on inputs that are
given."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from maxlab import progress
from maxlab.analysis.quantizing.products import Array
from maxlab.analysis.quantizing.rewriting import (
    Made,
    Source,
    errors,
    extremes,
    source_of,
    weight_rows,
)
from maxlab.analysis.quantizing.rounding import Range, range_of
from maxlab.driver import Tensor
from maxlab.engine import InferenceSession, Model
from maxlab.errors import InputError, MaxlabError

FIX = (
    "pass a list whose items are what the model is called with: an array, a tuple of arrays, or a "
    "dict of arrays by the names of inputs"
)

GAIN = 0.8
"""The error of products with smoothing, as a fraction of that without, below which it is worth one
more multiplication of each number."""


@dataclass(frozen=True, slots=True)
class Difference:
    """How far numbers are from what they should be.

    Attributes:
        relative: The root of the sum of squares of the differences, as a fraction of that of the
            numbers; 0.01 is an error of 1 %.
        cosine: The cosine of the angle between the two, 1 for the same direction.
    """

    relative: float
    cosine: float

    @property
    def snr_db(self) -> float:
        """The ratio of signal to noise in decibels, infinite where nothing differs."""
        if not self.relative:
            return math.inf
        return -20 * math.log10(self.relative)


def difference_of(apart: float, wanted: float, got: float, both: float) -> Difference:
    """The difference by the sums over all elements of ``(y - q)²``, ``y²``, ``q²`` and ``y q``."""
    if not wanted:
        return Difference(0.0 if not apart else math.inf, 1.0 if not apart else 0.0)
    cosine = both / math.sqrt(wanted * got) if got else 0.0
    return Difference(math.sqrt(apart / wanted), min(cosine, 1.0))


def samples_of(model: Model, calibration: Iterable[Any]) -> list[list[Tensor]]:
    """The inputs of each item of ``calibration``, as ``model`` takes them.

    Raises:
        InputError: ML240, it has no items, or one that does not fit the inputs; ML241, an item
            with NaN or an infinity.
    """
    if isinstance(calibration, (str, bytes, Mapping)) or not isinstance(calibration, Iterable):
        raise InputError(
            "ML240",
            f"calibration is a list of inputs, got {type(calibration).__name__}",
            fix=FIX,
        )
    found: list[list[Tensor]] = []
    for number, item in enumerate(calibration):
        args: Sequence[Any] = item if isinstance(item, (tuple, list)) else (item,)
        named = item if isinstance(item, Mapping) else {}
        try:
            given = model.bind_arguments(() if named else args, named)
            inputs = model.inputs_of([_plain(x) for x in given])
            model.sizes_of(inputs)
        except MaxlabError as error:
            raise InputError(
                "ML240",
                f"item {number} of the calibration data does not fit {model.name!r}: {error.what}",
                fix=FIX,
            ) from error
        for place, x in enumerate(inputs):
            _require_finite(x, f"input {place} of item {number}")
        found.append(inputs)
    if not found:
        raise InputError("ML240", "the calibration data has no items", fix=FIX)
    return found


def _plain(x: Any) -> Any:
    return x.detach() if hasattr(x, "detach") else x


def _require_finite(x: Tensor, what: str) -> None:
    array = x.on_host().to_ml_numpy()
    if x.dtype.is_float() and not np.isfinite(array.astype(np.float32)).all():
        raise InputError(
            "ML241",
            f"{what} of the calibration data has NaN or an infinity",
            fix="calibrate with inputs that the model gets in use, all of them numbers",
        )


class Calibrated(NamedTuple):
    """Readings of calibration data.

    Attributes:
        source: The graph, with the activations that are smoothed.
        ranges: The range of each activation, by the name of its product; None for dynamic ones.
        errors: The error of each product, by name.
    """

    source: Source
    ranges: Mapping[str, Range] | None
    errors: Mapping[str, Difference]


def calibrated(
    model: Model,
    source: Source,
    samples: Sequence[Sequence[Tensor]],
    *,
    has_ranges: bool,
    smoothing: bool,
) -> Calibrated:
    """Readings of ``samples`` for ``source``, which smooths nothing yet.

    With ``smoothing``, an activation is smoothed where that takes a fifth of the error of its
    products away: numbers that are large at the same place of every row need a scale in which the
    others have few bytes. They are divided by a factor, and the weights are multiplied with it
    [1]_.

    Raises:
        InputError: ML241, an activation has NaN or an infinity.

    .. [1] G. Xiao et al., "SmoothQuant: Accurate and Efficient Post-Training Quantization for Large
       Language Models", ICML 2023. https://arxiv.org/abs/2211.10438
    """
    found = None
    if has_ranges or smoothing:
        found = _extremes(model, source, samples)
    ranges = found.ranges if found is not None and has_ranges else None
    plain = Calibrated(source, ranges, _differences(model, source, ranges, samples))
    if found is None or not smoothing:
        return plain
    function, weights, products = source.function, source.weights, source.products
    other = source_of(function, weights, products, _factors(source, found.peaks))
    ranges = _extremes(model, other, samples).ranges if has_ranges else None
    smooth = Calibrated(other, ranges, _differences(model, other, ranges, samples))
    return _better(plain, smooth)


def _better(plain: Calibrated, smooth: Calibrated) -> Calibrated:
    """For each activation the one of the two in which the error of its products is less."""
    sums: dict[str, list[float]] = {}
    for p in plain.source.products:
        pair = sums.setdefault(p.activation, [0.0, 0.0])
        pair[0] += plain.errors[p.name].relative ** 2
        pair[1] += smooth.errors[p.name].relative ** 2
    chosen = {
        name: factor
        for name, factor in smooth.source.factors.items()
        if sums[name][1] < GAIN**2 * sums[name][0]
    }
    source = plain.source
    by_name = {p.name: smooth if p.activation in chosen else plain for p in source.products}
    ranges = None
    if plain.ranges is not None and smooth.ranges is not None:
        both = plain.ranges, smooth.ranges
        ranges = {name: both[of is smooth][name] for name, of in by_name.items()}
    errors = {name: of.errors[name] for name, of in by_name.items()}
    made = source_of(source.function, source.weights, source.products, chosen)
    return Calibrated(made, ranges, errors)


def _factors(source: Source, peaks: Mapping[str, Array]) -> dict[str, Array]:
    """Factors for each activation, by its id: the root of the largest size at each place of its
    rows over that of the weights which meet it. All are 1 where there is nothing but zeros."""
    most: dict[str, Array] = {}
    for p in source.products:
        here = np.abs(weight_rows(source.function, source.weights, p)).max(axis=0)
        most[p.activation] = np.maximum(most.get(p.activation, here), here)
    found: dict[str, Array] = {}
    for p in source.products:
        peak, weight = peaks[p.name], most[p.activation]
        with np.errstate(all="ignore"):
            factor = np.sqrt(peak / weight).astype(np.float32)
        known = np.isfinite(factor) & (factor > 0)
        middle = np.exp(np.log(factor[known]).mean()) if known.any() else np.float32(1)
        found[p.activation] = np.where(known, factor / middle, 1).astype(np.float32)
    return found


class _Extremes(NamedTuple):
    """Ranges of activations, and the largest size of each place in their rows, by the names of
    their products."""

    ranges: dict[str, Range]
    peaks: dict[str, Array]


def _extremes(model: Model, source: Source, samples: Sequence[Sequence[Tensor]]) -> _Extremes:
    """The extremes of all activations on ``samples``."""
    rows = _outputs(model, extremes(source), samples, "ranges of activations")
    ranges: dict[str, Range] = {}
    peaks: dict[str, Array] = {}
    for number, p in enumerate(source.products):
        lows, highs, sizes = (np.stack([row[3 * number + n] for row in rows]) for n in range(3))
        low, high = float(lows.min()), float(highs.max())
        _require_number(p.name, low + high)
        ranges[p.name], peaks[p.name] = range_of(low, high), sizes.max(axis=0)
    return _Extremes(ranges, peaks)


def _differences(
    model: Model,
    source: Source,
    ranges: Mapping[str, Range] | None,
    samples: Sequence[Sequence[Tensor]],
) -> dict[str, Difference]:
    """How far each product of bytes is from the product of floats on the same activations, those
    of the model in floats on ``samples``, by name."""
    rows = _outputs(model, errors(source, ranges), samples, "errors of products")
    sums = np.array(rows).sum(axis=0).reshape(-1, 4)
    found: dict[str, Difference] = {}
    for p, numbers in zip(source.products, sums, strict=True):
        _require_number(p.name, float(numbers.sum()))
        found[p.name] = difference_of(*map(float, numbers))
    return found


def apart(model: Model, other: Model, samples: Sequence[Sequence[Tensor]]) -> Difference:
    """How far the outputs of ``other`` are from those of ``model`` on ``samples``, all outputs
    taken together."""
    sums = np.zeros(4)
    for inputs in samples:
        for one, two in zip(model.execute(*inputs), other.execute(*inputs), strict=True):
            if one.dtype.is_float():
                y, q = (t.on_host().to_ml_numpy().astype(np.float64) for t in (one, two))
                pairs = ((y - q, y - q), (y, y), (q, q), (y, q))
                sums += [float((a * b).sum()) for a, b in pairs]
    return difference_of(*map(float, sums))


def loaded(model: Model, made: Made) -> Model:
    """The model of ``made``, on the devices and with the threads and options of ``model``."""
    session = InferenceSession(model.session_devices(), model.num_threads)
    registry = made.registry
    return session.load(made.graph, weights_registry=registry, options=model.options)


def _outputs(
    model: Model, made: Made, samples: Sequence[Sequence[Tensor]], what: str
) -> list[list[Array]]:
    """The outputs of ``made``, each flat and in float64, on each of ``samples``."""
    measuring = loaded(model, made)
    found: list[list[Array]] = []
    for number, inputs in enumerate(samples):
        progress.step(what, number, len(samples))
        outputs = measuring.execute(*inputs)
        found.append([x.on_host().to_numpy().astype(np.float64).reshape(-1) for x in outputs])
    return found


def _require_number(name: str, number: float) -> None:
    if not math.isfinite(number):
        raise InputError(
            "ML241",
            f"the product {name!r} has NaN or an infinity on the calibration data",
            fix="calibrate with inputs that the model gets in use; "
            "maxlab.first_nonfinite(model, inputs) finds where it begins",
        )


__all__ = ["Calibrated", "Difference", "apart", "calibrated", "loaded", "samples_of"]
