"""Attention on several devices: each runs its shard of a layer, on its own input and cache."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from inspect import Signature, signature
from typing import TYPE_CHECKING, Any, ClassVar

from maxlab.errors import ArgumentError
from maxlab.graph import BufferValue, ShardingStrategy, TensorValue
from maxlab.nn.attention.interfaces import DistributedAttentionImpl
from maxlab.nn.sharding import places_of, sums, unfit

if TYPE_CHECKING:
    from maxlab.nn.kv_cache import PagedCacheValues


_NOT_TAKEN = ("self", "sharding_strategy")


class _OnDevices(DistributedAttentionImpl):
    """A layer whose shards run each on its own input: the class that mixes it in names it before
    the layer."""

    _least: ClassVar[int] = 1
    __signature__: ClassVar[Signature]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        layer: Any = super()
        told = signature(layer.__init__)  # what editors show: the arguments that the layer takes
        taken = [one for name, one in told.parameters.items() if name not in _NOT_TAKEN]
        cls.__signature__ = told.replace(parameters=taken, return_annotation=Signature.empty)

    def __init__(self, strategy: str, *args: Any, **kwargs: Any) -> None:
        layer: Any = self
        given = kwargs.get("sharding_strategy")
        if given is not None:
            fix = f"leave sharding_strategy out, as the class itself is {strategy}"
            raise unfit(type(self).__name__, given, fix)
        super().__init__(*args, **kwargs)
        layer.devices = places_of(layer.devices)
        count = len(layer.devices)
        if count < self._least:
            raise ArgumentError(
                "ML466",
                f"{type(self).__name__}: devices must name {self._least} or more to divide heads "
                f"among, got {count}",
                fix="name more devices, or use the layer for one device",
            )
        layer.sharding_strategy = getattr(ShardingStrategy, strategy)(count)

    def _outputs(
        self,
        layer_idx: TensorValue,
        xs: Sequence[TensorValue],
        kv_collections: Sequence[PagedCacheValues],
        freqs_cis: Sequence[TensorValue] | TensorValue,
        input_row_offsets: Sequence[TensorValue],
    ) -> list[TensorValue]:
        """The outputs of all shards.

        Raises:
            ArgumentError: ML437, another number of inputs than of devices.
        """
        layer: Any = self
        what, count = type(self).__name__, len(layer.devices)
        tables = freqs_cis if isinstance(freqs_cis, (list, tuple)) else [freqs_cis] * count
        given = {
            "xs": xs, "kv_collections": kv_collections, "freqs_cis": tables,
            "input_row_offsets": input_row_offsets,
        }  # fmt: skip
        for name, values in given.items():
            if len(values) != count:
                raise ArgumentError(
                    "ML437",
                    f"{what}: it was made for {count} devices, got {len(values)} {name}",
                    fix="pass one of each device",
                )
        inputs = zip(layer.shard(layer.devices), *given.values(), strict=True)
        found: list[TensorValue] = []
        for shard, *values in inputs:
            # A shard is of the same class; what it computes is what the layer behind this one does.
            one: Any = super(DistributedAttentionImpl, shard)
            found.append(one.__call__(layer_idx, *values))
        return found


class TensorParallel(_OnDevices):
    """Makes the heads of a layer of attention be divided among its devices."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__("rowwise", *args, **kwargs)

    def __call__(
        self,
        layer_idx: TensorValue,
        xs: Sequence[TensorValue],
        signal_buffers: Iterable[BufferValue] | None,
        kv_collections: Sequence[PagedCacheValues],
        freqs_cis: Sequence[TensorValue] | TensorValue,
        input_row_offsets: Sequence[TensorValue],
    ) -> list[TensorValue]:
        """The attention of each row, ``[tokens, hidden_size]``, on each device.

        Args:
            layer_idx: The layer of the cache, uint32 of rank 0.
            xs: The rows of all sequences on each device, all alike.
            signal_buffers: A buffer on each device, such as ``nn.comm.Signals`` makes; with None
                the outputs of shards go to the other devices one by one.
            kv_collections: The cache of each device, with the heads that it has.
            freqs_cis: The table of ``rope`` on each device, or one for all.
            input_row_offsets: Where the rows of each sequence begin, on each device.

        Raises:
            ArgumentError: ML437, another number of inputs than of devices; ML435, as
                ``ops.allreduce.sum`` says.
            ShapeError: ML659, shapes that do not fit (a ValueError).
            DTypeError: ML666, other dtypes than that of the cache (a ValueError).
        """
        layer: Any = self
        outputs = self._outputs(layer_idx, xs, kv_collections, freqs_cis, input_row_offsets)
        return sums(outputs, layer.devices, signal_buffers)


class DataParallel(_OnDevices):
    """Makes each device have a whole layer of attention, for sequences of its own."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__("replicate", *args, **kwargs)

    def __call__(
        self,
        layer_idx: TensorValue,
        xs: Sequence[TensorValue],
        signal_buffers: Iterable[BufferValue] | None = None,
        kv_collections: Sequence[PagedCacheValues] = (),
        freqs_cis: Sequence[TensorValue] | TensorValue = (),
        input_row_offsets: Sequence[TensorValue] = (),
    ) -> list[TensorValue]:
        """The attention of the rows of each device, ``[tokens of the device, hidden_size]``.

        Args:
            layer_idx: The layer of the cache, uint32 of rank 0.
            xs: The rows of the sequences of each device.
            signal_buffers: What tensor parallelism would take in this place; devices do not
                exchange anything here, so that it may be None.
            kv_collections: The cache of each device.
            freqs_cis: The table of ``rope`` on each device, or one for all.
            input_row_offsets: Where the rows of each sequence of the device begin, from 0.

        Raises:
            ArgumentError: ML437, another number of inputs than of devices.
            ShapeError: ML659, shapes that do not fit (a ValueError).
            DTypeError: ML666, other dtypes than that of the cache (a ValueError).
        """
        return self._outputs(layer_idx, xs, kv_collections, freqs_cis, input_row_offsets)


__all__ = ["DataParallel", "TensorParallel"]
