"""The tensors of a cache of keys and values, as inputs of a model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields

from maxlab.driver import Tensor
from maxlab.errors import ArgumentTypeError, shown


class KVCacheInputs:
    """The base of dataclasses whose fields are inputs of a model: tensors, and others of this kind.

    As a sequence it is all tensors in the order of the fields, those of nested inputs included: the
    order in which a graph takes them.

    Raises:
        ArgumentTypeError: ML648 (a TypeError), by iteration: a field holds something else.

    Example:
        >>> from dataclasses import dataclass
        >>> from maxlab.dtype import DType
        >>> @dataclass
        ... class Lengths(KVCacheInputs):
        ...     cached: Tensor
        ...     new: Tensor
        >>> lengths = Lengths(Tensor.zeros([3], DType.uint32), Tensor.zeros([2], DType.uint32))
        >>> [tensor.shape for tensor in lengths], len(lengths), lengths[1].shape
        ([(3,), (2,)], 2, (2,))
    """

    def __iter__(self) -> Iterator[Tensor]:
        if not hasattr(self, "__dataclass_fields__"):
            raise ArgumentTypeError(
                "ML648",
                f"{type(self).__name__} is no dataclass, so it has no fields to take tensors from",
                fix=f"write @dataclass above class {type(self).__name__}",
            )
        for field in fields(self):  # type: ignore[arg-type]  # it is a dataclass by now
            yield from _tensors(f"{type(self).__name__}.{field.name}", getattr(self, field.name))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __getitem__(self, index: int) -> Tensor:
        return list(self)[index]


def _tensors(name: str, value: object) -> Iterator[Tensor]:
    """The tensors of the value of a field."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, KVCacheInputs):
        yield from value
    elif isinstance(value, (list, tuple)):
        for place, one in enumerate(value):
            yield from _tensors(f"{name}[{place}]", one)
    else:
        raise ArgumentTypeError(
            "ML648",
            f"{name}: a Tensor or KVCacheInputs expected ≠ {shown(value)} "
            f"({type(value).__name__}) given",
        )


@dataclass
class RaggedKVCacheInputs(KVCacheInputs):
    """The inputs of a paged cache on one device, for a batch of ragged sequences.

    Attributes:
        blocks: The pages, [pages, 2 for keys and values or 1, layers, tokens of a page, heads,
            head's size]. Kernels write new keys and values into them.
        cache_lengths: The tokens of each sequence that the cache holds already, uint32 [batch].
        lookup_table: The pages of each sequence in the order of its tokens, uint32 [batch, the most
            pages of a sequence]; the number of all pages where a sequence has no more.
        max_lengths: For each step that is left the most new tokens of a sequence and the most
            tokens in all, uint32 [steps, 2]; it lies on the host.
    """

    blocks: Tensor
    cache_lengths: Tensor
    lookup_table: Tensor
    max_lengths: Tensor


@dataclass
class KVCacheInputsSequence(KVCacheInputs):
    """The inputs of several caches, such as those of each device.

    Attributes:
        kv_cache_inputs: The inputs of each.

    Example:
        >>> import numpy as np
        >>> tensor = Tensor.from_numpy(np.zeros(1, np.uint32))
        >>> one = RaggedKVCacheInputs(tensor, tensor, tensor, tensor)
        >>> len(KVCacheInputsSequence([one, one]))
        8
    """

    kv_cache_inputs: Sequence[KVCacheInputs]


__all__ = ["KVCacheInputs", "KVCacheInputsSequence", "RaggedKVCacheInputs"]
