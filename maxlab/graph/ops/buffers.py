"""Buffers: memory that a graph changes in place, and prints, in the order in which they are
written.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from maxlab.dtype import DType
from maxlab.errors import ArgumentTypeError
from maxlab.graph.build import add as add_op
from maxlab.graph.build import buffer, builder, cast, is_number, is_weak, literal, staged, tensor
from maxlab.graph.ops.dynamic import one_int, to_device
from maxlab.graph.ops.indexing import (
    _Cut,
    _entries,
    _first_of,
    _named,
    _reshaped,
    _slice,
    cut_of_one,
)
from maxlab.graph.value import BufferValue, HasBufferValue, TensorValue, TensorValueLike
from maxlab.ir import BufferType, DeviceRef, Dim, Shape
from maxlab.opset.effects import require_buffer, require_shape, require_source, watch_call
from maxlab.opset.facts import Family

FAMILY: Final[Family] = "effect"
"""Of the functions here that are no rows of the op table themselves."""


@staged
def buffer_create(type: BufferType) -> BufferValue:
    """A new buffer of the type ``type``, which holds zeros whenever the model starts to run.

    It lives as long as one run does, or longer when it is an output of the graph.

    Args:
        type: Its dtype, shape and device.

    Raises:
        ArgumentTypeError: ML776, ``type`` is not a ``BufferType``.

    Example:
        >>> from maxlab.dtype import DType
        >>> from maxlab.graph import BufferType, DeviceRef, Graph, ops
        >>> with Graph("g") as graph:
        ...     ops.buffer_create(BufferType(DType.float32, [2, 3], DeviceRef.CPU())).shape
        [Dim(2), Dim(3)]
    """
    if not isinstance(type, BufferType):
        raise ArgumentTypeError(
            "ML776",
            f"buffer_create takes a BufferType, got {type!r}",
            fix="write BufferType(dtype, shape, device), or tensor.type.as_buffer()",
        )
    made: BufferValue = builder(what="ops.buffer_create").op("buffer.create", [], type=type)[0]
    return made


@staged
def buffer_load(x: BufferValue) -> TensorValue:
    """A copy of what the buffer ``x`` holds now: later stores do not change it.

    Args:
        x: A buffer.

    Raises:
        ArgumentTypeError: ML776, ``x`` is not a buffer.

    Example:
        >>> from maxlab.dtype import DType
        >>> from maxlab.graph import BufferType, Graph, ops
        >>> with Graph("read", input_types=[BufferType(DType.float32, [4])]) as graph:
        ...     graph.output(ops.buffer_load(graph.inputs[0].buffer))
        >>> graph.output_types[0].shape
        [Dim(4)]
    """
    value = buffer(x, "buffer_load: the operand")
    return add_op("buffer.load", [value])


@staged
def buffer_load_slice(x: BufferValue | HasBufferValue, indices: Sequence[Any]) -> TensorValue:
    """A copy of the part of the buffer ``x`` that ``x[indices]`` names, as it is now: of the rest,
    nothing is read.

    Args:
        x: A buffer.
        indices: As for ``ops.slice_tensor``: at most one entry per dim, from the first.

    Raises:
        ArgumentTypeError: ML776, ``x`` is not a buffer; ML344, something that is no index.
        ShapeError: ML215 and ML216, as ``slice_tensor``.
        ArgumentError: ML345 and ML728, as ``slice_tensor``.

    Example:
        >>> from maxlab.dtype import DType
        >>> from maxlab.graph import BufferType, DeviceRef, Graph, TensorType, ops
        >>> cache = BufferType(DType.float32, [128, 8], DeviceRef.CPU())
        >>> at = TensorType(DType.int64, [], DeviceRef.CPU())
        >>> with Graph("last", input_types=[cache, at]) as graph:
        ...     cache, at = graph.inputs
        ...     row = ops.buffer_load_slice(cache.buffer, [at.tensor, slice(4)])
        ...     graph.output(row)
        >>> row.shape
        [Dim(4)]
    """
    value = buffer(x, "buffer_load_slice: the operand")
    given = list(indices) if isinstance(indices, (list, tuple)) else [indices]
    entries = _entries(given, value.rank)
    cuts: list[_Cut] = []
    for entry in entries:
        if entry is not None:
            cuts.append(cut_of_one(entry, value.shape[len(cuts)], len(cuts)))
    if _is_whole(cuts, value.shape):
        return _reshaped(add_op("buffer.load", [value]), entries, cuts)
    computed: list[tuple[int, str]] = []
    bounds: list[TensorValue] = []
    for axis, cut in enumerate(cuts):
        if cut.pick is not None:
            computed.append((axis, "index"))
            bounds.append(to_device(cast(cut.pick, DType.int64), value.device))
            cut.size, cut.pick, cut.drop = Dim(1), None, True
        elif cut.bounds is not None:
            computed.append((axis, "first"))
            bounds.append(
                to_device(_first_of(cut, value.shape[axis], "buffer_load_slice"), value.device)
            )
            cut.size = cut.name if cut.name is not None else cut.size
    made = add_op(
        "buffer.load_slice",
        [value, *bounds],
        starts=tuple(cut.start for cut in cuts),
        steps=tuple(cut.step for cut in cuts),
        shape=Shape(cut.size for cut in cuts),
        computed=tuple(computed),
    )
    return _reshaped(_named(made, cuts, "buffer_load_slice"), entries, cuts)


def _is_whole(cuts: list[_Cut], shape: Shape) -> bool:
    return all(
        cut.pick is None
        and cut.bounds is None
        and cut.name is None
        and (cut.start, cut.step, cut.size) == (Dim(0), 1, size)
        for cut, size in zip(cuts, shape, strict=True)
    )


def _source(what: str, destination: BufferValue, source: Any, shape: Shape) -> TensorValue:
    """The tensor that is stored: a tensor as it is, a number as many times as the place has
    elements.
    """
    if is_number(source):
        return add_op(
            "broadcast_to",
            [literal(source, destination.dtype, destination.device)],
            shape=shape,
        )
    if is_weak(source):
        return literal(source, destination.dtype, destination.device)
    return tensor(source, f"{what}: the source")


@staged
def buffer_store(destination: BufferValue | HasBufferValue, source: TensorValueLike) -> None:
    """Copies ``source`` into the buffer ``destination``.

    The memory of an input is that of the caller, who sees the change when the model has run.

    Args:
        destination: A buffer.
        source: A tensor of the buffer's dtype, shape and device; or a number, for all elements.

    Raises:
        ArgumentTypeError: ML776, ``destination`` is not a buffer; ML317, ``source`` is no tensor.
        DTypeError: ML110, another dtype: stores do not convert.
        ShapeError: ML777, another shape: stores do not broadcast tensors.
        ArgumentError: ML304, another device.

    Example:
        >>> from maxlab.dtype import DType
        >>> from maxlab.graph import BufferType, DeviceRef, Graph, ops
        >>> type = BufferType(DType.float32, ["n"], DeviceRef.CPU())
        >>> with Graph("double", input_types=[type]) as graph:
        ...     x = graph.inputs[0].buffer
        ...     ops.buffer_store(x, ops.buffer_load(x) * 2)
        ...     graph.output()
    """
    value = buffer(destination, "buffer_store: the destination")
    made = _source("buffer_store", value, source, value.shape)
    add_op("buffer.store", [value, made])


@staged
def buffer_store_slice(
    destination: BufferValue | HasBufferValue, source: TensorValueLike, indices: Sequence[Any]
) -> None:
    """Copies ``source`` into the part of the buffer that ``destination[indices]`` names; all other
    elements stay as they are.

    Indices are those of ``ops.slice_tensor``, without ``None``. Bounds and indices may be computed,
    also for dims that are symbolic: the slice then must have as many elements as ``source``, which
    the kernel tests.

    Args:
        destination: A buffer.
        source: A tensor of the buffer's dtype and device and of the slice's shape; or a number, for
            all elements of a slice whose bounds are not computed.
        indices: At most one entry per dim, from the first.

    Raises:
        ArgumentTypeError: ML776, ``destination`` is not a buffer; ML344, something that is no
            index.
        DTypeError: ML110, another dtype.
        ShapeError: ML777, another shape; ML215 and ML216, as ``slice_tensor``.
        ArgumentError: ML304, another device; ML345, as ``slice_tensor``.

    Example:
        >>> from maxlab.dtype import DType
        >>> from maxlab.graph import BufferType, DeviceRef, Graph, TensorType, ops
        >>> cache = BufferType(DType.float32, [128, 8], DeviceRef.CPU())
        >>> row = TensorType(DType.float32, [8], DeviceRef.CPU())
        >>> at = TensorType(DType.int64, [], DeviceRef.CPU())
        >>> with Graph("append", input_types=[cache, row, at]) as graph:
        ...     cache, row, at = graph.inputs
        ...     ops.buffer_store_slice(cache.buffer, row.tensor, [at.tensor])
        ...     graph.output()
    """
    what = "buffer_store_slice"
    value = buffer(destination, f"{what}: the destination")
    given = list(indices) if isinstance(indices, (list, tuple)) else [indices]
    if any(entry is None for entry in given):
        raise ArgumentTypeError(
            "ML344", f"{what}: None is no place in a buffer", fix="leave None out"
        )
    cuts = [
        _slot(entry, value.shape[axis], axis)
        for axis, entry in enumerate(_entries(given, value.rank))
    ]
    kept = [n for n, cut in enumerate(cuts) if not cut.drop and cut.pick is None]
    if is_number(source) and any(cuts[n].bounds and cuts[n].name is None for n in kept):
        raise ArgumentTypeError(
            "ML344",
            f"{what}: only a run can tell how often the number {source!r} is stored",
            fix='name the size: x[(slice(start, stop), "part")], or store a tensor',
        )
    named = {n: cut.name if cut.name is not None else cut.size for n, cut in enumerate(cuts)}
    open_axes = [n for n in kept if cuts[n].bounds is not None and cuts[n].name is None]
    made = _source(what, value, source, Shape(named[n] for n in kept))
    require_source(what, require_buffer(what, value.type), made.type)
    if made.rank == len(kept):
        for place, axis in enumerate(kept):
            if axis in open_axes:
                named[axis] = made.shape[place]
    require_shape(what, "the slice", [named[n] for n in kept], list(made.shape))
    computed: list[tuple[int, str]] = []
    bounds: list[TensorValue] = []
    starts, stops = [cut.start for cut in cuts], [Dim(0)] * len(cuts)
    for axis, cut in enumerate(cuts):
        if cut.pick is not None:
            computed.append((axis, "index"))
            bounds.append(to_device(cast(cut.pick, DType.int64), value.device))
        elif cut.bounds is not None:
            for word, known, (bound, raw) in zip(
                ("start", "stop"), (starts, stops), cut.bounds, strict=True
            ):
                if raw:
                    computed.append((axis, word))
                    bounds.append(to_device(one_int(bound, value.device), value.device))
                else:
                    known[axis] = bound
    add_op(
        "buffer.store_slice",
        [value, made, *bounds],
        starts=tuple(starts),
        stops=tuple(stops),
        steps=tuple(cut.step for cut in cuts),
        shape=Shape(named[n] if n in kept else Dim(1) for n in range(len(cuts))),
        computed=tuple(computed),
    )


def _slot(entry: Any, size: Dim, axis: int) -> _Cut:
    """The place of one entry; a slice may have computed bounds without a name for its size, which
    is that of the source.
    """
    if isinstance(entry, slice):
        return _slice(entry, size, axis, "?")
    return cut_of_one(entry, size, axis)


@staged
def print(value: str | TensorValue, label: str = "debug_tensor") -> None:
    """Prints ``value`` each time the model comes here, behind everything that was printed or stored
    before.

    It is written to ``sys.stdout`` by the thread that runs the model. A text is printed as it is,
    behind its label if that is not the default; a tensor as ``label = tensor([…], dtype=…,
    shape=…)``. A tensor on a GPU is copied to the host first, for which the run waits. Every run
    prints: also those of a profile.

    Args:
        value: A text, or a tensor.
        label: What stands before the tensor.

    Raises:
        ArgumentTypeError: ML783, anything else.

    Example:
        >>> from maxlab import engine
        >>> from maxlab.dtype import DType
        >>> from maxlab.graph import DeviceRef, Graph, ops
        >>> with Graph("show") as graph:
        ...     ops.print("here")
        ...     ops.print(ops.constant([1, 2], DType.int32, DeviceRef.CPU()), "x")
        ...     graph.output()
        >>> _ = engine.InferenceSession().load(graph)()
        here
        x = tensor([1, 2], dtype=int32, shape=[2])
    """

    given: Any = value
    if not isinstance(label, str):
        raise ArgumentTypeError(
            "ML783", f"print: the label must be a string, got {label!r}", fix="pass a string"
        )
    if isinstance(value, str):
        text = value if label == "debug_tensor" else f"{label}: {value}"
        add_op("print", [], label=label, text=text)
        return
    if not isinstance(given, TensorValue) and not hasattr(given, "__tensorvalue__"):
        raise ArgumentTypeError(
            "ML783",
            f"print takes a string or a tensor of the graph, got {type(given).__name__}",
            fix="load a buffer first: ops.print(ops.buffer_load(x)); Python's print is there for "
            "what is known while the graph is built",
        )
    add_op("print", [to_device(tensor(given), DeviceRef.CPU())], label=label, text="")


@staged
def watch(value: TensorValueLike, fn: Callable[[Any], object], label: str = "tensor") -> None:
    """Calls ``fn`` with the elements of ``value`` each time the model comes here, behind everything
    that was printed or stored before.

    ``fn`` gets a NumPy array of its own, on the thread that runs the model, which waits for it. A
    tensor on a GPU is copied to the host first. Every run calls it: also those of a profile. A
    graph that calls a function of Python cannot be saved.

    Args:
        value: A tensor.
        fn: The function; what it returns is ignored, and what it raises ends the run.
        label: The name of the tensor in drawings of the graph.

    Raises:
        ArgumentTypeError: ML701, ``fn`` cannot be called.

    Example:
        >>> import numpy as np
        >>> from maxlab import engine
        >>> from maxlab.dtype import DType
        >>> from maxlab.graph import Graph, TensorType, ops
        >>> seen = []
        >>> with Graph("double", input_types=[TensorType(DType.float32, ["n"])]) as graph:
        ...     y = graph.inputs[0].tensor * 2
        ...     ops.watch(y, lambda array: seen.append(float(array.max())))
        ...     graph.output(y)
        >>> _ = engine.InferenceSession().load(graph)(np.array([1, 5, 3], np.float32))
        >>> seen
        [10.0]
    """
    if not callable(fn):
        raise ArgumentTypeError(
            "ML701",
            f"watch: fn must be callable, got {type(fn).__name__}",
            fix="pass a function of an array",
        )
    x = to_device(tensor(value, "watch: the operand"), DeviceRef.CPU())
    add_op("watch", [x], call=watch_call(label, x.dtype, fn))
