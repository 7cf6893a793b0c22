"""A paged cache in NumPy, with pages in a shuffled order, and models of graphs that take one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from maxlab.dtype import DType
from maxlab.graph import BufferType, BufferValue, DeviceRef, Graph, TensorType, TensorValue
from tests.cpu_and_gpu import at, numpy, session

Array = np.ndarray[Any, Any]
U32 = DType.uint32


@dataclass
class Params:
    """What kernels read of the parameters of a cache."""

    dtype: DType = DType.float32
    n_kv_heads_per_device: int = 2
    head_dim: int = 8
    page_size: int | None = 4
    is_mla: bool = False


@dataclass
class Values:
    """A cache inside of a graph."""

    kv_blocks: BufferValue
    cache_lengths: TensorValue
    lookup_table: TensorValue
    max_lengths: TensorValue


class Cache:
    """Pages of random keys and values, free ones of NaN, for sequences of several lengths.

    Args:
        params: Its heads and pages.
        cached: The cached tokens of each sequence.
        new: The new tokens of each sequence.
        layers: The number of layers.
        seed: Decides numbers and the order of pages.
    """

    def __init__(
        self,
        params: Params,
        cached: Sequence[int],
        new: Sequence[int],
        layers: int = 2,
        seed: int = 1,
    ) -> None:
        rng = np.random.default_rng(seed)
        page, kind = params.page_size or 1, params.dtype.ml_numpy
        needed = [-(-(c + n) // page) for c, n in zip(cached, new, strict=True)]
        count, most = sum(needed) + 3, max([*needed, 0]) + 1
        self.params, self.layers = params, layers
        self.lengths = np.array(cached, np.uint32)
        self.offsets = np.cumsum([0, *new]).astype(np.uint32)
        order = list(rng.permutation(count))
        self.table = np.full((len(cached), most), count, np.uint32)
        for seq, pages in enumerate(needed):
            self.table[seq, :pages] = [order.pop() for _ in range(pages)]
        heads, dim, parts = params.n_kv_heads_per_device, params.head_dim, 2 - params.is_mla
        self.blocks = np.full((count, parts, layers, page, heads, dim), np.nan, kind)
        for seq, length in enumerate(cached):
            for position in range(length):
                made = rng.standard_normal((parts, layers, heads, dim)).astype(kind)
                self.blocks[self.table[seq, position // page], :, :, position % page] = made

    @property
    def tokens(self) -> int:
        """The number of new tokens of all sequences."""
        return int(self.offsets[-1])

    def rows(self) -> list[tuple[int, int, int]]:
        """The row, the sequence and the position of each new token."""
        return [
            (row, seq, int(self.lengths[seq]) + row - int(self.offsets[seq]))
            for seq in range(len(self.lengths))
            for row in range(int(self.offsets[seq]), int(self.offsets[seq + 1]))
        ]

    def slot(self, seq: int, position: int) -> tuple[int, int]:
        """The page of a position, and the slot in it."""
        page = self.blocks.shape[3]
        return int(self.table[seq, position // page]), position % page

    def stored(self, layer: int, part: int, x: Array) -> None:
        """Write ``x``, [tokens, heads, dim], to the pages of its rows, one at a time."""
        for row, seq, position in self.rows():
            page, slot = self.slot(seq, position)
            self.blocks[page, part, layer, slot] = x[row].reshape(self.blocks.shape[4:])

    def attended(
        self,
        q: Array,
        layer: int,
        scale: float,
        sees: Callable[[int, int], bool] = lambda i, j: j <= i,
        sinks: Array | None = None,
    ) -> Array:
        """The attention of ``q``, [tokens, query heads, dim], in float64, one head at a time.

        Args:
            q: The queries.
            layer: The layer.
            scale: The factor of scores.
            sees: Whether the query at a position sees the key at another one.
            sinks: A further score of each query head.
        """
        made = np.zeros(q.shape)
        group = q.shape[1] // self.blocks.shape[4]
        for row, seq, position in self.rows():
            total = int(self.lengths[seq] + self.offsets[seq + 1] - self.offsets[seq])
            places = [self.slot(seq, j) for j in range(total) if sees(position, j)]
            for head in range(q.shape[1]):
                keys, values = (
                    [self.blocks[page, part, layer, slot, head // group] for page, slot in places]
                    for part in (0, 1)
                )
                scores = [
                    float(np.dot(q[row, head].astype(float), key.astype(float))) * scale
                    for key in keys
                ]
                extra = [] if sinks is None else [float(sinks[head])]
                if not scores:
                    continue
                weights = np.exp(np.array([*scores, *extra]) - max([*scores, *extra]))
                weights /= weights.sum()
                made[row, head] = sum(
                    w * v.astype(float) for w, v in zip(weights, values, strict=False)
                )
        return made

    def types(self, place: DeviceRef) -> list[BufferType | TensorType]:
        """The types of the inputs of a graph that takes this cache, the offsets and the layer."""
        shape = self.blocks.shape
        return [
            BufferType(self.params.dtype, ["pages", *shape[1:]], place),
            TensorType(U32, ["batch"], place),
            TensorType(U32, ["batch", "most"], place),
            TensorType(U32, ["steps", 2], DeviceRef.CPU()),
            TensorType(U32, ["ends"], place),
            TensorType(U32, [], DeviceRef.CPU()),
        ]


Body = Callable[[Values, TensorValue, TensorValue, list[TensorValue]], Sequence[TensorValue]]


def run(
    cache: Cache,
    place: DeviceRef,
    layer: int,
    arrays: Sequence[Array],
    body: Body,
    weights: Mapping[str, Any] | None = None,
) -> list[Array]:
    """The results of ``body`` of the cache, the offsets, the layer and ``arrays``; the pages of
    ``cachex"""
    more = [
        TensorType(
            DType.from_numpy(a.dtype), ["tokens", *a.shape[1:]] if k == 0 else a.shape, place
        )
        for k, a in enumerate(arrays)
    ]
    with Graph("cached", input_types=[*cache.types(place), *more]) as graph:
        blocks, lengths, table, most, offsets, number, *rest = graph.inputs
        values = Values(blocks.buffer, lengths.tensor, table.tensor, most.tensor)
        graph.output(*body(values, offsets.tensor, number.tensor, [v.tensor for v in rest]))
    new = np.diff(cache.offsets.astype(np.int64))
    longest = int(new.max(initial=0))
    limits = np.array([[longest, min(longest + int(cache.lengths.max(initial=0)), 2**32 - 1)]])
    blocks_there = at(cache.blocks, place)
    found = session(place).load(graph, weights_registry=weights or {})(
        blocks_there, at(cache.lengths, place), at(cache.table, place),
        limits.astype(np.uint32), at(cache.offsets, place), np.array(layer, np.uint32),
        *(at(array, place) for array in arrays),
    )  # fmt: skip
    cache.blocks = numpy(blocks_there)
    return [numpy(each) for each in found]
