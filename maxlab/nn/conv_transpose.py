"""Transposed convolutions of sequences, with weights that are given or normalised."""

from __future__ import annotations

from typing import cast

from maxlab.dtype import DType
from maxlab.errors import ArgumentError, UnsupportedError
from maxlab.graph import ConvInputLayout, DeviceRef, FilterLayout, TensorValue, Weight, ops
from maxlab.graph.operands import as_dtype
from maxlab.graph.ops.spatial import ints
from maxlab.habits import fitting
from maxlab.nn.dense import check_size
from maxlab.nn.module import Module
from maxlab.nn.windows import require_image
from maxlab.opset.windows import require_counts

_ORDER = "length=4, in_channels=16, out_channels=8, dtype='float32'"


def _of_image(what: str, name: str, value: int | tuple[int, ...], least: int) -> tuple[int, int]:
    """``value`` for the height, which is 1, and for the length.

    Raises:
        ArgumentTypeError: ML302, something else than ints.
        ArgumentError: ML367, another number of them, or one below ``least``.
    """
    given = ints(what, name, value, 1)
    pair = (least, *given) if len(given) == 1 else given
    return cast("tuple[int, int]", require_counts(what, name, pair, 2, least))


def _cut_off(what: str, value: int | tuple[int, ...]) -> tuple[int, int, int, int]:
    """The rows and columns that are cut off: above, below, before and after.

    Raises:
        ArgumentTypeError: ML302, something else than ints.
        ArgumentError: ML367, another number of them, one below 0, or rows that are not there.
    """
    given = ints(what, "padding", value, 1)
    if len(given) == 1:
        given *= 2
    if len(given) == 2:
        given = (0, 0, *given)
    found = cast("tuple[int, int, int, int]", require_counts(what, "padding", given, 4, 0))
    if found[:2] != (0, 0):
        raise ArgumentError(
            "ML367",
            f"{what}: padding cuts {found[0]} and {found[1]} rows off a sequence, which is one "
            "row high",
            fix="give the elements to cut before and after: padding=(0, 0, before, after)",
        )
    return found


class ConvTranspose1d(Module):
    """A transposed convolution of sequences: ``[n, length, in_channels]`` to ``[n, new length,
    out_channels]``.

    The new length is ``(length - 1) * stride + kernel length - padding + output_padding``.
    Weights are declared on the CPU and move to ``device`` where they are used.

    Args:
        length: The length of the kernel.
        in_channels: The channels of the input.
        out_channels: The channels of the output.
        dtype: The element type of weight and bias, which must be that of the input.
        stride: The distance of the input's elements in the output: one number, or two, of which
            the first is for the height, which is 1.
        padding: The elements cut off: one number for both ends, two for begin and end, or four, of
            which the first two, for the height, are 0.
        dilation: 1; nothing else is supported.
        output_padding: The elements added at the end, fewer than ``stride``: one number, or two, of
            which the first, for the height, is 0.
        device: Where the convolution is computed; None for the CPU.
        has_bias: Whether a bias is added.
        permute: Whether weight, input and output are in the order of PyTorch: ``[in_channels,
            out_channels, length]`` and ``[n, channels, length]``.
        name: The weights are named ``<name>.weight`` and ``<name>.bias`` when given, else
            ``weight`` and ``bias``.

    Attributes:
        weight: ``[length, out_channels, in_channels]``.
        bias: ``[out_channels]``, or None.

    Raises:
        ArgumentError: ML716, a size that is not a positive int; ML367, a stride or padding that
            cannot be.
        UnsupportedError: ML372, a dilation that is not 1.
        ArgumentTypeError: ML302, something else than ints; ML972, arguments that do not fit.

    Example:
        >>> from maxlab import nn
        >>> from maxlab.dtype import DType
        >>> from maxlab.graph import Graph, TensorType
        >>> conv = nn.ConvTranspose1d(4, 16, 8, DType.float32, stride=2, padding=1)
        >>> graph = Graph("conv", conv, [TensorType(DType.float32, ["n", 10, 16])])
        >>> graph.output_types[0].shape
        [Dim('n'), Dim(20), Dim(8)]
    """

    weight: Weight
    bias: Weight | None = None
    device: DeviceRef | None
    stride: tuple[int, int]
    padding: tuple[int, int, int, int]
    dilation: tuple[int, int]
    output_padding: tuple[int, int]
    permute: bool

    @fitting("ML972", f"nn.ConvTranspose1d({_ORDER})")
    def __init__(
        self,
        length: int,
        in_channels: int,
        out_channels: int,
        dtype: DType | str,
        stride: int | tuple[int, int] = 1,
        padding: int | tuple[int, int] | tuple[int, int, int, int] = 0,
        dilation: int | tuple[int, int] = 1,
        output_padding: int | tuple[int, int] = 0,
        device: DeviceRef | str | None = None,
        has_bias: bool = False,
        permute: bool = False,
        name: str | None = None,
    ) -> None:
        what = type(self).__name__
        sizes = {"length": length, "in_channels": in_channels, "out_channels": out_channels}
        shape = tuple(check_size(what, side, size) for side, size in sizes.items())
        self.stride = _of_image(what, "stride", stride, 1)
        self.padding = _cut_off(what, padding)
        self.dilation = _of_image(what, "dilation", dilation, 1)
        if self.dilation != (1, 1):
            raise UnsupportedError(
                "ML372",
                f"{what}: dilation must be 1, got {dilation!r}",
                fix="leave it out, or use ops.conv2d_transpose, which has dilation",
            )
        self.output_padding = _of_image(what, "output_padding", output_padding, 0)
        above, more = self.output_padding
        if above or (more and more >= self.stride[1]):
            raise ArgumentError(
                "ML367",
                f"{what}: output_padding must be 0 or less than the stride {self.stride[1]}, got "
                f"{output_padding!r}",
                fix="it chooses among the lengths that a convolution of this stride shortens to "
                "one: pad the result with ops.pad for more",
            )
        self.device = DeviceRef.CPU() if device is None else DeviceRef.from_device(device)
        self.permute = bool(permute)
        kind = as_dtype(what, dtype)
        stem = f"{name}." if name else ""
        window, channels, filters = shape
        order = (channels, filters, window) if permute else (window, filters, channels)
        self.weight = Weight(f"{stem}weight", kind, order, DeviceRef.CPU())
        if has_bias:
            self.bias = Weight(f"{stem}bias", kind, (filters,), DeviceRef.CPU())

    def __call__(self, x: TensorValue, weight: TensorValue | None = None) -> TensorValue:
        """The transposed convolution of ``x``, ``[n, length, in_channels]``, or with ``permute``
        ``[n, in_channels, length]``.

        Args:
            x: The sequences.
            weight: A tensor like the layer's own weight to use in its place; None for its own.

        Raises:
            ShapeError: ML368, another rank; ML369, other channels; ML370, the result is empty.
            DTypeError: ML110, another dtype than that of the weight.
        """
        require_image(type(self).__name__, x, 1, self.permute)
        device = self.device or DeviceRef.CPU()
        w = (self.weight if weight is None else weight).to(device)
        bias = None if self.bias is None else self.bias.to(device)
        row = 2 if self.permute else 1  # the images are one row high
        before, after = self.padding[2], self.padding[3] - self.output_padding[1]
        made = ops.conv2d_transpose(
            ops.unsqueeze(x, row),
            ops.unsqueeze(w, 2 if self.permute else 0),
            self.stride,
            padding=(0, 0, before, max(after, 0)),
            bias=bias if after >= 0 else None,
            input_layout=ConvInputLayout.NCHW if self.permute else ConvInputLayout.NHWC,
            filter_layout=FilterLayout.FCRS if self.permute else FilterLayout.RSCF,
        )
        y = ops.squeeze(made, row)
        if after >= 0:
            return y
        # No window reaches the elements behind the last: they are the bias alone.
        y = ops.pad(y, [0, 0, 0, 0, 0, -after] if self.permute else [0, 0, 0, -after, 0, 0])
        if bias is None:
            return y
        return y + (ops.unsqueeze(bias, 1) if self.permute else bias)

    def __repr__(self) -> str:
        sizes = ", ".join(map(str, self.weight.shape))
        return f"{type(self).__name__}(weight=[{sizes}], bias={self.bias is not None})"


class WeightNormConvTranspose1d(Module):
    """A transposed convolution of sequences whose weight is a direction ``weight_v`` times a length
    ``weight_g``, one for each channel of the input.

    The weight is ``weight_g * v / |v|``, where ``|v|`` is the root of the sum of squares over the
    other two axes, as ``torch.nn.utils.weight_norm`` has it.

    Args:
        length: The length of the kernel.
        in_channels: The channels of the input.
        out_channels: The channels of the output.
        dtype: The element type of the weights, which must be that of the input.
        stride: As of ``ConvTranspose1d``, and so are the following.
        padding: The elements cut off.
        dilation: 1; nothing else is supported.
        output_padding: The elements added at the end, fewer than ``stride``.
        device: Where the convolution is computed; None for the CPU.
        has_bias: Whether a bias is added.
        permute: Whether weights, input and output are in the order of PyTorch.
        name: The weights are named ``<name>.weight_g``, ``<name>.weight_v`` and ``<name>.bias``
            when given, else without it.

    Attributes:
        conv: The convolution; it uses the weights of this layer.
        weight_g: ``[1, 1, in_channels]``, or with ``permute`` ``[in_channels, 1, 1]``.
        weight_v: ``[length, out_channels, in_channels]``, or with ``permute`` ``[in_channels,
            out_channels, length]``.

    Raises:
        ArgumentError: ML716, a size that is not a positive int; ML367, a stride or padding that
            cannot be.
        UnsupportedError: ML372, a dilation that is not 1.
        ArgumentTypeError: ML302, something else than ints; ML972, arguments that do not fit.

    Example:
        >>> from maxlab import nn
        >>> from maxlab.dtype import DType
        >>> conv = nn.WeightNormConvTranspose1d(4, 16, 8, DType.float32, stride=2, padding=1)
        >>> {name: list(weight.shape) for name, weight in conv.raw_state_dict().items()}
        {'weight_g': [Dim(1), Dim(1), Dim(16)], 'weight_v': [Dim(4), Dim(8), Dim(16)]}
    """

    conv: ConvTranspose1d
    device: DeviceRef | None
    bias: Weight | None = None
    weight_g: Weight
    weight_v: Weight

    @fitting("ML972", f"nn.WeightNormConvTranspose1d({_ORDER})")
    def __init__(
        self,
        length: int,
        in_channels: int,
        out_channels: int,
        dtype: DType | str,
        stride: int | tuple[int, int] = 1,
        padding: int | tuple[int, int] | tuple[int, int, int, int] = 0,
        dilation: int | tuple[int, int] = 1,
        output_padding: int | tuple[int, int] = 0,
        device: DeviceRef | str | None = None,
        has_bias: bool = False,
        permute: bool = False,
        name: str | None = None,
    ) -> None:
        conv = ConvTranspose1d(
            length, in_channels, out_channels, dtype, stride, padding, dilation, output_padding,
            device, has_bias, permute,
        )  # fmt: skip
        stem = f"{name}." if name else ""
        kind, shape, cpu = conv.weight.dtype, conv.weight.shape, DeviceRef.CPU()
        lengths = (in_channels, 1, 1) if permute else (1, 1, in_channels)
        self.weight_g = Weight(f"{stem}weight_g", kind, lengths, cpu)
        self.weight_v = Weight(f"{stem}weight_v", kind, shape, cpu)
        conv.set_shared_weight("weight", self.weight_v)
        if conv.bias is not None:
            self.bias = Weight(f"{stem}bias", kind, conv.bias.shape, cpu)
            conv.set_shared_weight("bias", self.bias)
        self.conv = conv
        self.device = conv.device

    def __call__(self, x: TensorValue) -> TensorValue:
        """The transposed convolution of ``x``, ``[n, length, in_channels]``, or with ``permute``
        ``[n, in_channels, length]``.

        Raises:
            ShapeError: ML368, another rank; ML369, other channels; ML370, the result is empty.
            DTypeError: ML110, another dtype than that of the weights.
        """
        device = self.device or DeviceRef.CPU()
        g, v = self.weight_g.to(device), self.weight_v.to(device)
        wide = DType.float64 if v.dtype is DType.float64 else DType.float32
        squares = ops.cast(v, wide) * ops.cast(v, wide)
        for axis in (1, 2) if self.conv.permute else (0, 1):
            squares = ops.sum(squares, axis)
        scale = ops.cast(g, wide) * ops.rsqrt(squares)
        weight = ops.cast(ops.cast(v, wide) * scale, v.dtype)
        made: TensorValue = self.conv(x, weight)
        return made


__all__ = ["ConvTranspose1d", "WeightNormConvTranspose1d"]
