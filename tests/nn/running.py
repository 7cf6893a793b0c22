"""What tests of layers share: random weights, and a layer that runs as a graph on a place."""

from __future__ import annotations

from typing import Any

import numpy as np

from maxlab import nn
from maxlab.dtype import DType
from maxlab.graph import DeviceRef, Graph, TensorType
from tests.cpu_and_gpu import at, numpy, session

Array = np.ndarray[Any, Any]
_RNG = np.random.default_rng(7)


def random(*shape: int) -> Array:
    """Float32 numbers around zero."""
    return _RNG.standard_normal(shape).astype(np.float32)


def filled(module: nn.Module) -> dict[str, Any]:
    """The state dict of ``module``, which now has random weights."""
    state = {k: random(*v.shape).astype(v.dtype) for k, v in module.state_dict().items()}
    module.load_state_dict(state)
    return state


def ran(module: nn.Module, place: DeviceRef, x: Array, dims: Any = None) -> Array:
    """The output of ``module`` for ``x`` on ``place``; ``dims`` are those of the graph's input."""
    type = TensorType(DType.from_numpy(x.dtype), dims or x.shape, place)
    graph = Graph("layer", module, [type])
    model = session(place).load(graph, weights_registry=module.state_dict())
    return numpy(model.execute(at(x, place))[0])
