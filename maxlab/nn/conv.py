"""Convolutions over one, two and three dims."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

from maxlab.dtype import DType
from maxlab.graph import DeviceRef, ShardingStrategy, TensorValue, Weight
from maxlab.graph.operands import as_dtype
from maxlab.habits import fitting
from maxlab.nn.conv_given import Conv1DV1, Conv2dV1, Conv3DV1
from maxlab.nn.dense import check_size
from maxlab.nn.module import Module
from maxlab.nn.sharding import along, axes_cut, no_shards, places_of, shard_of, shards_of, unfit
from maxlab.nn.windows import check_groups, convolved, counts, margins


class _Conv(Module):
    """The common part of the convolutions: a filter, a bias, and how windows lie."""

    filter: Weight
    bias: Weight | None = None
    device: DeviceRef | None
    num_groups: int
    permute: bool = False

    def _declare(
        self,
        window: tuple[int, ...],
        channels: int,
        filters: int,
        dtype: DType | str,
        groups: int,
        device: DeviceRef | str | None,
        has_bias: bool,
        permute: bool,
        name: str | None,
    ) -> None:
        """Makes the weights; ``permute`` declares the filter in the order of PyTorch."""
        what = type(self).__name__
        check_groups(what, groups, channels, filters)
        depth = channels // groups
        shape = (filters, depth, *window) if permute else (*window, depth, filters)
        self.device = DeviceRef.CPU() if device is None else DeviceRef.from_device(device)
        self.num_groups = groups
        self.permute = bool(permute)
        kind = as_dtype(what, dtype)
        stem = f"{name}." if name else ""
        self.filter = Weight(f"{stem}weight", kind, shape, DeviceRef.CPU())
        if has_bias:
            self.bias = Weight(f"{stem}bias", kind, (filters,), DeviceRef.CPU())

    def _convolved(self, x: TensorValue, stride: Any, padding: Any, dilation: Any) -> TensorValue:
        device = self.device or DeviceRef.CPU()
        bias = None if self.bias is None else self.bias.to(device)
        return convolved(
            type(self).__name__,
            x,
            self.filter.to(device),
            bias,
            stride,
            padding,
            dilation,
            self.num_groups,
            self.permute,
        )

    def __repr__(self) -> str:
        sizes = ", ".join(map(str, self.filter.shape))
        return f"{type(self).__name__}(filter=[{sizes}], bias={self.bias is not None})"


class Conv1D(_Conv):
    """A convolution of sequences: ``[n, length, in_channels]`` to ``[n, new length,
    out_channels]``.

    The new length is ``(length + padding - dilation * (kernel_size - 1) - 1) // stride + 1``.
    Weights are declared on the CPU and move to ``device`` where they are used.

    Args:
        kernel_size: The length of a window.
        in_channels: The channels of the input.
        out_channels: The channels of the output.
        dtype: The element type of filter and bias, which must be that of the input.
        stride: The distance of windows.
        padding: The zeros before and after the sequence: one number for both, or one for each.
        dilation: The distance of a window's elements.
        num_groups: The number of parts of the channels that do not see each other.
        device: Where the convolution is computed; None for the CPU.
        has_bias: Whether a bias is added.
        permute: Whether filter, input and output are in the order of PyTorch: ``[out_channels,
            in_channels / num_groups, kernel_size]`` and ``[n, channels, length]``.
        name: The weights are named ``<name>.weight`` and ``<name>.bias`` when given, else
            ``weight`` and ``bias``.

    Attributes:
        filter: ``[kernel_size, in_channels / num_groups, out_channels]``.
        bias: ``[out_channels]``, or None.

    Raises:
        ArgumentError: ML716, a size that is not a positive int; ML367, a stride, dilation or
            padding that cannot be; ML724, the groups do not divide the channels.
        ArgumentTypeError: ML302, something else than ints; ML972, arguments that do not fit.

    Example:
        >>> from maxlab import nn
        >>> from maxlab.dtype import DType
        >>> from maxlab.graph import Graph, TensorType
        >>> conv = nn.Conv1D(3, 16, 32, DType.float32, padding=1, has_bias=True)
        >>> graph = Graph("conv", conv, [TensorType(DType.float32, [2, 10, 16])])
        >>> graph.output_types[0].shape
        [Dim(2), Dim(10), Dim(32)]
    """

    stride: int
    padding: int | tuple[int, int]
    dilation: int

    @fitting(
        "ML972",
        "nn.Conv1D(kernel_size=3, in_channels=3, out_channels=8, dtype='float32'), and for a "
        "filter that is there Conv1DV1",
    )
    def __init__(
        self,
        kernel_size: int,
        in_channels: int,
        out_channels: int,
        dtype: DType | str,
        stride: int = 1,
        padding: int | tuple[int, int] = 0,
        dilation: int = 1,
        num_groups: int = 1,
        device: DeviceRef | str | None = None,
        has_bias: bool = False,
        permute: bool = False,
        name: str | None = None,
    ) -> None:
        size = check_size("Conv1D", "kernel_size", kernel_size)
        self.stride = counts("Conv1D", "stride", stride, 1)[0]
        before, after = margins("Conv1D", padding, 1)
        self.padding = before if before == after else (before, after)
        self.dilation = counts("Conv1D", "dilation", dilation, 1)[0]
        self._declare(
            (size,), in_channels, out_channels, dtype, num_groups, device, has_bias, permute, name
        )

    def __call__(self, x: TensorValue) -> TensorValue:
        """The convolution of ``x``, ``[n, length, in_channels]``, or with ``permute`` ``[n,
        in_channels, length]``.

        Raises:
            ShapeError: ML368, another rank; ML369, other channels; ML370, the result is empty.
            DTypeError: ML110, another dtype than that of the filter.
        """
        padding = margins("Conv1D", self.padding, 1)
        return self._convolved(x, (self.stride,), padding, (self.dilation,))


class Conv2d(_Conv):
    """A convolution of images: ``[n, height, width, in_channels]`` to ``[n, new height, new width,
    out_channels]``.

    A new size is ``(size + padding - dilation * (kernel_size - 1) - 1) // stride + 1``.
    Weights are declared on the CPU and move to ``device`` where they are used.

    Args:
        kernel_size: The height and width of a window: one number for both, or one for each.
        in_channels: The channels of the input.
        out_channels: The channels of the output.
        dtype: The element type of filter and bias, which must be that of the input.
        stride: The distance of windows: one number, or height and width.
        padding: The zeros around the image: one number for all sides, two for top and bottom and
            for left and right, or four: top, bottom, left, right.
        dilation: The distance of a window's elements: one number, or height and width.
        num_groups: The number of parts of the channels that do not see each other.
        device: Where the convolution is computed; None for the CPU.
        has_bias: Whether a bias is added.
        permute: Whether filter, input and output are in the order of PyTorch: ``[out_channels,
            in_channels / num_groups, height, width]`` and ``[n, channels, height, width]``.
        name: The weights are named ``<name>.weight`` and ``<name>.bias`` when given, else
            ``weight`` and ``bias``.

    Attributes:
        filter: ``[height, width, in_channels / num_groups, out_channels]``.
        bias: ``[out_channels]``, or None.

    Raises:
        ArgumentError: ML716, a size that is not a positive int; ML367, a window, stride, dilation
            or padding that cannot be; ML724, the groups do not divide the channels.
        ArgumentTypeError: ML302, something else than ints; ML972, arguments that do not fit, such
            as PyTorch's, which begin with the channels.

    Example:
        >>> from maxlab import nn
        >>> from maxlab.dtype import DType
        >>> from maxlab.graph import Graph, TensorType
        >>> conv = nn.Conv2d(3, 64, 128, DType.float32, stride=2, padding=1, permute=True)
        >>> graph = Graph("conv", conv, [TensorType(DType.float32, ["n", 64, 32, 32])])
        >>> graph.output_types[0].shape
        [Dim('n'), Dim(128), Dim(16), Dim(16)]
    """

    stride: tuple[int, int]
    padding: tuple[int, int, int, int]
    dilation: tuple[int, int]

    @fitting("ML972", "nn.Conv2d(kernel_size=3, in_channels=3, out_channels=8, dtype='float32')")
    def __init__(
        self,
        kernel_size: int | tuple[int, int],
        in_channels: int,
        out_channels: int,
        dtype: DType | str,
        stride: int | tuple[int, int] = 1,
        padding: int | tuple[int, int] | tuple[int, int, int, int] = 0,
        dilation: int | tuple[int, int] = 1,
        num_groups: int = 1,
        device: DeviceRef | str | None = None,
        has_bias: bool = False,
        permute: bool = False,
        name: str | None = None,
    ) -> None:
        what = "Conv2d"
        if not isinstance(kernel_size, (tuple, list)):
            check_size(what, "kernel_size", kernel_size)
        window = counts(what, "kernel_size", kernel_size, 2)
        self.stride = cast("tuple[int, int]", counts(what, "stride", stride, 2))
        self.padding = cast("tuple[int, int, int, int]", margins(what, padding, 2))
        self.dilation = cast("tuple[int, int]", counts(what, "dilation", dilation, 2))
        self._declare(
            window, in_channels, out_channels, dtype, num_groups, device, has_bias, permute, name
        )

    def __call__(self, x: TensorValue) -> TensorValue:
        """The convolution of ``x``, ``[n, height, width, in_channels]``, or with ``permute`` ``[n,
        in_channels, height, width]``.

        Raises:
            ShapeError: ML368, another rank; ML369, other channels; ML370, the result is empty.
            DTypeError: ML110, another dtype than that of the filter.
        """
        return self._convolved(x, self.stride, self.padding, self.dilation)

    @property
    def sharding_strategy(self) -> ShardingStrategy | None:
        """How the filter is cut into shards; None when it is not.

        It may replicate the layer, or cut the channels of the output: the shards' outputs are then
        parts of the layer's output, along its channels. Groups of channels cannot be cut.

        Raises:
            GraphError: ML381, what is set is no ``ShardingStrategy``.
            ModuleError: ML719, what is set cuts something else.
        """
        return self.filter.sharding_strategy

    @sharding_strategy.setter
    def sharding_strategy(self, strategy: ShardingStrategy | None) -> None:
        axis = 0 if self.permute else 3
        cut = axes_cut(self.filter, strategy)
        if cut - {axis} or (cut and self.num_groups > 1):
            raise unfit(
                "Conv2d",
                strategy,
                f"replicate it, or cut its {self.filter.shape[axis]} output channels, of one "
                f"group: ShardingStrategy.axiswise({axis}, n)",
            )
        self.filter.sharding_strategy = strategy
        if self.bias is not None:
            self.bias.sharding_strategy = along(self.filter, strategy, axis)

    def shard(self, devices: Iterable[DeviceRef]) -> list[Conv2d]:
        """The shards of the layer, one for each device, in their order.

        Raises:
            ModuleError: ML719, the layer has no sharding strategy.
            GraphError: ML796 (a ValueError), the strategy makes another number of shards.
        """
        places = places_of(devices)
        if self.sharding_strategy is None:
            raise no_shards("Conv2d", places)
        parts = zip(places, self.filter.shard(places), shards_of(self.bias, places), strict=True)
        return [shard_of(self, device=p, filter=filter, bias=bias) for p, filter, bias in parts]


class Conv3D(_Conv):
    """A convolution of volumes: ``[n, depth, height, width, in_channels]`` to ``[n, new depth, new
    height, new width, out_channels]``.

    A new size is ``(size + padding - dilation * (window - 1) - 1) // stride + 1``.
    Weights are declared on the CPU and move to ``device`` where they are used.

    Args:
        depth: The depth of a window.
        height: The height of a window.
        width: The width of a window.
        in_channels: The channels of the input.
        out_channels: The channels of the output.
        dtype: The element type of filter and bias, which must be that of the input.
        stride: The distance of windows: one number, or depth, height and width.
        padding: The zeros around the volume: one number for all sides, three for both sides of
            each dim, or six: front, back, top, bottom, left, right.
        dilation: The distance of a window's elements: one number, or depth, height and width.
        num_groups: The number of parts of the channels that do not see each other.
        device: Where the convolution is computed; None for the CPU.
        has_bias: Whether a bias is added.
        permute: Whether filter, input and output are in the order of PyTorch: ``[out_channels,
            in_channels / num_groups, depth, height, width]`` and ``[n, channels, depth, height,
            width]``.
        name: The weights are named ``<name>.weight`` and ``<name>.bias`` when given, else
            ``weight`` and ``bias``.

    Attributes:
        filter: ``[depth, height, width, in_channels / num_groups, out_channels]``.
        bias: ``[out_channels]``, or None.

    Raises:
        ArgumentError: ML716, a size that is not a positive int; ML367, a stride, dilation or
            padding that cannot be; ML724, the groups do not divide the channels.
        ArgumentTypeError: ML302, something else than ints; ML972, arguments that do not fit.

    Example:
        >>> from maxlab import nn
        >>> from maxlab.dtype import DType
        >>> from maxlab.graph import Graph, TensorType
        >>> conv = nn.Conv3D(2, 2, 2, 3, 8, DType.float32, padding=(1, 0, 0, 0, 0, 0))
        >>> graph = Graph("conv", conv, [TensorType(DType.float32, ["n", 4, 4, 4, 3])])
        >>> graph.output_types[0].shape
        [Dim('n'), Dim(4), Dim(3), Dim(3), Dim(8)]
    """

    stride: tuple[int, int, int]
    padding: tuple[int, int, int, int, int, int]
    dilation: tuple[int, int, int]

    @fitting("ML972", "nn.Conv3D(3, 3, 3, in_channels=3, out_channels=8, dtype='float32')")
    def __init__(
        self,
        depth: int,
        height: int,
        width: int,
        in_channels: int,
        out_channels: int,
        dtype: DType | str,
        stride: int | tuple[int, int, int] = 1,
        padding: int | tuple[int, int, int] | tuple[int, int, int, int, int, int] = 0,
        dilation: int | tuple[int, int, int] = 1,
        num_groups: int = 1,
        device: DeviceRef | str | None = None,
        has_bias: bool = False,
        permute: bool = False,
        name: str | None = None,
    ) -> None:
        what = "Conv3D"
        sizes = {"depth": depth, "height": height, "width": width}
        window = tuple(check_size(what, side, size) for side, size in sizes.items())
        self.stride = cast("tuple[int, int, int]", counts(what, "stride", stride, 3))
        pads = margins(what, padding, 3)
        self.padding = cast("tuple[int, int, int, int, int, int]", pads)
        self.dilation = cast("tuple[int, int, int]", counts(what, "dilation", dilation, 3))
        self._declare(
            window, in_channels, out_channels, dtype, num_groups, device, has_bias, permute, name
        )

    def __call__(self, x: TensorValue) -> TensorValue:
        """The convolution of ``x``, ``[n, depth, height, width, in_channels]``, or with ``permute``
        ``[n, in_channels, depth, height, width]``.

        Raises:
            ShapeError: ML368, another rank; ML369, other channels; ML370, the result is empty.
            DTypeError: ML110, another dtype than that of the filter.
        """
        return self._convolved(x, self.stride, self.padding, self.dilation)


__all__ = ["Conv1D", "Conv1DV1", "Conv2d", "Conv2dV1", "Conv3D", "Conv3DV1"]
