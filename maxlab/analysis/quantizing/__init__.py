"""Quantisation: a model whose products multiply bytes, and a report of what that costs.

Example:
    >>> import numpy as np
    >>> import maxlab
    >>> layer = maxlab.nn.Linear(64, 32, maxlab.float32, maxlab.DeviceRef.CPU())
    >>> graph = maxlab.Graph("g", layer, [maxlab.TensorType(maxlab.float32, ["n", 64])])
    >>> weights = {"weight": np.eye(32, 64, dtype=np.float32)}
    >>> made = maxlab.quantize(graph, weights_registry=weights)
    >>> made.layers[0].before_bytes, made.layers[0].after_bytes
    (8192, 2176)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from maxlab import progress, trace
from maxlab.analysis.quantizing.calibration import calibrated, samples_of
from maxlab.analysis.quantizing.products import products
from maxlab.analysis.quantizing.quantized import Activations, Measured, Quantized
from maxlab.analysis.quantizing.report import Layer
from maxlab.analysis.quantizing.rewriting import source_of
from maxlab.analysis.target import model_behind
from maxlab.engine import InferenceSession
from maxlab.engine.profile import measure_model
from maxlab.errors import ArgumentError
from maxlab.graph import Graph
from maxlab.habits import fitting, is_count

RUNS = 5
"""Timed runs of each model, after one that is not counted."""


@fitting("ML975", "maxlab.quantize(model, calibration=[array, ...])")
def quantize(
    model: Any,
    calibration: Iterable[Any] | None = None,
    *,
    keep: Iterable[str] = (),
    activations: Activations | None = None,
    smoothing: bool = True,
    weights_registry: Mapping[str, Any] | None = None,
    runs: int = RUNS,
) -> Quantized:
    """The model with its products in bytes, and a report of what each of them costs in accuracy and
    saves in time and memory. The model that is given stays as it is.

    Products of activations with matrices of weights become products of signed bytes with a scale
    for each column, and of unsigned bytes with a scale and a zero point. Sums are exact. Embeddings
    and all other operations stay in floats, and so do products in branches and loops.

    Args:
        model: A graph, a model, a module of torch that ``maxlab.torch.load`` gave, or a profile.
        calibration: Inputs that are like those in use: a list whose items are what the model is
            called with, an array, a tuple, or a dict by the names of inputs. Errors are measured on
            all of them, times on the first one. Without it, the report has neither. The model runs
            on each item a few times: what it stores into buffers happens as often.
        keep: Layers that stay in floats, by name, by the id of their op, or by a scope around them.
        activations: ``"dynamic"`` gives every row of an activation its own scale as it comes;
            ``"calibrated"`` gives each activation the one range that it had on the calibration
            data, which is quicker, and cuts off what is outside of it. By default ``"dynamic"``.
        smoothing: Whether activations with numbers that are large at the same place of every row
            are divided by factors of these places, and weights multiplied with them, wherever that
            takes a fifth of the error on the calibration data away. It costs one more
            multiplication of each number of such an activation.
        weights_registry: The weights of a graph, by name, as ``InferenceSession.load`` takes them.
        runs: Timed runs of the model in floats and of the quantised one; 0 measures no time.

    Raises:
        GraphError: ML239, the graph has no product with a matrix of weights.
        InputError: ML240, the calibration data is empty, or does not fit the inputs; ML241, it has
            NaN or an infinity, or a product has on it.
        ArgumentError: ML242, a name in ``keep`` is that of no layer; ML243, ``activations`` is
            something else, is ``"calibrated"`` without calibration data, ``runs`` is negative, or
            weights are given for what has them.
        ArgumentTypeError: ML674, ``model`` is something else.

    Example:
        >>> import numpy as np
        >>> import maxlab
        >>> rng = np.random.default_rng(0)
        >>> layer = maxlab.nn.Linear(64, 32, maxlab.float32, maxlab.DeviceRef.CPU())
        >>> graph = maxlab.Graph("g", layer, [maxlab.TensorType(maxlab.float32, ["n", 64])])
        >>> weights = {"weight": rng.standard_normal((32, 64)).astype(np.float32)}
        >>> x = rng.standard_normal((8, 64)).astype(np.float32)
        >>> made = maxlab.quantize(graph, [x], weights_registry=weights)
        >>> made.outputs.cosine > 0.999, made.layers[0].error < 0.02
        (True, True)
        >>> made(x)[0].shape
        (8, 32)
    """
    chosen = _chosen(activations, calibration is not None)
    if not is_count(runs, 0):
        raise ArgumentError(
            "ML243",
            f"quantize: runs must be 0 or more, got {runs!r}",
            fix="give 0 or more, or leave it out",
        )
    if isinstance(model, Graph):
        target = InferenceSession().load(model, weights_registry=weights_registry)
    else:
        target = model_behind(model, "maxlab.quantize")
        if weights_registry is not None:
            raise ArgumentError(
                "ML243",
                f"quantize: weights are given for {target.name!r}, which is loaded and has them",
                fix="leave weights_registry out, or pass the graph: it is for graphs",
            )
    title = f"quantise {target.name}"
    with progress.working(title), trace.span("quantise", target.name):
        function = target.compiled.source
        found = products(function)
        source = source_of(function, target.weights, found, {})
        samples = [] if calibration is None else samples_of(target, calibration)
        ranges, errors = None, None
        if samples:
            source, ranges, errors = calibrated(
                target, source, samples, has_ranges=chosen == "calibrated", smoothing=smoothing
            )
        before = measure_model(target, samples[0], runs, 1) if samples and runs else None
        measured = Measured(target, source, chosen, samples, ranges, errors, runs, before)
        return Quantized(measured, keep)


def _chosen(activations: Activations | None, is_calibrated: bool) -> Activations:
    if activations not in (None, "dynamic", "calibrated"):
        raise ArgumentError(
            "ML243",
            f"quantize: activations must be 'dynamic' or 'calibrated', got {activations!r}",
            fix="leave it out for 'dynamic'",
        )
    if activations == "calibrated" and not is_calibrated:
        raise ArgumentError(
            "ML243",
            "quantize: calibrated activations need calibration data, and none is given",
            fix="pass calibration=[inputs, ...], or activations='dynamic'",
        )
    return activations or "dynamic"


__all__ = ["Layer", "Quantized", "quantize"]
