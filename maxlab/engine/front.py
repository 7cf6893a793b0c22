"""``maxlab.load``, ``maxlab.compile`` and ``maxlab.save``: graphs to models and files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from maxlab.engine.model import Model
from maxlab.engine.session import InferenceSession
from maxlab.errors import ArgumentTypeError
from maxlab.graph import Graph
from maxlab.habits import fitting


@fitting(
    "ML975",
    "maxlab.load(graph); "
    "its inputs are given to the model: maxlab.load(graph)(array); "
    "modules of PyTorch: maxlab.torch.load(module, x)",
)
def load(graph: Graph | Path | str, **options: Any) -> Model:
    """The model of a graph, or of the file of one: what a new ``InferenceSession`` loads.

    Args:
        graph: A graph, or the path of a file that ``graph.save`` wrote.
        **options: What ``InferenceSession.load`` takes besides.

    Example:
        >>> import numpy as np
        >>> import maxlab
        >>> types = [maxlab.TensorType(maxlab.float32, ["n"])]
        >>> model = maxlab.load(maxlab.Graph("double", lambda x: x * 2, types))
        >>> model(np.ones(2, np.float32))[0]
        Tensor([2., 2.], dtype=float32, shape=(2,), device=cpu:0)
    """
    return InferenceSession().load(graph, **options)


@fitting("ML975", "maxlab.save(graph, path)")
def save(graph: Any, path: Any) -> None:
    """Writes ``graph``, or a model, to ``path``: see ``Graph.save`` and ``Model.save``.

    Raises:
        ArgumentTypeError: ML619, ``graph`` is neither.
    """
    if not isinstance(graph, (Graph, Model)):
        told = type(graph).__name__
        if isinstance(path, Graph):
            fix = "the graph comes first: maxlab.save(graph, path)"
        elif hasattr(graph, "__array__"):
            fix = "an array is written by NumPy: np.save(path, array)"
        else:
            fix = "maxlab.save(graph, path) or maxlab.save(model, path)"
        raise ArgumentTypeError("ML619", f"save takes a Graph, got {told}", fix=fix)
    call: Any = graph
    call.save(path)


__all__ = ["load", "save"]
