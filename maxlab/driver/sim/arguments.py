"""Arguments of a launch: checked against the kernel's parameters and put where it reads them.

Arrays are passed by address. A checked launch copies them into memory with room around each,
as a device has its own memory, and copies back what the kernel may have written: an index that
is too large then hits nothing else, and is seen.
"""

from __future__ import annotations

import mmap
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from maxlab.driver.base import TensorBase
from maxlab.driver.sim.reports import Place
from maxlab.driver.sim.signature import Kernel, Parameter, size_of
from maxlab.dtype import DType
from maxlab.errors import ArgumentTypeError, TensorError
from maxlab.toolchain.cffi_abi import ffi

_SLOT = 16  # bytes for a value; no parameter type needs more
_GUARD = 1 << 20  # no stray index of a test is larger, and untouched pages cost nothing
_ALIGNMENT = 256  # of a device's allocations; a view keeps its distance from it


@dataclass(slots=True)
class Buffer:
    """Host memory that one or several pointer arguments share.

    ``begin`` and ``end`` are addresses of the host's memory, ``device`` the address that the
    kernel sees for ``begin``. ``allocation`` is where the memory begins that it is a part of.
    """

    begin: int
    end: int
    device: int
    granule: int
    written: bool
    allocation: int
    users: list[tuple[Parameter, int, int]] = field(default_factory=list)  # begin and end of each
    memory: mmap.mmap | None = None

    @property
    def nbytes(self) -> int:
        """Its size."""
        return self.end - self.begin

    def move_in(self) -> None:
        """Copy it into memory of its own."""
        offset = _GUARD + self.begin % _ALIGNMENT
        self.memory = mmap.mmap(-1, offset + self.nbytes + _GUARD)
        self.device = int(ffi.cast("uintptr_t", ffi.from_buffer(self.memory))) + offset
        ffi.memmove(ffi.cast("char *", self.device), ffi.cast("char *", self.begin), self.nbytes)

    def move_out(self) -> None:
        """Copy it back if the kernel may have written it."""
        if self.written:
            source = ffi.cast("char *", self.device)
            ffi.memmove(ffi.cast("char *", self.begin), source, self.nbytes)

    def place(self, offset: int) -> Place:
        """The element at ``offset`` bytes, as the argument that it is in, or that is nearest."""
        at = self.begin + offset

        def distance(user: tuple[Parameter, int, int]) -> int:
            _, begin, end = user
            return max(begin - at, at - end + 1, 0)

        parameter, begin, end = min(self.users, key=distance)
        size = _element_size(parameter)
        return Place(parameter.name, (at - begin) // size, (end - begin) // size)


class Arguments:
    """The arguments of one launch, as the ``void **`` that kernels are called with.

    Args:
        kernel: what they are for.
        values: one a parameter: arrays or `Tensor` for pointers (None for a null pointer),
            numbers for the others.
        own_memory: whether arrays are copied; see the module.

    Raises:
        ArgumentTypeError: ML441 (a TypeError), another number of arguments, another dtype.
        TensorError: ML442 (a ValueError), an array that is not contiguous, or that the kernel
            would write and must not.
    """

    def __init__(self, kernel: Kernel, values: Sequence[object], own_memory: bool) -> None:
        if len(values) != len(kernel.parameters):
            raise ArgumentTypeError(
                "ML441",
                f"{kernel.name} takes {len(kernel.parameters)} arguments, got {len(values)}",
                why=[f"the kernel is {kernel}"],
                fix="pass one argument for each parameter, in order",
            )
        self.buffers: list[Buffer] = []
        self._kept: list[object] = []
        self._slots = np.zeros(max(len(values), 1) * _SLOT, np.uint8)
        base = self._slots.ctypes.data
        places = [ffi.cast("void *", base + i * _SLOT) for i in range(len(values))]
        self.pointer = ffi.new("void *[]", places or 1)
        hosts: list[int | None] = []
        for parameter, value in zip(kernel.parameters, values, strict=True):
            if parameter.pointer:
                hosts.append(self._add_array(kernel, parameter, value))
            else:
                hosts.append(None)
                self._put(len(hosts) - 1, _scalar(kernel, parameter, value))
        if own_memory:
            self._merge()
            for buffer in self.buffers:
                buffer.move_in()
        for index, host in enumerate(hosts):
            if host is not None:
                self._put(index, np.uint64(self._device_address(host)).tobytes())

    def finish(self) -> None:
        """Copy results back to the caller's arrays."""
        for buffer in self.buffers:
            if buffer.memory is not None:
                buffer.move_out()

    def _put(self, index: int, data: bytes) -> None:
        self._slots[index * _SLOT : index * _SLOT + len(data)] = np.frombuffer(data, np.uint8)

    def _device_address(self, host: int) -> int:
        for buffer in self.buffers:
            if buffer.begin <= host < buffer.end or host == buffer.begin:
                return buffer.device + host - buffer.begin
        return 0  # a null pointer

    def _add_array(self, kernel: Kernel, parameter: Parameter, value: object) -> int:
        """The address of the argument's memory, 0 for None."""
        if value is None:
            return 0
        address, nbytes, writable = _memory(kernel, parameter, value)
        if not parameter.constant and not writable:
            raise TensorError(
                "ML442",
                f"{kernel.name} may write its parameter {parameter.name}, and the argument is "
                "read-only",
                fix=f"declare it const {parameter.c_type} *{parameter.name}, or pass a copy",
            )
        self._kept.append(value)
        granule = min(_element_size(parameter), 4)
        writes, allocation = not parameter.constant, _allocation(value, address)
        buffer = Buffer(address, address + nbytes, address, granule, writes, allocation)
        buffer.users.append((parameter, address, address + nbytes))
        self.buffers.append(buffer)
        return address

    def _merge(self) -> None:
        """Make one buffer of arguments that share memory, so that they do so in the kernel."""
        merged: list[Buffer] = []
        for buffer in sorted(self.buffers, key=lambda b: (b.begin, b.end)):
            last = merged[-1] if merged else None
            if last is None or (buffer.begin >= last.end and buffer.begin != last.begin):
                merged.append(buffer)
                continue
            last.end = max(last.end, buffer.end)
            last.granule = min(last.granule, buffer.granule)
            last.allocation = min(last.allocation, buffer.allocation)
            last.written |= buffer.written
            last.users += buffer.users
        self.buffers = merged


def _element_size(parameter: Parameter) -> int:
    return size_of(parameter.c_type) or 1


def _memory(kernel: Kernel, parameter: Parameter, value: object) -> tuple[int, int, bool]:
    """(address, bytes, whether it may be written) of an array argument."""
    if isinstance(value, TensorBase):
        dtype, contiguous = value.dtype, bool(value.is_contiguous)
        shape: tuple[int, ...] = value.shape
        found = value.address, value.num_elements * value.element_size, not value.read_only
    elif isinstance(value, np.ndarray):
        dtype, contiguous = DType.from_numpy(value.dtype), value.flags.c_contiguous
        shape = value.shape
        found = value.ctypes.data, value.nbytes, value.flags.writeable
    else:
        raise ArgumentTypeError(
            "ML441",
            f"{kernel.name} takes an array for {parameter}, got {type(value).__name__}",
            fix="pass a Tensor or a NumPy array; None is a null pointer",
        )
    if not _fits(dtype, parameter):
        wanted = parameter.dtype.name if parameter.dtype else parameter.c_type
        raise ArgumentTypeError(
            "ML441",
            f"{kernel.name} takes an array of {wanted} for {parameter}, got {dtype.name}",
            fix="convert the array, or change the parameter's type",
        )
    if not contiguous:
        raise TensorError(
            "ML442",
            f"the array for {parameter.name} of {kernel.name}, of shape {shape}, is not contiguous",
            fix="pass numpy.ascontiguousarray(x), or tensor.contiguous()",
        )
    return found


def _allocation(value: object, address: int) -> int:
    """Where the memory begins that an array is a view into."""
    if isinstance(value, TensorBase):
        begin = getattr(value._owner, "address", address)
        return begin if isinstance(begin, int) and 0 < begin <= address else address
    array = value
    while isinstance(array, np.ndarray) and isinstance(array.base, np.ndarray):
        array = array.base
    return array.ctypes.data if isinstance(array, np.ndarray) else address


def _fits(dtype: DType, parameter: Parameter) -> bool:
    """Whether an array of ``dtype`` is what the pointer points at.

    Unsigned integers also stand for what is stored in them: bool, and floats of 16 and 8 bits.
    """
    wanted = parameter.dtype
    if wanted is None or dtype is wanted:
        return True  # void * takes all
    storage = {1: DType.uint8, 2: DType.uint16}.get(dtype.size_in_bytes)
    other = dtype if wanted is storage else wanted if dtype is storage else None
    if other is None or other.size_in_bytes != dtype.size_in_bytes:
        return False
    return other.is_float() or other is DType.bool


def _scalar(kernel: Kernel, parameter: Parameter, value: Any) -> bytes:
    """The bytes of a number as the parameter's type."""
    dtype = parameter.dtype
    if dtype is None:
        raise ArgumentTypeError(
            "ML441",
            f"no argument can be made for the parameter {parameter} of {kernel.name}",
            fix="pass numbers one by one, or an array with a pointer to it",
        )
    number = value.item() if isinstance(value, np.generic) else value
    kinds: tuple[type, ...] = (bool, int, float) if dtype.is_float() else (bool, int)
    if not isinstance(number, kinds):
        raise ArgumentTypeError(
            "ML441",
            f"{kernel.name} takes one {dtype.name} for {parameter}, got {value!r}",
            fix="pass an array only for a pointer, and an integer for an integer type",
        )
    if dtype.is_float():
        return np.array(number).astype(dtype.ml_numpy).tobytes()
    try:
        return np.array(number, dtype.ml_numpy).tobytes()
    except OverflowError:
        raise ArgumentTypeError(
            "ML441",
            f"{number} does not fit into the parameter {parameter} of {kernel.name}",
            fix="pass a smaller number, or make the parameter a long long",
        ) from None
