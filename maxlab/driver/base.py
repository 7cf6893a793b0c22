"""The base of all tensors: a typed, strided window on memory, and its values on the host.

Input: a pointer, a dtype, a shape, strides, and an owner that keeps the memory alive.
Output: facts, NumPy arrays and DLPack capsules of that memory, never a copy unless asked.
"""

from __future__ import annotations

import math
import sys
from types import FrameType
from typing import Any, Self, TypeAlias

import numpy as np

from maxlab.driver import copying, dlpack, printing
from maxlab.driver.device import CPU, Device, DeviceStream
from maxlab.driver.gpu_memory import DeviceBlock, PinnedDeviceBlock
from maxlab.driver.gpu_stream import AcceleratorStream
from maxlab.driver.layout import check_index, contiguous_strides
from maxlab.driver.memory import Block, PinnedBlock, block_of
from maxlab.driver.virtual import VirtualBlock, memory_of
from maxlab.dtype import DType
from maxlab.errors import ArgumentTypeError, TensorError, shown
from maxlab.habits import NO, YES, Told
from maxlab.toolchain.cffi_abi import ffi

Array: TypeAlias = np.ndarray[Any, Any]

_CHAR = ffi.typeof("char *")
_LEGACY = 1  # the default stream, as the array API standard and CUDA number it
BITS: dict[int, np.dtype[Any]] = {size: np.dtype(f"u{size}") for size in (1, 2, 4, 8)}


class TensorBase:
    """The memory of a tensor and what can be read off it; `Tensor` adds views and copies.

    ``address``, ``_dtype``, ``_shape``, ``_strides`` and ``_stream`` are plain slots, because the
    dispatch of a compiled model reads them on every call.
    """

    __slots__ = (
        "__weakref__",
        "_dtype",
        "_owner",
        "_read_only",
        "_shape",
        "_stream",
        "_strides",
        "address",
    )

    address: int
    """Where its first element is."""
    _dtype: DType
    _shape: tuple[int, ...]
    _strides: tuple[int, ...] | None  # in elements; None: contiguous, last axis fastest
    _owner: object
    _stream: DeviceStream
    _read_only: bool

    # ----------------------------------------------------------------- facts

    @property
    def dtype(self) -> DType:
        """The type of the elements."""
        return self._dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of the axes."""
        return self._shape

    @property
    def rank(self) -> int:
        """The number of axes."""
        return len(self._shape)

    @property
    def num_elements(self) -> int:
        """The number of elements; 1 for a tensor of rank 0."""
        return math.prod(self._shape)

    @property
    def element_size(self) -> Told:
        """The size of one element in bytes; ``tensor.element_size()`` is it too."""
        return Told(self._dtype._nbytes)

    @property
    def strides(self) -> tuple[int, ...]:
        """The distance between neighbours along each axis, in elements."""
        return contiguous_strides(self._shape) if self._strides is None else self._strides

    @property
    def device(self) -> Device:
        """The device the memory is on."""
        return self._stream._device

    @property
    def stream(self) -> DeviceStream:
        """The stream in whose order the tensor is copied."""
        return self._stream

    @property
    def is_host(self) -> bool:
        """True if the memory is the host's."""
        return self._stream._device.is_host

    @property
    def host_span(self) -> tuple[int, int]:
        """Where a contiguous tensor on the host begins, and its bytes; 0 and 0 of memory that is
        not the host's."""
        return (self.address, self.num_elements * self._dtype._nbytes) if self.is_host else (0, 0)

    @property
    def is_contiguous(self) -> Told:
        """True if the elements lie in memory one after another, last axis fastest;
        ``tensor.is_contiguous()`` is it too.

        Axes of size 1 do not matter; a negative step never counts as contiguous.
        """
        return YES if self._strides is None else NO

    @property
    def owner(self) -> object:
        """The object that keeps the memory alive: a block of it, an array, a mapped file, another
        tensor.
        """
        return self._owner

    @property
    def pinned(self) -> bool:
        """True if the memory's pages are locked."""
        return isinstance(self._owner, (PinnedBlock, PinnedDeviceBlock))

    @property
    def read_only(self) -> bool:
        """True if the memory must not be written (a read-only array or mapped file)."""
        return self._read_only

    # -------------------------------------------------------- values on the host

    def item(self, *index: Any) -> Any:
        """The element of a tensor of rank 0, as a bool, int or float; copied from a device. Of
        others the element at ``index``, or at one number among all elements, as NumPy's.

        Raises:
            TensorError: ML422 (a ValueError), the tensor has axes.
            TensorIndexError: ML426 (an IndexError), there is no such element.
        """
        if index:
            flat = len(index) == 1 and len(self._shape) != 1 and not isinstance(index[0], tuple)
            count = math.prod(self._shape)
            shape = (count,) if flat else self._shape
            place = check_index(index[0] if isinstance(index[0], tuple) else index, shape)
            array = self.on_host().to_ml_numpy()
            value = (array.reshape(-1) if flat else array)[place][()]
            return float(value) if self._dtype.is_float() else value.item()
        if self._shape:
            raise TensorError(
                "ML422",
                f"item() needs a tensor of rank 0, got shape {self._shape}",
                fix="choose an element first: tensor[0, 0].item()",
            )
        value = self.on_host().to_ml_numpy()[()]
        return float(value) if self._dtype.is_float() else value.item()

    def to_numpy(self) -> Array:
        """A NumPy array of the tensor's memory; 8-bit floats come as their ``uint8`` bits.

        Raises:
            TensorError: ML428 (a ValueError), NumPy has no such dtype (`bfloat16`, 4-bit); ML446,
                the tensor is on an accelerator.

        Example:
            >>> from maxlab.driver import Tensor
            >>> Tensor.scalar(1.5, DType.float32).to_numpy()
            array(1.5, dtype=float32)
        """
        self._require_host()
        dtype = self._dtype
        if dtype is DType.bfloat16 or dtype is DType.float4_e2m1fn:
            raise self._no_dtype()
        return self._array(dtype.to_numpy())

    def _no_dtype(self) -> TensorError:
        bits = "uint16" if self._dtype is DType.bfloat16 else "uint8"
        return TensorError(
            "ML428",
            f"NumPy has no dtype for a tensor of {self._dtype.name}",
            fix=f"use tensor.to_ml_numpy(), or its bits: tensor.view(DType.{bits}).to_numpy()",
        )

    def to_ml_numpy(self) -> Array:
        """A NumPy array of the tensor's memory for every dtype, those of `ml_dtypes` included.

        Raises:
            TensorError: ML446, the tensor is on an accelerator.
        """
        self._require_host()
        return self._array(self._dtype.ml_numpy)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        """The tensor as `numpy.asarray` takes it: its own memory, unless converted."""
        require_copy(copy)
        if self._dtype.ml_numpy.isbuiltin != 1:  # the bits would pass for numbers
            if dtype is None:
                raise self._no_dtype()
            array = self.to_ml_numpy()
        else:
            array = self.to_numpy()
        if dtype is not None and np.dtype(dtype) != array.dtype:
            if copy is False:
                raise TensorError(
                    "ML422",
                    f"{self._dtype.name} cannot become {np.dtype(dtype)} without a copy",
                    fix="drop copy=False, or ask for the tensor's own dtype",
                )
            return array.astype(dtype)
        return array.copy() if copy else array

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """A DLPack capsule of the tensor's memory.

        Args:
            stream: the consumer's stream, as the array API standard numbers it, for memory on a
                GPU: 1 the legacy default, 2 the per-thread default, -1 for no ordering, otherwise
                a ``CUstream``. It is made to wait for this tensor's. None or -1 for host memory.
            max_version: the newest version the consumer reads. One that does not know of read-only
                memory, from before 1.0 or PyTorch, gets a copy of a read-only tensor.
            dl_device: where the memory is wanted; only where it is.
            copy: True for a capsule of a copy, False to fail rather than copy.

        Raises:
            ExportError: ML424 (a BufferError), one of these cannot be had, or the tensor is on a
                simulated device.
        """
        here = self.__dlpack_device__()
        dlpack.check_request(stream, max_version, dl_device, copy)
        if (dl_device or here) != here or (here == dlpack.CPU_DEVICE and stream not in (None, -1)):
            raise dlpack.ExportError(
                "ML424",
                f"memory of {self.device} was asked for on stream {shown(stream)} and device "
                f"{shown(dl_device)}",
                fix="leave stream and dl_device at None",
            )
        if isinstance(self._stream, AcceleratorStream) and stream != -1:
            self._stream.lead(_LEGACY if stream is None else stream)
        if copy is None and self._read_only:
            copy = max_version is None or max_version[0] < 1 or _writes_to_all(sys._getframe(1))
        source = self._own_copy() if copy else self
        return dlpack.export(
            source.address,
            source._dtype,
            source._shape,
            source.strides,
            source._owner,
            read_only=source._read_only,
            copied=bool(copy),
            max_version=max_version,
            device=here,
        )

    def __dlpack_device__(self) -> tuple[int, int]:
        """(device type, device id) as numbered by DLPack: ``(1, 0)`` for the host, ``(2, id)`` for
        an NVIDIA GPU.

        Raises:
            ExportError: ML424 (a BufferError), a simulated device, which no other library knows.
        """
        stream = self._stream
        if not isinstance(stream, AcceleratorStream):
            return dlpack.CPU_DEVICE
        if stream.context.properties.simulated:
            raise dlpack.ExportError(
                "ML424",
                f"the tensor is on {self.device}, whose memory other libraries cannot use",
                fix="export tensor.to(driver.CPU())",
            )
        return dlpack.CUDA, stream.context.id

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """The tensor as CuPy, Numba and PyTorch take it without a copy (version 3 of the CUDA Array
        Interface).

        Raises:
            AttributeError: the tensor is not on an NVIDIA GPU, or its dtype has no NumPy name.
        """
        stream = self._stream
        if not isinstance(stream, AcceleratorStream) or stream.context.properties.simulated:
            raise AttributeError(f"a tensor on {self.device} has no __cuda_array_interface__")
        if self._dtype in (DType.bfloat16, DType.float4_e2m1fn) or self._dtype.is_float8():
            raise AttributeError(f"{self._dtype.name} has no type in __cuda_array_interface__")
        size = self._dtype._nbytes
        strides = None if self._strides is None else tuple(s * size for s in self._strides)
        return {
            "shape": self._shape,
            "typestr": self._dtype.to_numpy().str,
            "data": (self.address if self.num_elements else 0, self._read_only),
            "strides": strides,
            "version": 3,
            "stream": stream.handle or 1,
        }

    def __repr__(self) -> str:
        return printing.text(self)

    def __shown__(self) -> str:
        """The text of messages about it; no element is read for them."""
        return f"Tensor({printing.facts_of(self)})"

    def _repr_html_(self) -> str:
        return printing.page(self)

    # ---------------------------------------------------------------- inside

    def _bits(self) -> Array:
        """The memory as unsigned integers of the element's size."""
        return self._array(BITS[self._dtype._nbytes])

    def _array(self, dtype: np.dtype[Any]) -> Array:
        shape, strides = self._shape, self._strides
        size = dtype.itemsize
        count = math.prod(shape)
        if count == 0:
            return np.empty(shape, dtype)
        first = self.address
        if strides is None:
            span, offset, steps = count, 0, None
        else:  # the block from the lowest to the highest element
            reach = [(n - 1) * s for n, s in zip(shape, strides, strict=True)]
            low = sum(r for r in reach if r < 0)
            span, offset = sum(map(abs, reach)) + 1, -low * size
            first += low * size
            steps = tuple(s * size for s in strides)
        owner = self._owner
        # The array keeps the buffer, the buffer the pointer, and the pointer's destructor
        # the owner of the memory.
        memory = ffi.gc(ffi.cast(_CHAR, first), lambda _, owner=owner: None)
        array: Array = np.ndarray(shape, dtype, ffi.buffer(memory, span * size), offset, steps)
        if self._read_only:
            array.flags.writeable = False
        return array

    def _require_writable(self) -> None:
        if self._read_only:
            raise TensorError(
                "ML427",
                "the tensor is read-only, because its array or file is",
                fix="write to tensor.copy()",
            )

    def _require_host(self) -> None:
        """Return if the host can read the memory, when all work on it has ended.

        Raises:
            TensorError: ML446, it cannot.
        """
        stream = self._stream
        if isinstance(stream, AcceleratorStream):
            if not isinstance(self._owner, PinnedDeviceBlock):
                raise TensorError(
                    "ML446",
                    f"the tensor is on {self.device}, and NumPy reads host memory only",
                    fix="copy it first: tensor.to(driver.CPU()).to_numpy()",
                )
            stream.synchronize()

    def on_host(self) -> Self:
        """The tensor itself if the host can read its memory, else a copy on the host."""
        if self.is_host:
            return self
        result = self._like(CPU().default_stream)
        copying.fill(result, self)
        return result

    def copied(self) -> Array:
        """A copy of the elements as an array of the host, of a type of ``ml_dtypes`` where NumPy
        has none."""
        return np.array(self.on_host().to_ml_numpy())

    def note_use(self, stream: DeviceStream) -> None:
        """Let the memory not be given away before work that ``stream`` was given has ended; the
        host has done its work when it comes here."""
        if isinstance(self._owner, DeviceBlock) and isinstance(stream, AcceleratorStream):
            self._owner.used_by(stream)

    def _like(self, stream: DeviceStream) -> Self:
        """A contiguous tensor of this dtype and shape on ``stream``, its elements undefined."""
        result = object.__new__(type(self))
        nbytes = math.prod(self._shape) * self._dtype._nbytes
        block = block_on(stream, nbytes)
        result._owner = block
        result.address = block.address
        result._dtype = self._dtype
        result._shape = self._shape
        result._strides = None
        result._stream = stream
        result._read_only = False
        return result

    def _own_copy(self) -> Self:
        """A contiguous tensor with the same elements and memory of its own."""
        result = self._like(self._stream)
        copying.fill(result, self)
        return result

    def _scatter(self, block: Block) -> None:
        """Set the elements, wherever they are, to those of ``block``, which are contiguous."""
        bits = BITS[self._dtype._nbytes]
        memory = ffi.buffer(ffi.cast(_CHAR, block.address), self.num_elements * bits.itemsize)
        self._bits()[...] = np.frombuffer(memory, bits).reshape(self._shape)


def require_copy(given: Any) -> None:
    """Raises unless ``given`` says whether to copy: True, False, or None for both.

    Raises:
        ArgumentTypeError: ML421 (a TypeError), it says neither.
    """
    if given is not None and not isinstance(given, bool):
        raise ArgumentTypeError(
            "ML421",
            f"copy must be True, False or None, got {shown(given)}",
            fix="leave it out to copy only where nothing else works",
        )


def _writes_to_all(consumer: FrameType) -> bool:
    """Whether ``consumer`` is a function of a library whose tensors can all be written, whatever
    DLPack says of their memory: PyTorch has none that are only read."""
    return str(consumer.f_globals.get("__name__", "")).partition(".")[0] == "torch"


def block_on(stream: DeviceStream, nbytes: int) -> Block | DeviceBlock | VirtualBlock:
    """Memory for ``nbytes`` on the device of ``stream``.

    Raises:
        DeviceError: ML403, there is not enough.
    """
    if isinstance(stream, AcceleratorStream):
        return DeviceBlock(stream.pool, stream, nbytes)
    memory = memory_of(stream._device)
    return block_of(nbytes) if memory is None else VirtualBlock(memory, nbytes)
