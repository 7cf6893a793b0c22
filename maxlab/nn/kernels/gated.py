"""Products that gate each other."""

from __future__ import annotations

from maxlab.graph import TensorValue, TensorValueLike, ops
from maxlab.graph.build import staged
from maxlab.nn.kernels.given import require_rank


@staged
def swish_glu(a: TensorValueLike, b0: TensorValueLike, b1: TensorValueLike) -> TensorValue:
    """``silu(a @ b0.T) * (a @ b1.T)``, [rows, out].

    Args:
        a: The rows, floats [rows, in].
        b0: The weights of the gate, [out, in].
        b1: The weights of what is gated, [out, in].

    Raises:
        ShapeError: ML659, other ranks; the codes of ``ops.matmul`` for sizes (each a ValueError).
        ArgumentTypeError: ML317, no tensors.

    Example:
        >>> import numpy as np
        >>> from maxlab.engine import InferenceSession
        >>> from maxlab.graph import Graph
        >>> one = np.ones((1, 2), np.float32)
        >>> with Graph("gated", input_types=[]) as graph:
        ...     graph.output(swish_glu(one, one, 3 * one))
        >>> round(float(InferenceSession().load(graph)()[0].to_numpy()[0, 0]), 3)
        10.57
    """
    named = (("a", a), ("b0", b0), ("b1", b1))
    rows, gate, up = (require_rank("swish_glu", name, x, 2) for name, x in named)
    return ops.silu(rows @ gate.T) * (rows @ up.T)


__all__ = ["swish_glu"]
