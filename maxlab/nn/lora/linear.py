"""``LinearLoRA``: a linear map to which adapters of low rank are added."""

from __future__ import annotations

from typing import Any

from maxlab.dtype import DType
from maxlab.errors import ModuleError
from maxlab.graph import DeviceRef, Graph, ShardingStrategy, TensorValue, Weight
from maxlab.graph.quantization import QuantizationEncoding
from maxlab.nn import kernels
from maxlab.nn.dense import Linear, check_size
from maxlab.nn.lora.batches import BatchInfo, require_batch


class LinearLoRA(Linear):
    """The linear map ``y = x @ weight.T + bias`` plus ``x @ A.T @ B.T`` of the adapter of each row
    [1]_: ``[tokens, in_dim]`` to ``[tokens, out_dim]``.

    There is room for ``max_num_loras`` adapters of ranks up to ``max_lora_rank``. The rows of a
    batch that use none of them, of the id -1, are those of the base, and nothing is computed for
    them besides. The factor ``alpha / r`` of an adapter belongs into its matrix B.

    Args:
        in_dim: The size of the last dim of the input.
        out_dim: The size of the last dim of the output.
        max_num_loras: The number of adapters.
        max_lora_rank: The largest rank.
        dtype: The element type of all weights.
        device: Where the output is computed, and where the matrices of adapters live.
        has_bias: Whether a bias is added.
        has_lora_bias: Whether each adapter has a bias.
        name: The weights have names that begin with ``<name>.`` when given.
        quantization_encoding: How the weight of the base is packed; see ``Linear``. The matrices
            of adapters have numbers of ``dtype``, float32 where that is the dtype of bytes.
        float8_config: None; 8-bit floats cannot be used in this version.
        clip_weight: As of ``Linear``; adapters are not cut.

    Attributes:
        lora_A: The matrices A, ``lora_A.weight`` of ``[max_num_loras, max_lora_rank, in_dim]``.
        lora_B: The matrices B, ``lora_B.weight`` of ``[max_num_loras, out_dim, max_lora_rank]``.
        lora_bias: The biases, ``lora.bias`` of ``[max_num_loras, out_dim]``, or None.

    Raises:
        ArgumentError: ML716, a size that is not a positive int; ML718, a negative ``clip_weight``.
        ModuleError: ML717, an encoding that the layer does not have; ML782, ``in_dim`` is not of
            whole blocks.

    Example:
        >>> from maxlab.dtype import DType
        >>> from maxlab.graph import DeviceRef, Graph, TensorType
        >>> f32, i32, u32 = DType.float32, DType.int32, DType.uint32
        >>> linear = LinearLoRA(256, 128, max_num_loras=4, max_lora_rank=16, dtype=f32,
        ...                     device=DeviceRef.CPU())
        >>> types = [TensorType(f32, ["tokens", 256]), TensorType(i32, ["texts"]),
        ...          TensorType(u32, ["texts"]), TensorType(u32, ["ends"])]
        >>> with Graph("adapted", input_types=types) as graph:
        ...     x, ids, ranks, offsets = (value.tensor for value in graph.inputs)
        ...     linear.set_lora_batch_info(ids, ranks, offsets)
        ...     graph.output(linear(x))
        >>> graph.output_types[0].shape, sorted(linear.state_dict())
        ([Dim('tokens'), Dim(128)], ['lora_A.weight', 'lora_B.weight', 'weight'])

    .. [1] E. Hu et al., "LoRA: Low-Rank Adaptation of Large Language Models", 2021,
       arXiv:2106.09685.
    """

    lora_A: Weight  # noqa: N815 - the name of the reference
    lora_B: Weight  # noqa: N815
    lora_bias: Weight | None = None
    batch_info: BatchInfo | None = None

    def __init__(
        self,
        in_dim: int,
        out_dim: int,
        max_num_loras: int,
        max_lora_rank: int,
        dtype: DType,
        device: DeviceRef,
        has_bias: bool = False,
        has_lora_bias: bool = False,
        name: str | None = None,
        quantization_encoding: QuantizationEncoding | None = None,
        float8_config: Any = None,
        clip_weight: float | None = None,
    ) -> None:
        super().__init__(
            in_dim, out_dim, dtype, device, has_bias, quantization_encoding, float8_config, name,
            clip_weight,
        )  # fmt: skip
        kind = DType.float32 if dtype is DType.uint8 else dtype
        self._add(in_dim, out_dim, max_num_loras, max_lora_rank, kind, has_lora_bias, name)

    @classmethod
    def around(
        cls, linear: Linear, max_num_loras: int, max_lora_rank: int, dtype: DType
    ) -> LinearLoRA:
        """A layer that computes what ``linear`` does, with the same weights, and adds adapters.

        Args:
            linear: The base.
            max_num_loras: The number of adapters.
            max_lora_rank: The largest rank.
            dtype: The element type of the matrices of adapters, which is that of rows.

        Raises:
            ArgumentError: ML716, a size that is not a positive int.
        """
        made = cls.__new__(cls)
        for name, value in vars(linear).items():
            if not name.startswith("_"):
                setattr(made, name, value)
        made._was_packed = linear._was_packed
        out_dim, in_dim = map(int, linear.weight.shape)
        encoding = linear.weight.quantization_encoding
        if encoding is not None:
            in_dim = in_dim // encoding.block_size * encoding.elements_per_block
        made._add(in_dim, out_dim, max_num_loras, max_lora_rank, dtype, False, None)
        return made

    def _add(
        self,
        in_dim: int,
        out_dim: int,
        max_num_loras: int,
        max_lora_rank: int,
        dtype: DType,
        has_lora_bias: bool,
        name: str | None,
    ) -> None:
        """Declares the weights of adapters, on the device: they are changed there."""
        self.max_num_loras = slots = check_size("LinearLoRA", "max_num_loras", max_num_loras)
        self.max_lora_rank = rank = check_size("LinearLoRA", "max_lora_rank", max_lora_rank)
        stem, device = f"{name}." if name else "", self.device
        self.lora_A = Weight(f"{stem}lora_A.weight", dtype, (slots, rank, in_dim), device)
        self.lora_B = Weight(f"{stem}lora_B.weight", dtype, (slots, out_dim, rank), device)
        if has_lora_bias:
            self.lora_bias = Weight(f"{stem}lora.bias", dtype, (slots, out_dim), device)

    def set_lora_batch_info(
        self, lora_ids: TensorValue, lora_ranks: TensorValue, lora_grouped_offsets: TensorValue
    ) -> None:
        """Sets the adapters of the rows of the batch; call it before the layer, in each graph.

        Args:
            lora_ids: The adapter of each group of rows, integers [groups]; -1 is the base.
            lora_ranks: The rank of each group, integers [groups].
            lora_grouped_offsets: Where the groups begin, and the end of the last one, integers
                [groups + 1]. Rows of no group are those of the base.
        """
        self.batch_info = BatchInfo(lora_ids, lora_ranks, lora_grouped_offsets)

    def apply_lora(self, x: TensorValue) -> TensorValue:
        """The sum that adapters add to the output, ``[tokens, out_dim]``; 0 for rows of the base.

        Args:
            x: The rows, ``[tokens, in_dim]``.

        Raises:
            ModuleError: ML535 (a ValueError), ``set_lora_batch_info`` has not been called.
            ShapeError: ML659, other ranks or sizes (a ValueError).
            DTypeError: ML666, another dtype than that of the matrices (a ValueError).
        """
        info = require_batch(type(self).__name__, self.batch_info)
        a, b, bias = self.lora_values()
        return kernels.sgmv_lora_kernel(x, a, b, info.ids, info.ranks, info.offsets, None, bias)

    def lora_values(self) -> tuple[TensorValue, TensorValue, TensorValue | None]:
        """The matrices A and B and the biases in the graph that is being built. They are read where
        the registry of weights has them, on the device too, so that they may be changed between
        runs.

        Raises:
            NoGraphError: ML313, no graph is being built.
        """
        graph = Graph.current

        def value(weight: Weight) -> TensorValue:
            return graph.add_weight(weight, force_initial_weight_on_host=False)

        bias = None if self.lora_bias is None else value(self.lora_bias)
        return value(self.lora_A), value(self.lora_B), bias

    def base(self, x: TensorValue) -> TensorValue:
        """The output without adapters, ``[tokens, out_dim]``.

        Args:
            x: The rows, ``[tokens, in_dim]``.

        Raises:
            ShapeError: ML203, or packed ML741, the last dim of ``x`` is not ``in_dim``.
        """
        return super().__call__(x)

    def __call__(self, x: TensorValue) -> TensorValue:
        """The output, ``[tokens, out_dim]``, of ``x``, ``[tokens, in_dim]``.

        Raises:
            ModuleError: ML535 (a ValueError), ``set_lora_batch_info`` has not been called.
            ShapeError: ML203, ML659, or packed ML741, other ranks or sizes.
            DTypeError: ML666, another dtype than that of the matrices (a ValueError).
        """
        return self.base(x) + self.apply_lora(x)

    @property
    def sharding_strategy(self) -> ShardingStrategy | None:
        """None: the layer is not cut.

        Raises:
            ModuleError: ML719, something else is set: adapters cannot be cut in this version.
        """
        return None

    @sharding_strategy.setter
    def sharding_strategy(self, strategy: ShardingStrategy | None) -> None:
        if strategy is not None:
            raise ModuleError(
                "ML719",
                "LinearLoRA cannot be cut for several devices in this version",
                fix="leave sharding_strategy at None and use one device",
            )


__all__ = ["LinearLoRA"]
