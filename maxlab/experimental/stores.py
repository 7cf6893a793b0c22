"""Stores: what changes the memory of a tensor.

A store happens at once. What is recorded and still depends on the elements from before keeps them:
it gets a copy of the memory, made only if there is such a thing.
"""

from __future__ import annotations

from typing import Any

from maxlab.driver import Tensor as Memory
from maxlab.dtype import check_scalar
from maxlab.experimental import recording
from maxlab.experimental.mirror import memory_of
from maxlab.experimental.reading import lock
from maxlab.experimental.tracing import traces
from maxlab.graph import Graph, ops
from maxlab.graph.graph import LIVE
from maxlab.graph.operands import data_of, is_number

_WHOLE: Any = object()
_checked: set[Any] = set()
_MOST_CHECKED = 4096


def buffer_store(destination: Any, source: Any) -> None:
    """Sets the elements of the tensor ``destination`` to those of ``source``.

    What was computed or recorded of ``destination`` before keeps the elements that it had. Of a
    buffer of a graph it is ``ops.buffer_store``.

    Args:
        destination: A tensor, or a buffer of a graph.
        source: A tensor of the same dtype and shape, a number, or an array.

    Raises:
        ArgumentTypeError: ML776, ``destination`` is neither.
        DTypeError: ML110, another dtype: stores do not convert.
        ShapeError: ML777, another shape: stores do not broadcast tensors.

    Example:
        >>> from maxlab.experimental import functional as F
        >>> from maxlab.experimental.tensor import Tensor
        >>> x = Tensor.zeros((3,))
        >>> before = x + 1
        >>> F.buffer_store(x, Tensor.constant([1.0, 2.0, 3.0]))
        >>> x, before
        (Tensor([1., 2., 3.], dtype=float32, shape=(3,), device=cpu:0), \
Tensor([1., 1., 1.], dtype=float32, shape=(3,), device=cpu:0))
    """
    _store(ops.buffer_store, destination, source, _WHOLE)


def buffer_store_slice(destination: Any, source: Any, indices: Any) -> None:
    """Sets the part of the tensor ``destination`` at ``indices`` to ``source``.

    What was computed or recorded of ``destination`` before keeps the elements that it had. Of a
    buffer of a graph it is ``ops.buffer_store_slice``.

    Args:
        destination: A tensor, or a buffer of a graph.
        source: A tensor of the same dtype and of the shape of the part, a number, or an array.
        indices: At most one entry per axis, from the first: an int, a tensor of one int, a slice,
            or one ``...``.

    Raises:
        ArgumentTypeError: ML776, ``destination`` is neither; ML344, an entry is no index.
        DTypeError: ML110, another dtype.
        ShapeError: ML777, another shape; ML215, an index is out of range; ML216, too many.

    Example:
        >>> from maxlab.experimental import functional as F
        >>> from maxlab.experimental.tensor import Tensor
        >>> x = Tensor.zeros((2, 3))
        >>> F.buffer_store_slice(x, Tensor.constant([1.0, 2.0]), [0, slice(1, None)])
        >>> x
        Tensor([[0., 1., 2.],
                [0., 0., 0.]], dtype=float32, shape=(2, 3), device=cpu:0)
    """
    _store(ops.buffer_store_slice, destination, source, indices)


def _store(op: Any, destination: Any, source: Any, indices: Any) -> None:
    if not isinstance(destination, recording.kind) or not destination.has_elements:
        more = () if indices is _WHOLE else (indices,)
        op(destination, source, *more)
        return
    place = _plain(indices)
    if isinstance(source, recording.kind):
        given: Memory | None = source._read()
        value: Any = source.type
    else:
        given, value = None, source
    kind = destination.type
    _check(op, kind, value, place)
    memory: Memory = destination._read()
    with lock:
        if memory.read_only:
            memory = memory.copy()
            destination._memory = memory
        else:
            _keep(memory)
        destination._trace = None
        part = memory if place is _WHOLE else memory[tuple(_without_names(place))]
        if given is None:
            given = _memory(source, kind.dtype)
        if given.is_contiguous and part.is_contiguous and given.shape == part.shape:
            part.inplace_copy_from(given)
        else:
            part[...] = given


def _check(op: Any, kind: Any, value: Any, place: Any) -> None:
    """Raises what ``op`` says of storing ``value``, a type or data, in a buffer of ``kind``."""
    key = None
    if value.__class__ is kind.__class__:
        key = (op, kind, value, repr(place) if place is not _WHOLE else None)
        if key in _checked:
            return
    types = [kind.as_buffer(), *([value] if key is not None else [])]
    graph = Graph("store", input_types=types)
    LIVE.discard(graph)
    with graph:
        what = graph.inputs[1] if key is not None else value
        op(graph.inputs[0], what, *(() if place is _WHOLE else (place,)))
    if key is not None:
        if len(_checked) >= _MOST_CHECKED:
            _checked.clear()
        _checked.add(key)


def _memory(source: Any, dtype: Any) -> Memory:
    if is_number(source):
        return Memory.scalar(check_scalar(source, dtype), dtype)
    return memory_of(data_of(source, dtype))


def _plain(indices: Any) -> Any:
    """``indices`` as a list, in which tensors of one int are ints."""
    if indices is _WHOLE:
        return indices
    given = list(indices) if isinstance(indices, (list, tuple)) else [indices]
    return [_one(entry) for entry in given]


def _one(entry: Any) -> Any:
    if isinstance(entry, recording.kind):
        return int(entry)
    if isinstance(entry, slice):
        return slice(*(_one(bound) for bound in (entry.start, entry.stop, entry.step)))
    if isinstance(entry, tuple):
        return tuple(_one(part) for part in entry)
    return entry


def _without_names(place: list[Any]) -> list[Any]:
    return [entry[0] if isinstance(entry, tuple) else entry for entry in place]


def _keep(memory: Memory) -> None:
    """Gives what is recorded and depends on ``memory``, which is about to change, a copy of it."""
    start, nbytes = _span(memory)
    copies: dict[int, Memory] = {}
    for trace in traces():
        alive = None
        for slot, known in list(trace.memory.items()):
            at, size = _span(known)
            if at < start + nbytes and start < at + size and known.device is memory.device:
                alive = trace.alive() if alive is None else alive
                if alive and id(known) not in copies:
                    copies[id(known)] = known.copy()
                if alive:
                    trace.memory[slot] = copies[id(known)]


def _span(memory: Memory) -> tuple[int, int]:
    """Where the elements of ``memory`` begin at the earliest, and the bytes to their end."""
    reach = [(n - 1) * step for n, step in zip(memory.shape, memory.strides, strict=True)]
    if not memory.num_elements:
        return memory.address, 0
    size = memory.dtype.size_in_bytes
    low = sum(one for one in reach if one < 0)
    return memory.address + low * size, (sum(map(abs, reach)) + 1) * size


__all__ = ["buffer_store", "buffer_store_slice"]
