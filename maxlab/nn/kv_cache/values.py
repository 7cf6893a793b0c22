"""A paged cache of keys and values inside of a graph: its values and their types."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from maxlab.dtype import DType
from maxlab.errors import ArgumentError
from maxlab.graph import BufferType, BufferValue, DeviceRef, TensorType, TensorValue
from maxlab.nn.kv_cache.cache_params import KVCacheParams


@dataclass
class PagedCacheValues:
    """The paged cache of one device, as values of a graph; see `RaggedKVCacheInputs`.

    Attributes:
        kv_blocks: The pages, [pages, 2 or 1, layers, tokens of a page, heads, head's size].
        cache_lengths: The tokens of each sequence that are cached, uint32 [batch].
        lookup_table: The pages of each sequence, uint32 [batch, pages of a sequence].
        max_lengths: The most new tokens and the most tokens in all, uint32 [steps, 2], on the host.

    Example:
        >>> from maxlab.graph import Graph
        >>> from maxlab.nn.kv_cache import KVCacheParams
        >>> params = KVCacheParams(DType.float32, n_kv_heads=2, head_dim=4, page_size=128)
        >>> types = PagedCacheInputSymbols.of(params, num_layers=3, device=DeviceRef.CPU())
        >>> graph = Graph("cached", input_types=list(types))
        >>> cache = PagedCacheValues.of(graph.inputs)
        >>> [str(dim) for dim in cache.kv_blocks.shape]
        ['total_num_pages', '2', '3', '128', '2', '4']
    """

    kv_blocks: BufferValue
    cache_lengths: TensorValue
    lookup_table: TensorValue
    max_lengths: TensorValue

    def __iter__(self) -> Iterator[BufferValue | TensorValue]:
        yield self.kv_blocks
        yield self.cache_lengths
        yield self.lookup_table
        yield self.max_lengths

    @classmethod
    def of(cls, inputs: Sequence[Any]) -> PagedCacheValues:
        """The values of the four inputs of a graph that a cache has.

        Args:
            inputs: The pages, the lengths, the table and the largest lengths, in this order.

        Raises:
            ArgumentError: ML648 (a ValueError), other than four inputs.
        """
        if len(inputs) != 4:
            raise ArgumentError(
                "ML648",
                f"PagedCacheValues.of: 4 inputs of a cache expected ≠ {len(inputs)} given",
                fix="pass graph.inputs[i : i + 4], those of one device",
            )
        blocks, lengths, table, most = inputs
        return cls(blocks.buffer, lengths.tensor, table.tensor, most.tensor)


@dataclass
class PagedCacheInputSymbols:
    """The types of the inputs of a paged cache on one device, in the order a graph takes them.

    Attributes:
        kv_blocks: The type of the pages.
        cache_lengths: The type of the lengths.
        lookup_table: The type of the table.
        max_lengths: The type of the largest lengths, on the host.
    """

    kv_blocks: BufferType
    cache_lengths: TensorType
    lookup_table: TensorType
    max_lengths: TensorType

    def __iter__(self) -> Iterator[BufferType | TensorType]:
        yield self.kv_blocks
        yield self.cache_lengths
        yield self.lookup_table
        yield self.max_lengths

    @classmethod
    def of(
        cls, params: KVCacheParams, num_layers: int, device: DeviceRef, prefix: str = ""
    ) -> PagedCacheInputSymbols:
        """The types of a cache with ``params``.

        Args:
            params: The parameters of the cache.
            num_layers: The number of layers that have keys and values.
            device: Where the cache lies.
            prefix: Begins the names of the dims, so that replicas have batches of their own.

        Raises:
            ArgumentError, ArgumentTypeError: As by `KVCacheParams.shape_per_block`.
        """
        batch = f"{prefix}batch_size"
        page = params.shape_per_block(num_layers)
        return cls(
            BufferType(params.dtype, ["total_num_pages", *page], device),
            TensorType(DType.uint32, [batch], device),
            TensorType(DType.uint32, [batch, f"{prefix}max_num_pages"], device),
            TensorType(DType.uint32, [f"{prefix}steps_remaining", 2], DeviceRef.CPU()),
        )


__all__ = ["PagedCacheInputSymbols", "PagedCacheValues"]
