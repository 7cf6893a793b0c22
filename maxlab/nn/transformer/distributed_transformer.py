"""Transformers whose layers are divided among devices: each device computes its part of every
layer, and the parts add up."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, Protocol

from maxlab.dtype import DType
from maxlab.errors import ShardCountError
from maxlab.graph import BufferValue, DeviceRef, Graph, ShardingStrategy, TensorValue, Value, ops
from maxlab.nn.mlp import DistributedGemmConfig, refuse_fused
from maxlab.nn.module import Module, Shardable
from maxlab.nn.moe import MoE
from maxlab.nn.moe.expert_parallel import for_all_tokens
from maxlab.nn.rotary_embedding import RotaryEmbedding
from maxlab.nn.sharding import distribute_value, inputs_of, several, sums
from maxlab.nn.transformer.layer_groups import called, check_groups, subgraph_of
from maxlab.nn.transformer.logits import ReturnLogits, logits_of
from maxlab.nn.transformer.transformer import Transformer

if TYPE_CHECKING:
    from maxlab.nn.embedding import VocabParallelEmbedding
    from maxlab.nn.kv_cache import KVCacheParams, PagedCacheValues
    from maxlab.nn.parallel import ColumnParallelLinear


class ShardableCallable(Shardable, Protocol):
    """A layer of one input that can be cut into shards, such as ``nn.MLP`` and ``nn.RMSNorm``."""

    def __call__(self, x: TensorValue) -> TensorValue:
        """The output for ``x``."""
        ...


def take(it: Iterable[Value], n: int) -> list[Value]:
    """The next ``n`` items of ``it`` as a list; fewer where it has no more.

    Args:
        it: What is read; an iterator goes on behind them at the next call.
        n: How many.

    Example:
        >>> letters = iter("abcde")
        >>> take(letters, 2), take(letters, 2), take(letters, 2)
        (['a', 'b'], ['c', 'd'], ['e'])
    """
    return list(islice(it, n))


def forward_sharded_layers(
    layers: Sequence[Callable[[TensorValue], TensorValue]], xs: Sequence[TensorValue]
) -> list[TensorValue]:
    """The output of each layer for its input.

    Args:
        layers: The shards of a layer, or other layers, one for each device.
        xs: The input of each.

    Raises:
        ShardCountError: ML467 (an AssertionError), another number of inputs than of layers.

    Example:
        >>> forward_sharded_layers([lambda x: x + 1, lambda x: x * 2], [10, 20])
        [11, 40]
    """
    if len(layers) != len(xs):
        raise ShardCountError(
            "ML467",
            f"forward_sharded_layers: {len(layers)} inputs, one for each layer, expected ≠ "
            f"{len(xs)} given",
            fix="pass one input of each device",
        )
    return [layer(x) for layer, x in zip(layers, xs, strict=True)]


class DistributedTransformerBlock(Module):
    """A layer of a transformer on several devices: attention, then a perceptron, each of the
    normalised input and added to it.

    Each device has the vectors of all tokens, whole norms, and its part of the perceptron. With
    replicated attention and a perceptron that is replicated, or is a ``MoE`` with ``ep_size``, it
    has those of texts of its own.

    Args:
        attention: Attention on these devices, called as ``DistributedAttentionImpl`` is.
        mlp: Makes vectors ``[tokens, size]`` of such vectors. It is cut by rows unless it has a
            sharding strategy already; shards that are not replicated add up. A ``MoE`` with
            ``ep_size`` sends tokens to the devices with their experts: those of each device where
            ``attention`` is replicated, so that devices have texts of their own, else a share of
            all tokens from each device.
        attention_norm: The norm before ``attention``, named ``input_layernorm``.
        mlp_norm: The norm before ``mlp``, named ``post_attention_layernorm``.
        devices: The devices, each once.
        distributed_gemm_config: None, or a config that does not ask for fused kernels.

    Raises:
        ArgumentError: ML721, no device.
        ModuleError: ML717, a kernel is asked for that is not there; ML719, a layer that cannot be
            cut so.
        ShapeError: ML798, ``mlp`` is too small for so many devices.
    """

    def __init__(
        self,
        attention: Module,
        mlp: ShardableCallable,
        attention_norm: ShardableCallable,
        mlp_norm: ShardableCallable,
        devices: list[DeviceRef],
        distributed_gemm_config: DistributedGemmConfig | None = None,
    ) -> None:
        what = type(self).__name__
        refuse_fused(what, distributed_gemm_config=distributed_gemm_config)
        self.devices = several(what, devices)
        count = len(self.devices)
        if mlp.sharding_strategy is None:
            mlp.sharding_strategy = ShardingStrategy.rowwise(count)
        attention_norm.sharding_strategy = ShardingStrategy.replicate(count)
        mlp_norm.sharding_strategy = ShardingStrategy.replicate(count)
        self.self_attn = attention
        self.mlp = mlp
        self.input_layernorm = attention_norm
        self.post_attention_layernorm = mlp_norm

    def __call__(
        self,
        layer_idx: TensorValue,
        xs: Sequence[TensorValue],
        signal_buffers: Sequence[BufferValue] | None,
        kv_collections: Sequence[PagedCacheValues] | Sequence[Value],
        freqs_cis: Sequence[TensorValue],
        input_row_offsets: Sequence[TensorValue],
    ) -> list[TensorValue]:
        """The vectors after this layer, ``[tokens, size]``, on each device.

        Args:
            layer_idx: The layer of the cache, uint32 of rank 0.
            xs: The vectors before, ``[tokens, size]``, on each device.
            signal_buffers: A buffer on each device, such as ``nn.comm.Signals`` makes; with None
                or none of them parts go to the other devices one by one.
            kv_collections: The cache of each device; or the four values of each cache, those of
                the first device first, as a subgraph takes them.
            freqs_cis: The table of the rotary embedding on each device.
            input_row_offsets: Where the rows of each text begin, uint32 ``[batch + 1]``, on each
                device.

        Raises:
            ArgumentError: ML437, another number of inputs of attention than of devices; ML435, as
                ``ops.allreduce.sum`` says; ML648, not four values of each cache.
            ShardCountError: ML467 (an AssertionError), another number of ``xs`` than of devices.
        """
        places, signals = self.devices, list(signal_buffers or ()) or None
        caches = _caches(kv_collections, len(places))
        normed = forward_sharded_layers(self.input_layernorm.shard(places), xs)
        added = self.self_attn(layer_idx, normed, signals, caches, freqs_cis, input_row_offsets)
        xs = [x + y for x, y in zip(xs, added, strict=True)]
        normed = forward_sharded_layers(self.post_attention_layernorm.shard(places), xs)
        if isinstance(self.mlp, MoE) and self.mlp.sends_tokens:
            strategy = getattr(self.self_attn, "sharding_strategy", None)
            own_tokens = isinstance(strategy, ShardingStrategy) and strategy.is_replicate
            made = self.mlp(normed) if own_tokens else for_all_tokens(self.mlp, normed, signals)
        else:
            made = forward_sharded_layers(self.mlp.shard(places), normed)
            if not self.mlp.sharding_strategy.is_replicate:
                made = sums(made, places, signals)
        return [x + y for x, y in zip(xs, made, strict=True)]


def _caches(given: Sequence[Any], count: int) -> Sequence[PagedCacheValues]:
    """The caches of ``count`` devices, which may come as the values of each."""
    from maxlab.nn.kv_cache import PagedCacheValues

    if not given or not isinstance(given[0], Value):
        return given
    values = iter(given)
    return [PagedCacheValues.of(take(values, 4)) for _ in range(count)]


class DistributedTransformer(Transformer):
    """A model of language that several devices compute together: each has a part of every layer,
    of the table of tokens and of the head, and a paged cache of its heads.

    Args:
        dim: The size of a token's vector.
        n_heads: The number of attention heads, of all devices.
        layers: The layers, called as ``DistributedTransformerBlock`` is.
        norm: The norm behind the layers.
        output: Makes the logits; named ``lm_head``.
        embedding: The vectors of tokens; named ``embed_tokens``.
        kv_params: The parameters of the cache, made for as many devices.
        devices: The devices, each once.
        rope: The rotary embedding, whose table each layer gets. A layer whose ``self_attn`` has
            another ``rope`` gets that one's.
        return_logits: The tokens whose logits are returned.
        use_subgraphs: Whether layers of a group are one subgraph, which is called for each with
            its weights. They must be alike but for the values of weights. Names of weights become
            final then.
        subgraph_layer_groups: The numbers of the layers of each group, with ``use_subgraphs``; all
            layers are one group where it is None. Layers of no group are built one by one.
        logits_scaling: What logits are divided by.

    Raises:
        ArgumentError: ML468 (a ValueError), groups of layers that are not there, or of one twice;
            ML716, a size that is not a positive int; ML721, no device.
        ArgumentTypeError: ML520, ``return_logits`` is no ``ReturnLogits``.
        ModuleError: ML719, ``norm`` cannot be replicated.
    """

    def __init__(
        self,
        dim: int,
        n_heads: int,
        layers: list[DistributedTransformerBlock],
        norm: ShardableCallable,
        output: ColumnParallelLinear,
        embedding: VocabParallelEmbedding,
        kv_params: KVCacheParams,
        devices: list[DeviceRef],
        rope: RotaryEmbedding,
        return_logits: ReturnLogits = ReturnLogits.LAST_TOKEN,
        use_subgraphs: bool = False,
        subgraph_layer_groups: list[list[int]] | None = None,
        logits_scaling: float = 1.0,
    ) -> None:
        what = type(self).__name__
        self.devices = several(what, devices)
        layer: Any = norm
        super().__init__(
            dim, n_heads, layers, layer, output, embedding, kv_params, rope, return_logits,
            logits_scaling=logits_scaling,
        )  # fmt: skip
        norm.sharding_strategy = ShardingStrategy.replicate(len(self.devices))
        self.use_subgraphs = bool(use_subgraphs)
        groups = subgraph_layer_groups
        self.subgraph_layer_groups = (
            [list(range(len(self.layers)))]
            if groups is None
            else check_groups(what, groups, len(self.layers))
        )

    def __call__(  # type: ignore[override]  # what each device has
        self,
        tokens: TensorValue,
        signal_buffers: Iterable[BufferValue] | None,
        kv_collections: Sequence[PagedCacheValues],
        return_n_logits: TensorValue,
        input_row_offsets: TensorValue,
    ) -> tuple[TensorValue, ...]:
        """The logits of the last token of each text, float32 ``[batch, words]``; with ``VARIABLE``
        and ``ALL`` also those of more tokens, ``[rows, words]``, and where the rows of each text
        begin among them, ``[batch + 1]``; all on the first device.

        Args:
            tokens: The tokens of all texts, integers ``[tokens]``, on one device.
            signal_buffers: A buffer on each device, such as ``nn.comm.Signals`` makes; with None
                parts go to the other devices one by one.
            kv_collections: The cache of each device.
            return_n_logits: The number of tokens of each text for ``VARIABLE``, int64 ``[1]`` on
                the host. Every text must have as many.
            input_row_offsets: Where the tokens of each text begin, uint32 ``[batch + 1]``.

        Raises:
            ArgumentError: ML437, another number of caches than of devices; ML435, as
                ``ops.allreduce.sum`` says.
        """
        signals = None if signal_buffers is None else list(signal_buffers)
        xs = self.embed_tokens(tokens, signals)
        offsets = inputs_of(type(self).__name__, input_row_offsets, self.devices)
        tables: dict[int, list[TensorValue]] = {}
        groups = self.subgraph_layer_groups if self.use_subgraphs else []
        group_of = {number: group for group, many in enumerate(groups) for number in many}
        built: dict[int, Graph] = {}
        layers: list[Any] = list(self.layers)
        for number, layer in enumerate(layers):
            rope = getattr(getattr(layer, "self_attn", None), "rope", self.rope)
            if id(rope) not in tables:
                tables[id(rope)] = distribute_value(rope.freqs_cis, self.devices)
            idx = ops.constant(number, DType.uint32, DeviceRef.CPU())
            more = [tables[id(rope)], offsets]
            group = group_of.get(number)
            if group is None:
                xs = layer(idx, xs, signals, kv_collections, *more)
                continue
            flat = [value for cache in kv_collections for value in cache]
            given = [idx, xs, signals, flat, *more]
            if group not in built:
                built[group] = subgraph_of(layer, given)
            xs = [y.tensor for y in called(built[group], layer, given)]

        def head(rows: TensorValue) -> TensorValue:
            first: Any = self.norm
            normed = first.shard(self.devices)[0](rows)
            logits = ops.cast(self.lm_head(normed, signals)[0], DType.float32)
            return logits if self.logits_scaling == 1.0 else logits / self.logits_scaling

        return logits_of(head, xs[0], offsets[0], return_n_logits, self.return_logits)


__all__ = [
    "DistributedTransformer",
    "DistributedTransformerBlock",
    "ShardableCallable",
    "distribute_value",
    "forward_sharded_layers",
    "take",
]
