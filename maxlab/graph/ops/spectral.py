"""Fourier transforms and what is used around them: windows, interleaved complex numbers."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Final

import numpy as np

from maxlab.dtype import DType
from maxlab.errors import ArgumentError, DTypeError, ShapeError
from maxlab.graph.build import add as add_op
from maxlab.graph.build import as_dtype, as_int, builder, constant_array, staged, tensor
from maxlab.graph.value import TensorValue, TensorValueLike
from maxlab.ir import DeviceRef, Shape, StaticDim
from maxlab.opset.facts import Family
from maxlab.opset.fft import hann
from maxlab.opset.rules import axis_of

FAMILY: Final[Family] = "spectral"
"""Of the functions here that are no rows of the op table themselves."""

MOST_OF_A_WINDOW = 1 << 26
"""Elements of the largest window: a graph keeps it as a constant."""


class Normalization(StrEnum):
    """The divisor of the elements of an inverse transform of size n."""

    BACKWARD = "backward"
    """by n"""
    ORTHO = "ortho"
    """by the square root of n"""
    FORWARD = "forward"
    """by nothing: the transform forward divides"""


@staged
def irfft(
    input_tensor: TensorValueLike,
    n: int | None = None,
    axis: int = -1,
    normalization: Normalization | str = Normalization.BACKWARD,
    input_is_complex: bool = False,
    buffer_size_mb: int = 512,
) -> TensorValue:
    """The real sequences of which ``input_tensor`` has half of the spectrum, along ``axis``.

    The result has the shape of the input, but ``n`` elements along ``axis``, and without the last
    dim of a complex input. It is that of ``numpy.fft.irfft``, on the CPU as well as on GPUs, where
    the reference has it on GPUs only. Any ``n`` takes time of the order of ``n log n``, primes too.
    All is computed in float64: float32 results are those of NumPy in float64, rounded; float64
    results are within a few units of ``1e-16`` times the largest element, times ``log n``.

    Args:
        input_tensor: A float tensor: the spectrum from frequency 0 on, real, or complex with
            interleaved numbers ``[..., 2]``. It is cut, or padded with zeros, to ``n // 2 + 1``
            elements. The imaginary part at frequency 0, and at ``n / 2`` of an even ``n``, counts
            as 0.
        n: The size of the result along ``axis``, an int; ``2 * (m - 1)`` for ``m`` elements when
            it is left out.
        axis: The axis of the frequencies; negative from the end, where the last dim of a complex
            input is not counted.
        normalization: ``"backward"`` divides by ``n``, ``"ortho"`` by its square root,
            ``"forward"`` by nothing.
        input_is_complex: Whether the last dim, of size 2, holds real and imaginary parts.
        buffer_size_mb: How much memory of a GPU intermediate results of long rows may take; rows
            that do not fit at once take turns.

    Raises:
        DTypeError: ML107, not a float tensor.
        ArgumentError: ML387, an ``n`` below 1, above 2^24 or that is not known, another
            normalization, or a buffer without memory. A graph keeps the sines and cosines that a
            row needs, up to 1.3 GB for 2^24 elements.
        ArgumentTypeError: ML302, ``n``, ``axis`` or ``buffer_size_mb`` is not an int.
        ShapeError: ML388, a complex input whose last dim is not 2.
        AxisError: ML303, ``axis`` is out of range.

    Example:
        >>> import numpy as np
        >>> from maxlab import engine
        >>> from maxlab.dtype import DType
        >>> from maxlab.graph import Graph, TensorType, ops
        >>> with Graph("g", input_types=[TensorType(DType.float32, ["rows", 3])]) as graph:
        ...     graph.output(ops.irfft(graph.inputs[0], n=4))
        >>> model = engine.InferenceSession().load(graph)
        >>> model(np.array([[0, 2, 0]], np.float32))[0].to_numpy()
        array([[ 1.,  0., -1.,  0.]], dtype=float32)
    """
    x = tensor(input_tensor, "irfft: the operand")
    pairs = bool(input_is_complex)
    rank = x.rank - pairs
    place = axis_of(axis, max(rank, 0), "irfft")
    if n is None:
        size = x.shape[place]
        if not isinstance(size, StaticDim):
            raise ArgumentError(
                "ML387",
                f"irfft: the axis has the size {size}, so the size of the result is not known",
                fix="pass n, an int",
            )
        n = 2 * (size.dim - 1)
    how = normalization.value if isinstance(normalization, Normalization) else normalization
    return add_op(
        "irfft",
        [x],
        n=as_int("irfft", n, "n"),
        axis=place,
        normalization=how,
        complex=pairs,
        buffer_size_mb=as_int("irfft", buffer_size_mb, "buffer_size_mb"),
    )


@staged
def hann_window(
    window_length: int,
    device: Any,
    periodic: bool = True,
    dtype: DType = DType.float32,
) -> TensorValue:
    """A Hann window ``[window_length]``: ``(1 - cos(2 pi n / (N - 1))) / 2``, of float64 numbers
    right to 5 ulp, rounded once.

    ``N`` is ``window_length``, or one more for a periodic window, which leaves the last element
    out. A window of one element is 1.

    Args:
        window_length: The number of elements, an int.
        device: The device of the result.
        periodic: Whether to leave out the end, which is the beginning of the next window.
        dtype: A float dtype.

    Raises:
        ArgumentError: ML386, ``window_length`` is negative, or above 2^26: the window is a constant
            of the graph.
        ArgumentTypeError: ML302, ``window_length`` is not an int; ML397, ``device`` is no device.
        DTypeError: ML107, ``dtype`` is not a float dtype.

    Example:
        >>> from maxlab import engine
        >>> from maxlab.graph import DeviceRef, Graph, ops
        >>> with Graph("g") as graph:
        ...     graph.output(ops.hann_window(4, DeviceRef.CPU()))
        >>> engine.InferenceSession().load(graph)()[0].to_numpy()
        array([0. , 0.5, 1. , 0.5], dtype=float32)
    """
    builder(what="ops.hann_window")
    length = as_int("hann_window", window_length, "window_length")
    kind = as_dtype("hann_window", dtype)
    if length < 0:
        raise ArgumentError(
            "ML386",
            f"hann_window: the length is {length}, and must be 0 or more",
            fix="pass the number of elements",
        )
    if not kind.is_float():
        raise DTypeError(
            "ML107",
            f"hann_window needs a float, got {kind.name}",
            fix="leave dtype out, or use DType.float32",
        )
    if length > MOST_OF_A_WINDOW:
        raise ArgumentError(
            "ML386",
            f"hann_window: the length is {length}, and a graph keeps at most {MOST_OF_A_WINDOW} "
            "elements",
            fix="compute a longer window with ops.range and ops.cos, or pass it as an input",
        )
    if length < 2:
        window = np.ones(length, kind.ml_numpy)
    else:
        window = hann(length, length if periodic else length - 1, kind.ml_numpy)
    return constant_array(window, DeviceRef.from_device(device))


@staged
def as_interleaved_complex(x: TensorValueLike) -> TensorValue:
    """``x`` with its last dim in pairs, ``[..., n]`` to ``[..., n / 2, 2]``: real and imaginary
    parts that alternate become complex numbers. Nothing is computed.

    Args:
        x: A tensor whose last dim is provably even.

    Raises:
        ShapeError: ML385, ``x`` has rank 0, or its last dim is odd or may be.

    Example:
        >>> from maxlab.dtype import DType
        >>> from maxlab.graph import Graph, TensorType, ops
        >>> with Graph("g", input_types=[TensorType(DType.float32, ["n", 8])]) as graph:
        ...     ops.as_interleaved_complex(graph.inputs[0]).shape
        [Dim('n'), Dim(4), Dim(2)]
    """
    value = tensor(x, "as_interleaved_complex: the operand")
    last = value.shape[-1] if value.rank else None
    if last is None or last // 2 * 2 != last:
        what = f"a last dim {last}" if value.rank else "rank 0"
        raise ShapeError(
            "ML385",
            f"as_interleaved_complex needs a last dim of even size, got {what}",
            fix="say the size with ops.rebind, or slice off the odd element",
        )
    return add_op("reshape", [value], shape=Shape([*value.shape[:-1], last // 2, 2]))


@staged
def band_part(
    x: TensorValueLike,
    num_lower: int | None = None,
    num_upper: int | None = None,
    exclude: bool = False,
) -> TensorValue:
    """``x`` with everything outside of a diagonal band of its matrices set to 0, or the band
    itself; in the shape and dtype of ``x``.

    The element ``[..., m, n]`` is in the band if ``m - n <= num_lower`` and ``n - m <= num_upper``,
    as far as they are given. What is set to 0 is 0 whatever it was, NaN too.

    Args:
        x: A tensor of rank 2 or more; the last two dims are those of matrices.
        num_lower: How many diagonals below the main one are in the band; all when left out.
        num_upper: How many above it; all when left out.
        exclude: Whether to set the band to 0, and keep the rest.

    Raises:
        ArgumentError: ML384, ``x`` has a rank below 2, a number is negative, or it is above the
            size of its dim.
        ArgumentTypeError: ML302, a number is not an int.

    Example:
        >>> import numpy as np
        >>> from maxlab import engine
        >>> from maxlab.dtype import DType
        >>> from maxlab.graph import Graph, TensorType, ops
        >>> with Graph("g", input_types=[TensorType(DType.float32, ["n", "n"])]) as graph:
        ...     graph.output(ops.band_part(graph.inputs[0], num_lower=None, num_upper=0))
        >>> model = engine.InferenceSession().load(graph)
        >>> model(np.ones((3, 3), np.float32))[0].to_numpy()
        array([[1., 0., 0.],
               [1., 1., 0.],
               [1., 1., 1.]], dtype=float32)
    """
    return add_op(
        "band_part",
        [tensor(x, "band_part: the operand")],
        num_lower=None if num_lower is None else as_int("band_part", num_lower, "num_lower"),
        num_upper=None if num_upper is None else as_int("band_part", num_upper, "num_upper"),
        exclude=bool(exclude),
    )


__all__ = ["Normalization", "as_interleaved_complex", "band_part", "hann_window", "irfft"]
