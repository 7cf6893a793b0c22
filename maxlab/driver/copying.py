"""Moving the elements of tensors: between host and devices, and from any strides to any others.

Contiguous memory moves by the device's own copies. Strided memory on a device is moved by one
small kernel, which takes up to eight axes at a time, so that a slice never goes through the host.
"""

from __future__ import annotations

import itertools
import math
from typing import Any, Protocol

import numpy as np

from maxlab import trace
from maxlab.driver.backend import DeviceSource, Function
from maxlab.driver.device import DeviceStream
from maxlab.driver.gpu_stream import AcceleratorStream
from maxlab.driver.mapped import require_read
from maxlab.driver.memory import Block
from maxlab.dtype import DType

MAX_RANK = 8
_THREADS = 256
_WORDS = {1: "u8", 2: "u16", 4: "u32", 8: "u64"}

# An index is taken apart from the last axis on; equal texts are compiled once for each size.
_TEXT = """\
extern "C" __global__ void __launch_bounds__(256) {name}({word} *__restrict__ to, const {word} *from, {sizes}, i64 items) {{
  for (i64 item = (i64)blockIdx.x * blockDim.x + threadIdx.x; item < items; item += (i64)gridDim.x * blockDim.x) {{
    i64 rest = item, target = 0, source = 0;
{axes}
    to[target] = from[source];
  }}
}}
"""  # noqa: E501


def source_of_copy(nbytes: int) -> DeviceSource:
    """The kernel that copies elements of ``nbytes`` between two layouts of eight axes."""
    name = f"mx_copy_strided_{_WORDS[nbytes]}"
    names = range(MAX_RANK)
    sizes = ", ".join(f"i64 n{a}, i64 t{a}, i64 f{a}" for a in names)
    axes = "\n".join(
        f"    target += rest % n{a} * t{a}, source += rest % n{a} * f{a}, rest /= n{a};"
        for a in reversed(names)
    )
    text = _TEXT.format(name=name, word=_WORDS[nbytes], sizes=sizes, axes=axes)
    return DeviceSource(name, text, ())


class Elements(Protocol):
    """A tensor, as far as moving its elements needs it; `TensorBase` says what each of these is."""

    _dtype: DType
    address: int
    _shape: tuple[int, ...]
    _stream: DeviceStream
    _strides: tuple[int, ...] | None

    @property
    def strides(self) -> tuple[int, ...]: ...
    def _bits(self) -> np.ndarray[Any, Any]: ...
    def _like(self, stream: DeviceStream) -> Elements: ...
    def on_host(self) -> Elements: ...
    def _own_copy(self) -> Elements: ...
    def note_use(self, stream: DeviceStream) -> None: ...
    def _scatter(self, block: Block) -> None: ...


_functions: dict[tuple[int, int], tuple[object, Function]] = {}


def _function(stream: AcceleratorStream, nbytes: int) -> Function:
    context = stream.context
    key = (id(context), nbytes)
    found = _functions.get(key)
    if found is None or found[0] is not context:
        (loaded,) = context.load([source_of_copy(nbytes)])
        found = _functions[key] = (context, loaded.function)
    return found[1]


def fill(target: Elements, source: Elements) -> None:
    """Copy the elements of ``source``, which has as many and the same dtype, into ``target``, in
    the order of the streams of both.

    Raises:
        WeightFileError: ML641, ``source`` is mapped from a file that has lost a page.
    """
    to, start = target._stream, source._stream
    nbytes = math.prod(target._shape) * target._dtype._nbytes
    if start is not to:
        to.wait_for(start)
    with trace.span(
        "transfer",
        "copy",
        nbytes=nbytes,
        dtype=target._dtype.name,
        source=str(start._device),
        target=str(to._device),
    ):
        if not nbytes:
            return
        if isinstance(to, AcceleratorStream):
            if isinstance(start, AcceleratorStream):
                _between_devices(target, to, source, start, nbytes)
            else:
                _upload(target, to, source, nbytes)
        elif isinstance(start, AcceleratorStream):
            _download(target, source, start, nbytes)
        else:
            goal, bits = target._bits(), source._bits()
            to.run(lambda: np.copyto(goal, bits.reshape(goal.shape)))
        if not isinstance(start, AcceleratorStream):
            require_read(source.address)


def _upload(target: Elements, to: AcceleratorStream, source: Elements, nbytes: int) -> None:
    context = to.context
    if source._strides is not None:
        source = source._own_copy()
    if target._strides is not None:
        packed = target._like(to)
        _upload(packed, to, source, nbytes)
        _strided(to, target, packed)
        return
    goal, start = target.address, source.address
    context.call(lambda: context.upload(to.queue, goal, start, nbytes))


def _download(target: Elements, source: Elements, start: AcceleratorStream, nbytes: int) -> None:
    context = start.context
    if source._strides is not None:
        packed = source._like(start)
        _strided(start, packed, source)
        source = packed
    origin = source.address
    if target._strides is None:
        goal = target.address
        context.call(lambda: context.download(start.queue, goal, origin, nbytes))
    else:
        block = Block(nbytes)
        context.call(lambda: context.download(start.queue, block.address, origin, nbytes))
        target._scatter(block)
    start.raise_found()


def _between_devices(
    target: Elements,
    to: AcceleratorStream,
    source: Elements,
    start: AcceleratorStream,
    nbytes: int,
) -> None:
    near = start.context is to.context
    strided = target._strides is not None or source._strides is not None
    reachable = near or to._device.can_access(start._device)
    if reachable:
        source.note_use(to)
        if strided:
            _strided(to, target, source)
            return
        context, goal, origin = to.context, target.address, source.address
        context.call(lambda: context.copy(to.queue, goal, origin, nbytes))
        return
    staged = source.on_host()
    _upload(target, to, staged, nbytes)


def _strided(stream: AcceleratorStream, target: Elements, source: Elements) -> None:
    """Copy on the device between any two layouts of the same number of elements."""
    axes = _common_axes(target, source)
    # A view of bytes may begin anywhere; a device reads whole words only at their own multiples.
    nbytes, word = target._dtype._nbytes, target._dtype._nbytes
    while (target.address | source.address) % word:
        word //= 2
    if word < nbytes:
        parts = nbytes // word
        axes = [(n, to * parts, start * parts) for n, to, start in axes] + [(parts, 1, 1)]
    # What has more axes than the kernel takes is copied part by part.
    outer, inner = axes[:-MAX_RANK], axes[-MAX_RANK:]
    full = [(1, 0, 0)] * (MAX_RANK - len(inner)) + inner
    items = math.prod(n for n, _, _ in inner)
    context = stream.context
    function = _function(stream, word)
    grid = (min(-(-items // _THREADS), 64 * context.properties.multiprocessors), 1, 1)
    rest = [*(w for axis in full for w in axis), items]

    def copy() -> None:
        for place in itertools.product(*(range(n) for n, _, _ in outer)):
            to = sum(i * step for i, (_, step, _) in zip(place, outer, strict=True))
            start = sum(i * step for i, (_, _, step) in zip(place, outer, strict=True))
            words = [target.address + to * word, source.address + start * word, *rest]
            # Negative strides are words too: two's complement.
            arguments = [w & 0xFFFF_FFFF_FFFF_FFFF for w in words]
            context.launch(stream.queue, function, grid, (_THREADS, 1, 1), 0, arguments)

    context.call(copy)


def _common_axes(target: Elements, source: Elements) -> list[tuple[int, int, int]]:
    """(size, step in the target, step in the source) of axes that describe both tensors.

    The shapes may differ as long as one is a refinement of the other's rows; where they do not
    divide each other evenly, the contiguous one is described by the other's axes.
    """
    if target._shape == source._shape:
        rows = zip(target._shape, target.strides, source.strides, strict=True)
        axes = [row for row in rows if row[0] != 1]
    elif target._strides is None:
        axes = _against_contiguous(source._shape, source.strides, False)
    else:
        axes = _against_contiguous(target._shape, target.strides, True)
    merged: list[tuple[int, int, int]] = []
    for size, to, start in axes:
        if merged and merged[-1][1] == to * size and merged[-1][2] == start * size:
            merged[-1] = (merged[-1][0] * size, to, start)
        else:
            merged.append((size, to, start))
    return merged


def _against_contiguous(
    shape: tuple[int, ...], strides: tuple[int, ...], is_target: bool
) -> list[tuple[int, int, int]]:
    axes = []
    step = 1
    for size, stride in zip(reversed(shape), reversed(strides), strict=True):
        if size != 1:
            axes.append((size, stride, step) if is_target else (size, step, stride))
        step *= size
    return axes[::-1]


__all__ = ["fill", "source_of_copy"]
