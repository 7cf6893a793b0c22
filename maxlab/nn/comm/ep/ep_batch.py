"""A batch whose tokens are on their way to experts on other devices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise

from maxlab.dtype import DType
from maxlab.graph import DeviceRef, Dim, TensorValue, ops
from maxlab.graph.ops.dynamic import bind_dim


@dataclass(eq=False)
class Sent:
    """The vectors that one device sent in a batch. A token that takes k experts makes k entries.

    Attributes:
        tokens: The number of its tokens.
        dtype: The dtype of their vectors.
        device: The device.
        rows: The vectors for each device, ``[entries, hidden_size]``, in the order of experts.
        ids: Their experts, int32 ``[entries]``.
        restore: The place of each entry in the order of all experts, uint32 ``[tokens * k]``.
        counts: How many entries go to each device, int64 ``[devices]``.
        sizes: The same as dims.
    """

    tokens: Dim
    dtype: DType
    device: DeviceRef
    rows: list[TensorValue]
    ids: list[TensorValue]
    restore: TensorValue
    counts: TensorValue
    sizes: list[Dim]


@dataclass(eq=False)
class Received:
    """The vectors that one device got in a batch, in the order of its experts.

    Attributes:
        rows: The vectors, ``[entries, hidden_size]``.
        indices: The expert of each entry in the order of arrival, int32 ``[entries, 1]``, counted
            from the first of the device.
        order: The entries in the order of experts, uint32 ``[entries]``.
        starts: Where the group of each expert begins in it, and the end, uint32.
        restore: The place of each entry in that order, uint32 ``[entries]``.
        ids: The expert of each group, int32.
        usage: The rows of the largest group, and how many groups have rows, uint32 ``[2]``.
    """

    rows: TensorValue
    indices: TensorValue
    order: TensorValue
    starts: TensorValue
    restore: TensorValue
    ids: TensorValue
    usage: TensorValue


@dataclass(eq=False)
class Batch:
    """A batch on its way: what each device did in each step, by the numbers of devices."""

    number: int
    sent: dict[int, Sent] = field(default_factory=dict)
    received: dict[int, Received] = field(default_factory=dict)
    made: dict[int, TensorValue] = field(default_factory=dict)
    home: dict[int, TensorValue] = field(default_factory=dict)


def sizes_of(counts: TensorValue, name: str, what: str) -> list[Dim]:
    """``counts``, int64 of rank 1, as dims."""
    found = [Dim(f"{name}_to_{n}") for n in range(int(counts.shape[0]))]
    for n, dim in enumerate(found):
        bind_dim(counts[n], dim, what)
    return found


def cuts(sizes: Sequence[Dim]) -> list[slice]:
    """The places of parts of these sizes that lie one behind the other."""
    ends = list(accumulate(sizes, initial=Dim(0)))
    return [slice(start, end) for start, end in pairwise(ends)]


def joined(parts: list[TensorValue]) -> TensorValue:
    """``parts`` one below the other."""
    return parts[0] if len(parts) == 1 else ops.concat(parts, 0)


__all__ = ["Batch", "Received", "Sent", "cuts", "joined", "sizes_of"]
