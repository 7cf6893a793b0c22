"""``clamp``: numbers cut to a range."""

from __future__ import annotations

from maxlab.graph import TensorValue, ops


def clamp(x: TensorValue, min: float | None = None, max: float | None = None) -> TensorValue:
    """``x`` with numbers below ``min`` replaced by it, and then those above ``max`` by that.

    NaN stays NaN. Where ``min`` is above ``max``, every number becomes ``max``, as in NumPy.

    Args:
        x: A tensor of any shape and of a dtype of numbers.
        min: The least result; None for no bound.
        max: The largest result; None for no bound.

    Raises:
        DTypeError: A bound cannot be a number of the dtype of ``x``.

    Example:
        >>> from maxlab import nn
        >>> from maxlab.dtype import DType
        >>> from maxlab.graph import Graph, TensorType
        >>> row = TensorType(DType.float32, ["n"])
        >>> graph = Graph("cut", lambda x: nn.clamp(x, -1.0, max=1.0), [row])
        >>> graph.output_types == [row]
        True
    """
    return x if min is None and max is None else ops.clip(x, min, max)


__all__ = ["clamp"]
