"""Images at other sizes."""

from __future__ import annotations

import enum
from collections.abc import Iterable

from maxlab.errors import ArgumentError, UnsupportedError
from maxlab.graph.build import add as add_op
from maxlab.graph.build import staged, tensor
from maxlab.graph.value import TensorValue, TensorValueLike
from maxlab.ir import Dim, DimLike, Shape


class InterpolationMode(enum.Enum):
    """How an image is read between its elements."""

    NEAREST = "nearest"
    BILINEAR = "bilinear"
    BICUBIC = "bicubic"


@staged
def resize(
    input: TensorValueLike,
    shape: Iterable[DimLike],
    interpolation: InterpolationMode = InterpolationMode.BILINEAR,
) -> TensorValue:
    """The images ``input`` at the size that ``shape`` says, in their dtype.

    Pixels are squares whose centres are read, so the corners of both images coincide; outside of an
    image is what lies at its edge, and nothing is averaged beforehand when an image gets smaller.
    ``BICUBIC`` has the slope -0.75; ``NEAREST`` takes element ``i * size // new_size``.

    Args:
        input: ``[N, C, H, W]``, floats; with ``NEAREST`` any dtype.
        shape: ``(N, C, new height, new width)``, of which the first two are those of ``input``.
        interpolation: A member of ``InterpolationMode``.

    Raises:
        ShapeError: ML368, the rank is not 4; ML375, a shape of another rank, batch or number of
            channels; ML370, an empty image.
        ArgumentError: ML376, no ``InterpolationMode``.
        UnsupportedError: ML372, ``shape`` is one int.
        DTypeError: ML107, no floats.

    Example:
        >>> import numpy as np
        >>> from maxlab import engine
        >>> from maxlab.dtype import DType
        >>> from maxlab.graph import Graph, TensorType, ops
        >>> with Graph("g", input_types=[TensorType(DType.float32, [1, 1, 1, "w"])]) as graph:
        ...     graph.output(ops.resize(graph.inputs[0], (1, 1, 1, 4)))
        >>> model = engine.InferenceSession().load(graph)
        >>> model(np.array([[[[0, 4]]]], np.float32))[0].to_numpy().ravel()
        array([0., 1., 3., 4.], dtype=float32)
    """
    if not isinstance(interpolation, InterpolationMode):
        raise ArgumentError(
            "ML376",
            f"resize: {interpolation!r} is no interpolation",
            fix="pass a member of ops.InterpolationMode",
        )
    if isinstance(shape, (int, Dim)):
        raise UnsupportedError(
            "ML372",
            f"resize: the shape must be (N, C, H, W), got {shape!r}",
            fix="a single size is not supported: pass (x.shape[0], x.shape[1], H, W)",
        )
    return add_op(
        "resize",
        [tensor(input, "resize: the input")],
        shape=Shape(shape),
        mode=interpolation.value,
    )


__all__ = ["InterpolationMode", "resize"]
