"""``Linear`` and ``MLP``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from maxlab.dtype import DType
from maxlab.errors import ArgumentError, ModuleError
from maxlab.graph import DeviceRef, TensorValue, TensorValueLike, Weight, ops
from maxlab.graph.operands import as_dtype
from maxlab.nn.calls import Layer
from maxlab.nn.module import Module
from maxlab.nn.sharding import no_shards, places_of


def check_size(what: str, name: str, value: int | None) -> int:
    """``value``, a number of elements.

    Raises:
        ArgumentError: ML716, not a positive int.
    """
    if isinstance(value, bool) or not isinstance(value, int) or value <= 0:
        raise ArgumentError(
            "ML716",
            f"{what}: {name} must be a positive int, got {value!r}",
            fix="pass 1 or more; symbolic sizes belong to inputs, not to layers",
        )
    return value


def refuse_quantization(what: str, **given: Any) -> None:
    """Raises ModuleError unless every value is None.

    Raises:
        ModuleError: ML717, a quantised layer is asked for.
    """
    for name, value in given.items():
        if value is not None:
            raise ModuleError(
                "ML717",
                f"{what}: {name}={value!r}, but quantised layers cannot be built in this version",
                fix=f"leave {name} out and load dequantised weights",
            )


class Linear(Module):
    """The linear map ``y = x @ weight.T + bias``: ``[..., in_dim]`` to ``[..., out_dim]``.

    Weights are declared on the CPU and move to ``device`` where they are used.

    Args:
        in_dim: The size of the last dim of the input.
        out_dim: The size of the last dim of the output.
        dtype: The element type of weight and bias.
        device: Where the product is computed.
        has_bias: Whether a bias is added.
        quantization_encoding: None; quantised layers cannot be built in this version.
        float8_config: None; as above.
        name: The weights are named ``<name>.weight`` and ``<name>.bias`` when given, else
            ``weight`` and ``bias``.
        clip_weight: When given, weights are used as if cut to ``[-clip_weight, clip_weight]``.
        in_features: ``in_dim``, as PyTorch calls it.
        out_features: ``out_dim``, as PyTorch calls it.
        bias: ``has_bias``, as PyTorch calls it; here a layer has none unless it is asked for.

    Attributes:
        weight: ``[out_dim, in_dim]``.
        bias: ``[out_dim]``, or None.

    Raises:
        ArgumentError: ML716, a size that is not a positive int; ML718, a negative ``clip_weight``.
        ModuleError: ML717, a quantised layer is asked for.

    Example:
        >>> from maxlab import nn
        >>> from maxlab.dtype import DType
        >>> from maxlab.graph import DeviceRef, Graph, TensorType
        >>> linear = nn.Linear(256, 128, DType.float32, DeviceRef.CPU(), has_bias=True)
        >>> graph = Graph("linear", linear, [TensorType(DType.float32, ["batch", 256])])
        >>> graph.output_types[0].shape
        [Dim('batch'), Dim(128)]
    """

    weight: Weight
    bias: Weight | None = None
    input_scale: Weight | None = None
    weight_scale: Weight | None = None
    device: DeviceRef

    def __init__(
        self,
        in_dim: int | None = None,
        out_dim: int | None = None,
        dtype: DType | str = DType.float32,
        device: DeviceRef | str | None = None,
        has_bias: bool = False,
        quantization_encoding: Any = None,
        float8_config: Any = None,
        name: str | None = None,
        clip_weight: float | None = None,
        *,
        in_features: int | None = None,
        out_features: int | None = None,
        bias: bool | None = None,
    ) -> None:
        in_dim = in_features if in_dim is None else in_dim
        out_dim = out_features if out_dim is None else out_dim
        has_bias = has_bias if bias is None else bias
        refuse_quantization(
            "Linear", quantization_encoding=quantization_encoding, float8_config=float8_config
        )
        columns = check_size("Linear", "in_dim", in_dim)
        rows = check_size("Linear", "out_dim", out_dim)
        if clip_weight is not None and not clip_weight >= 0:
            raise ArgumentError(
                "ML718",
                f"Linear: clip_weight must be 0 or more, got {clip_weight}",
                fix="pass the largest absolute value that weights may have, or None",
            )
        self.device = DeviceRef.CPU() if device is None else DeviceRef.from_device(device)
        dtype = as_dtype("Linear", dtype)
        self.clip_weight = clip_weight
        stem = f"{name}." if name else ""
        cpu = DeviceRef.CPU()
        self.weight = Weight(f"{stem}weight", dtype, (rows, columns), cpu)
        if has_bias:
            self.bias = Weight(f"{stem}bias", dtype, (rows,), cpu)

    def __call__(self, x: TensorValue) -> TensorValue:
        """The product, ``[..., out_dim]``, of ``x``, ``[..., in_dim]``.

        Raises:
            ShapeError: ML203, the last dim of ``x`` is not ``in_dim``.
        """
        weight = self.weight.to(self.device)
        if self.clip_weight is not None:
            limit = float(self.clip_weight)
            weight = ops.max(ops.min(weight, limit), -limit)
        y = x @ weight.T
        return y if self.bias is None else y + self.bias.to(self.device)

    @property
    def sharding_strategy(self) -> Any:
        """How the weight is cut into shards; None when it is not."""
        return self.weight.sharding_strategy

    @sharding_strategy.setter
    def sharding_strategy(self, strategy: Any) -> None:
        self.weight.sharding_strategy = strategy

    def shard(self, devices: Iterable[DeviceRef]) -> list[Linear]:
        """The layer cut for several devices.

        Raises:
            GraphError: The weight has no sharding strategy; none can be set in this version.
        """
        raise no_shards("Linear", places_of(devices))

    def __repr__(self) -> str:
        out_dim, in_dim = self.weight.shape
        return f"Linear(in_dim={in_dim}, out_dim={out_dim}, bias={self.bias is not None})"


_ACTIVATIONS: dict[str, Callable[[TensorValue], TensorValue]] = {
    "silu": ops.silu,
    "gelu": ops.gelu,
    "gelu_tanh": lambda x: ops.gelu(x, "tanh"),
    "relu": ops.relu,
    "tanh": ops.tanh,
    "sigmoid": ops.sigmoid,
}


class MLP(Module):
    """Three linear maps: ``down(activation(gate(x)) * up(x))``.

    Args:
        dtype: The element type of the weights.
        quantization_encoding: None; quantised layers cannot be built in this version.
        hidden_dim: The size of the last dim of input and output.
        feed_forward_length: The size of the last dim in between.
        devices: The first is used.
        linear_cls: Makes the three layers; called as ``Linear`` is.
        has_bias: Whether the layers have biases.
        activation_function: ``silu``, ``gelu``, ``gelu_tanh``, ``relu``, ``tanh`` or ``sigmoid``.
        float8_config: None; as above.
        dist_gemm_config: None; products over several devices cannot be built in this version.

    Raises:
        ArgumentError: ML716, a size that is not a positive int; ML720, an unknown activation;
            ML721, no device.
        ModuleError: ML717, a quantised or distributed layer is asked for.

    Example:
        >>> from maxlab import nn
        >>> from maxlab.dtype import DType
        >>> from maxlab.graph import DeviceRef
        >>> mlp = nn.MLP(DType.float32, None, 64, 256, [DeviceRef.CPU()])
        >>> list(mlp.state_dict())
        ['gate_proj.weight', 'down_proj.weight', 'up_proj.weight']
    """

    def __init__(
        self,
        dtype: DType,
        quantization_encoding: Any,
        hidden_dim: int,
        feed_forward_length: int,
        devices: Sequence[DeviceRef],
        linear_cls: Callable[..., Linear] = Linear,
        has_bias: bool = False,
        activation_function: str = "silu",
        float8_config: Any = None,
        dist_gemm_config: Any = None,
    ) -> None:
        refuse_quantization(
            "MLP",
            quantization_encoding=quantization_encoding,
            float8_config=float8_config,
            dist_gemm_config=dist_gemm_config,
        )
        if activation_function not in _ACTIVATIONS:
            raise ArgumentError(
                "ML720",
                f"MLP: no activation {activation_function!r}",
                fix="use one of " + ", ".join(_ACTIVATIONS),
            )
        device = first_device("MLP", devices)
        self.activation_function = activation_function

        def linear(in_dim: int, out_dim: int) -> Linear:
            return linear_cls(
                in_dim=in_dim, out_dim=out_dim, dtype=dtype, device=device, has_bias=has_bias
            )

        self.gate_proj = linear(hidden_dim, feed_forward_length)
        self.down_proj = linear(feed_forward_length, hidden_dim)
        self.up_proj = linear(hidden_dim, feed_forward_length)

    def __call__(self, x: TensorValue) -> TensorValue:
        """The output, of the type of ``x``, ``[..., hidden_dim]``."""
        activation = _ACTIVATIONS[self.activation_function]
        made: TensorValue = self.down_proj(activation(self.gate_proj(x)) * self.up_proj(x))
        return made

    @property
    def sharding_strategy(self) -> Any:
        """How the layers are cut into shards; None when they are not."""
        return self.gate_proj.sharding_strategy

    @sharding_strategy.setter
    def sharding_strategy(self, strategy: Any) -> None:
        for layer in (self.gate_proj, self.down_proj, self.up_proj):
            layer.sharding_strategy = strategy

    def shard(self, devices: Iterable[DeviceRef]) -> list[MLP]:
        """The layer cut for several devices.

        Raises:
            ModuleError: ML719, it has no sharding strategy; none can be set in this version.
        """
        raise no_shards("MLP", places_of(devices))


def first_device(what: str, devices: Sequence[DeviceRef]) -> DeviceRef:
    """The first of ``devices``.

    Raises:
        ArgumentError: ML721, there is none.
    """
    places = [DeviceRef.from_device(device) for device in devices]
    if not places:
        raise ArgumentError("ML721", f"{what}: devices is empty", fix="pass [DeviceRef.CPU()]")
    return places[0]


@dataclass(eq=False)
class LinearV1(Layer):
    """The linear map ``y = x @ weight.T + bias`` with a weight and bias that are given.

    Deprecated: use ``Linear``.

    Args:
        weight: ``[out_dim, in_dim]``.
        bias: ``[out_dim]``, or None.
    """

    weight: TensorValueLike
    bias: TensorValueLike | None = None

    def __call__(self, x: TensorValue) -> TensorValue:
        """The product, ``[..., out_dim]``, of ``x``, ``[..., in_dim]``."""
        y = x @ TensorValue(self.weight).T
        return y if self.bias is None else y + self.bias


@dataclass(eq=False)
class MLPV1(Layer):
    """Three linear maps with SiLU: ``down(silu(gate(x)) * up(x))``.

    Deprecated: use ``MLP``.
    """

    gate_proj: LinearV1
    down_proj: LinearV1
    up_proj: LinearV1

    def __call__(self, x: TensorValue) -> TensorValue:
        """The output, of the shape of ``x``."""
        made: TensorValue = self.down_proj(ops.silu(self.gate_proj(x)) * self.up_proj(x))
        return made
