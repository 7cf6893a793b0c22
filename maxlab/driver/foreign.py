"""Memory that others own, as tensors see it: NumPy arrays, files, DLPack and CUDA arrays.

Each function gives a `Window`, which has all that a tensor is made of.
"""

from __future__ import annotations

import math
import mmap
import os
from typing import Any, NamedTuple

import numpy as np

from maxlab.driver import dlpack
from maxlab.driver.accelerator import Accelerator
from maxlab.driver.device import CPU, DeviceStream
from maxlab.driver.gpu_stream import AcceleratorStream
from maxlab.driver.layout import canonical_strides
from maxlab.driver.mapped import FileMemory
from maxlab.dtype import DType, check_unmasked
from maxlab.errors import ArgumentTypeError, DeviceError, TensorError, shown
from maxlab.files import Mode, open_regular
from maxlab.toolchain.cffi_abi import ffi

Array = np.ndarray[Any, Any]
_HOST = CPU().default_stream
_READ: tuple[Mode, int] = ("rb", mmap.ACCESS_READ)
_COPY: tuple[Mode, int] = ("rb", mmap.ACCESS_COPY)
_CHANGE: tuple[Mode, int] = ("r+b", mmap.ACCESS_WRITE)
_MAKE: tuple[Mode, int] = ("w+b", mmap.ACCESS_WRITE)
_MODES = {
    "r": _READ, "readonly": _READ, "c": _COPY, "copyonwrite": _COPY,
    "r+": _CHANGE, "readwrite": _CHANGE, "w+": _MAKE, "write": _MAKE,
}  # fmt: skip
"""How a file is opened and mapped."""


class Window(NamedTuple):
    """Typed memory of somebody: where it is, how it is laid out, and what keeps it alive."""

    address: int
    dtype: DType
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None
    owner: object
    stream: DeviceStream
    read_only: bool


def window_of(array: Any, copy: bool | None) -> Window:
    """The memory of ``array``: NumPy's, or that of any library with DLPack or CUDA arrays.

    Raises:
        ArgumentTypeError: ML421 (a TypeError), it hands out its memory in no way that is known.
        TensorError: ML422 (a ValueError), it has to be copied and ``copy`` is False.
        DeviceError: ML410 (a ValueError), memory of a device that is not there.
    """
    if isinstance(array, np.ndarray):
        return _of_array(array, copy)
    if isinstance(array, dlpack.DLPackArray):
        memory = dlpack.Imported(dlpack.request(array, lambda number: _gpu(number).handle))
        strides = canonical_strides(memory.shape, memory.strides)
        kind, number = memory.device
        stream = _gpu(number) if kind == dlpack.CUDA else _HOST
        return Window(
            memory.address, memory.dtype, memory.shape, strides, memory, stream, memory.read_only
        )
    if hasattr(array, "__cuda_array_interface__"):
        return _of_cuda_array(array)
    raise ArgumentTypeError(
        "ML421",
        f"{type(array).__name__} has neither __dlpack__ nor __cuda_array_interface__",
        fix="convert it to a NumPy array first",
    )


def mapped(
    filename: os.PathLike[str] | str, dtype: DType, sizes: tuple[int, ...], mode: str, offset: int
) -> Window | None:
    """The memory of a mapped file; None when nothing is to be mapped. See `Tensor.mmap`."""
    known = isinstance(mode, str) and mode in _MODES
    if not known or not isinstance(offset, int) or offset < 0:
        raise TensorError(
            "ML425",
            f"mode {shown(mode)} and offset {shown(offset)} do not say how to map a file",
            fix="modes are copyonwrite, readonly, readwrite and write; offsets start at 0",
        )
    nbytes = math.prod(sizes) * dtype._nbytes
    if nbytes == 0:
        with open_regular(filename, "the file to map"):
            return None
    opened, access = _MODES[mode]
    with open_regular(filename, "the file to map", opened) as file:
        if opened == "w+b":
            file.truncate(offset + nbytes)
        elif (there := os.fstat(file.fileno()).st_size) < offset + nbytes:
            raise TensorError(
                "ML425",
                f"{os.fspath(filename)} has {there} bytes, expected {offset + nbytes} for "
                f"{dtype.name} of shape {sizes} at offset {offset}",
                fix="check the shape, the dtype and the offset",
            )
        inside = offset % mmap.ALLOCATIONGRANULARITY
        pages = FileMemory(
            filename, file.fileno(), inside + nbytes, access=access, offset=offset - inside
        )
    memory = np.frombuffer(pages, np.uint8, nbytes, inside)
    read_only = not memory.flags.writeable
    return Window(memory.ctypes.data, dtype, sizes, None, memory, _HOST, read_only)


def address_of(array: Array) -> int:
    """Where the first element of ``array`` is."""
    try:
        return int(ffi.cast("uintptr_t", ffi.from_buffer(array)))
    except (ValueError, TypeError, BufferError):  # strided, or a dtype of ml_dtypes
        return array.ctypes.data


def _of_array(array: Array, copy: bool | None) -> Window:
    """The memory of a NumPy array, strided or not; copied only when elements lie across steps."""
    check_unmasked(array)
    size = array.dtype.itemsize
    dtype = DType.from_numpy(array.dtype)
    if not array.flags.aligned or any(step % size for step in array.strides):
        if copy is False:
            raise TensorError(
                "ML422",
                "the array's elements do not lie at whole steps, so it must be copied",
                fix="drop copy=False",
            )
        array = np.array(array, order="C")
    strides = canonical_strides(array.shape, tuple(step // size for step in array.strides))
    return Window(
        address_of(array),
        dtype,
        array.shape,
        strides,
        array,
        _HOST,
        not array.flags.writeable,
    )


def _of_cuda_array(array: Any) -> Window:
    """The memory of an object with the CUDA Array Interface, version 2 or 3.

    The interface does not say which GPU the memory is on: it is the one that is current to the
    library, which is taken to be the first unless the object has a ``device`` with an ``id``.
    """
    facts = array.__cuda_array_interface__
    dtype = DType.from_numpy(np.dtype(facts["typestr"]))
    shape = tuple(int(n) for n in facts["shape"])
    steps = facts.get("strides")
    size = dtype._nbytes
    if steps is not None and any(step % size for step in steps):
        raise TensorError(
            "ML422",
            f"the array's elements of {size} bytes do not lie at whole steps: {steps}",
            fix="make it contiguous first",
        )
    strides = None if steps is None else tuple(step // size for step in steps)
    stream = _gpu(int(getattr(getattr(array, "device", None), "id", 0)))
    if facts.get("stream") is not None:
        stream.follow_foreign(int(facts["stream"]))
    address, read_only = facts["data"]
    canonical = canonical_strides(shape, strides)
    return Window(int(address), dtype, shape, canonical, array, stream, bool(read_only))


def _gpu(number: int) -> AcceleratorStream:
    """The default stream of the NVIDIA GPU ``number``, for memory of other libraries.

    Raises:
        DeviceError: ML410, it is not there, or accelerators are simulated.
    """
    found = Accelerator(number)
    if found.simulated:
        raise DeviceError(
            "ML410",
            f"the array is on the NVIDIA GPU {number}, and accelerators are simulated here",
            fix="call driver.use_simulator(0), or copy the array to the host first",
        )
    return found.default_stream
