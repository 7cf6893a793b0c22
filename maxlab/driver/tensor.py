"""`Tensor`: typed, shaped memory on a device, shared with NumPy and DLPack without copies.

A tensor is a pointer, a dtype, a shape and strides, and an owner that keeps the memory
alive: a pool block, a NumPy array, a mapped file or another library's DLPack memory. Views
and slices share the owner. Facts and host values are in `base`.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn, overload

import numpy as np

from maxlab.driver import copying, foreign
from maxlab.driver.base import BITS, Array, TensorBase, block_on, require_copy
from maxlab.driver.device import (
    CPU,
    Device,
    DeviceStream,
    device_named,
    one_stream,
    stream_of,
)
from maxlab.driver.gpu_memory import DeviceBlock, PinnedDeviceBlock
from maxlab.driver.gpu_stream import AcceleratorStream
from maxlab.driver.layout import (
    TensorIndexError,
    canonical_strides,
    check_index,
    check_shape,
    places_of,
)
from maxlab.driver.memory import Block, PinnedBlock, block_of
from maxlab.driver.numbers import Numbers, unchanging
from maxlab.driver.virtual import VirtualBlock
from maxlab.dtype import (
    DType,
    StaticFunction,
    check_array,
    check_scalar,
    check_unmasked,
    dtype_of,
)
from maxlab.errors import ArgumentTypeError, TensorError, shown
from maxlab.habits import fitting

# Read on every allocation of a compiled model's outputs.
_HOST = CPU().default_stream


class Tensor(TensorBase, Numbers):
    """Memory of one dtype and shape on a device. Contents start undefined; see `zeros`.

    Args:
        dtype: the type of the elements.
        shape: sizes of the axes, each 0 or more; ``()`` for a scalar.
        device: where the memory is; the CPU by default.
        pinned: lock the memory's pages, so that devices can read it directly. With an accelerator
            it is host memory that both read and write, and copies of it need not be waited for.
        stream: the stream the tensor belongs to, instead of ``device``.

    A NumPy array and a device make a tensor with a copy of the array on that device.

    Raises:
        TensorError: ML420 (a ValueError), a negative or far too large size.
        ArgumentTypeError: ML421 (a TypeError), not a dtype, not sizes.
        DeviceError: ML403, not enough memory, or it cannot be locked.

    Example:
        >>> t = Tensor(DType.float32, [2, 3])
        >>> t.shape, t.num_elements
        ((2, 3), 6)
    """

    __slots__ = ()

    @staticmethod
    def _of(array: Array) -> Tensor:
        return Tensor.from_numpy(array)

    @staticmethod
    def _of_torch(array: Any) -> Tensor:
        return Tensor.from_dlpack(array)

    @overload
    def __init__(
        self,
        dtype: DType,
        shape: Sequence[int],
        device: Device | None = None,
        pinned: bool = False,
    ) -> None: ...
    @overload
    def __init__(
        self, dtype: DType, shape: Sequence[int], stream: DeviceStream, pinned: bool = False
    ) -> None: ...
    @overload
    def __init__(self, shape: Array, device: Device) -> None: ...
    def __init__(  # type: ignore[misc]  # the third positional may be a stream
        self,
        dtype: Any = None,
        shape: Any = None,
        device: Any = None,
        pinned: bool = False,
        stream: Any = None,
    ) -> None:
        if isinstance(dtype, np.ndarray):  # Tensor(array, device)
            dtype, shape, device = None, dtype, shape if device is None else device
        where = one_stream(stream, device)
        array = shape if isinstance(shape, np.ndarray) and dtype is None else None
        if array is not None:
            dtype, shape = DType.from_numpy(array.dtype), array.shape
        sizes = check_shape(shape)
        dtype = _dtype(dtype)
        nbytes = math.prod(sizes) * dtype._nbytes
        self._owner = block = _memory(where, nbytes, pinned)
        self.address = block.address
        self._dtype = dtype
        self._shape = sizes
        self._strides = None
        self._stream = where
        self._read_only = False
        if array is not None:
            copying.fill(self, Tensor.from_numpy(array))

    # ------------------------------------------------------------ making tensors

    @StaticFunction
    @fitting("ML421", "driver.Tensor.zeros([2], DType.float32)")
    def zeros(
        shape: Sequence[int],  # noqa: N805
        dtype: DType,
        device: Device | None = None,
        pinned: bool = False,
    ) -> Tensor:
        """A tensor of zeros (`False` for bool).

        Raises:
            TensorError: ML420, a bad shape.
            DTypeError: ML102, `float8_e8m0fnu`, which has no zero.
            DeviceError: ML403, not enough memory.

        Example:
            >>> Tensor.zeros([2], DType.int32).to_numpy()
            array([0, 0], dtype=int32)
        """
        dtype = _dtype(dtype)
        check_scalar(0, dtype)  # one 8-bit float has no zero
        result = Tensor(dtype, shape, device, pinned)
        stream = result._stream
        if isinstance(stream, AcceleratorStream):
            context, start, nbytes = stream.context, result.address, result._nbytes()
            if nbytes:
                context.call(lambda: context.fill(stream.queue, start, 0, nbytes))
        else:
            result._bits().fill(0)
        return result

    @StaticFunction
    @fitting("ML421", "driver.Tensor.scalar(1, DType.float32)")
    def scalar(value: Any, dtype: DType, device: Device | None = None) -> Tensor:  # noqa: N805
        """A rank-0 tensor of ``value``, which ``dtype`` must be able to hold.

        Raises:
            DTypeError: ML102 (a ValueError), it cannot.

        Example:
            >>> Tensor.scalar(7, DType.int64).item()
            7
        """
        result = Tensor(dtype, ())
        result.to_ml_numpy()[...] = check_scalar(value, result._dtype)
        return result if device is None else result._move(device)

    @StaticFunction
    def from_numpy(arr: Array) -> Tensor:  # noqa: N805
        """A host tensor that shares the array's memory, or holds a copy if the array is not
        contiguous. The tensor of a read-only array is read-only.

        Raises:
            DTypeError: ML103 (a ValueError), a dtype that tensors do not have.
            ArgumentTypeError: ML421 (a TypeError), not an array.
            TensorError: ML413 (a ValueError), a masked array.

        Example:
            >>> a = np.zeros(3, np.float32)
            >>> Tensor.from_numpy(a)[0] = 5.0
            >>> a
            array([5., 0., 0.], dtype=float32)
        """
        if not isinstance(arr, np.ndarray):
            raise ArgumentTypeError(
                "ML421",
                f"from_numpy takes a numpy.ndarray, got {type(arr).__name__}",
                fix="use numpy.asarray(...) first, or Tensor.from_dlpack",
            )
        check_unmasked(arr)
        dtype = DType.from_numpy(arr.dtype)
        flags = arr.flags
        if not (flags.c_contiguous and flags.aligned):
            arr = np.array(arr, order="C")
        return _wrap(
            foreign.address_of(arr), dtype, arr.shape, None, arr, _HOST, not flags.writeable
        )

    @StaticFunction
    def from_dlpack(array: Any, *, copy: bool | None = None) -> Tensor:  # noqa: N805
        """A tensor of the memory of ``array``, which may come from any library with DLPack, or from
        one with the CUDA Array Interface.

        Args:
            array: a NumPy or CuPy array, PyTorch tensor, JAX array, PyCUDA's GPUArray, `Tensor`,
                or the like.
            copy: True for a tensor of its own memory, False to fail rather than copy,
                None to copy only if nothing else works.

        Raises:
            ArgumentTypeError: ML421 (a TypeError), the object does not speak DLPack, or ``copy`` is
                no bool.
            TensorError: ML422 (a ValueError), ``copy=False`` and a copy is needed.
            DTypeError: ML103 (a ValueError), a dtype that tensors do not have.
            DeviceError: ML410 (a ValueError), memory that is neither on the host nor on a GPU that
                is there.
        """
        require_copy(copy)
        if isinstance(array, Tensor):
            found = array._alias(array._stream)
        else:
            found = _wrap(*foreign.window_of(array, copy))
        return found.copy() if copy else found

    @StaticFunction
    def mmap(
        filename: os.PathLike[str] | str,  # noqa: N805
        dtype: DType,
        shape: Sequence[int] | int,
        mode: str = "copyonwrite",
        offset: int = 0,
    ) -> Tensor:
        """A tensor whose memory is the content of a file, read as it is used.

        Args:
            filename: the file.
            dtype: the type of the elements in it.
            shape: the sizes of the axes.
            mode: ``"copyonwrite"`` (changes stay in memory), ``"readonly"``, ``"readwrite"``
                or ``"write"`` (creates the file); NumPy's ``c``, ``r``, ``r+``, ``w+`` too.
            offset: where in the file the tensor begins, in bytes.

        Raises:
            TensorError: ML425 (a ValueError), an unknown mode, a negative offset, or a file
                that is too short.
            OSError: the file cannot be opened.
            ArgumentTypeError: ML421 (a TypeError), not a dtype, not sizes.
        """
        sizes = check_shape((shape,) if isinstance(shape, int) else shape)
        dtype = _dtype(dtype)
        mapped = foreign.mapped(filename, dtype, sizes, mode, offset)
        return Tensor(dtype, sizes) if mapped is None else _wrap(*mapped)

    # ----------------------------------------------------------------- views

    @fitting("ML421", "tensor.view(DType.int32), or tensor.view(-1)")
    def view(self, dtype: Any, shape: Any = None, *more: int) -> Tensor:
        """A tensor of the same memory, read as ``dtype`` and ``shape``.

        Without a shape, the last axis is counted in the new elements. Sizes instead of a dtype
        give the elements another shape, as PyTorch's ``view``.

        Raises:
            TensorError: ML422 (a ValueError), the bytes do not make that dtype and shape, or
                are not contiguous where they need to be.

        Example:
            >>> Tensor.zeros([2, 4], DType.float32).view(DType.uint8).shape
            (2, 16)
        """
        if isinstance(dtype, (int, tuple, list)) and not isinstance(dtype, bool):
            sizes = dtype if isinstance(dtype, (tuple, list)) else (dtype, shape, *more)
            return self.reshape(*(size for size in sizes if size is not None))
        dtype = _dtype(dtype)
        old, new = self._dtype._nbytes, dtype._nbytes
        sizes = self._view_shape(dtype) if shape is None else check_shape(shape)
        strides = self._strides
        if strides is not None:
            if shape is not None and sizes != self._shape:
                self._refuse_view(dtype, shape, "a strided tensor keeps its shape")
            if old != new:
                if strides[-1] != 1:
                    self._refuse_view(dtype, shape, "the last axis is not contiguous")
                if any(s * old % new for s in strides[:-1]):
                    self._refuse_view(dtype, shape, "its rows do not begin at whole elements")
                strides = (*(s * old // new for s in strides[:-1]), 1)
        if math.prod(sizes) * new != math.prod(self._shape) * old:
            self._refuse_view(dtype, shape, f"it has {self.num_elements * old} bytes")
        return _wrap(
            self.address, dtype, sizes, strides, self._owner, self._stream, self._read_only
        )

    def _view_shape(self, dtype: DType) -> tuple[int, ...]:
        old, new = self._dtype._nbytes, dtype._nbytes
        if old == new:
            return self._shape
        if not self._shape:
            self._refuse_view(dtype, None, "a scalar has no axis to count anew")
        last, rest = divmod(self._shape[-1] * old, new)
        if rest:
            self._refuse_view(dtype, None, f"rows have {self._shape[-1] * old} bytes")
        return (*self._shape[:-1], last)

    def _refuse_view(self, dtype: DType, shape: Sequence[int] | None, why: str) -> NoReturn:
        wanted = dtype.name if shape is None else f"{dtype.name} of shape {tuple(shape)}"
        raise TensorError(
            "ML422",
            f"a tensor of {self._dtype.name} {self._shape} cannot be viewed as {wanted}",
            why=[why],
            fix="give a shape with the same number of bytes, or view tensor.contiguous()",
        )

    def __getitem__(self, index: Any) -> Tensor:
        """The part of the tensor at ``index``, sharing its memory.

        Integers, slices, ``...`` and ``None`` work as in NumPy, and fewer indices than axes
        keep the rest: ``t[0]`` is the first row. Lists and arrays of places, and masks, give a
        copy, on the host.

        Raises:
            TensorIndexError: ML426 (an IndexError), out of range, or another kind of index.
        """
        if not isinstance(index, (int, slice)) and (places := places_of(index)) is not None:
            return self._of(np.array(self._chosen(places), order="C"))
        part = self._bits()[check_index(index, self._shape)]
        size = self._dtype._nbytes
        strides = canonical_strides(part.shape, tuple(step // size for step in part.strides))
        address = part.ctypes.data if part.size else self.address
        return _wrap(
            address, self._dtype, part.shape, strides, self._owner, self._stream, self._read_only
        )

    def __setitem__(self, index: Any, value: Any) -> None:
        """Set the elements at ``index`` to a number, or to an array that broadcasts to them.

        Raises:
            TensorIndexError: ML426 (an IndexError), out of range.
            DTypeError: ML102 (a ValueError), the dtype cannot hold the value.
            TensorError: ML427 (a ValueError), a read-only tensor; ML422, a shape that does
                not fit.
        """
        self._require_writable()
        if not isinstance(value, (Tensor, np.ndarray, np.generic)) and hasattr(value, "__dlpack__"):
            value = Tensor.from_dlpack(value)
        if isinstance(value, Tensor):
            value = value.on_host().to_ml_numpy()
        if isinstance(value, np.ndarray) and value.ndim:
            value = check_array(value, self._dtype)
        elif isinstance(value, Sequence) and not isinstance(value, str):
            try:
                array = np.asarray(value)
            except Exception as error:
                raise TensorError(
                    "ML422",
                    f"{shown(value)} cannot be read as an array: {type(error).__name__}",
                    fix="give one number, or rows of one length",
                ) from error
            value = check_array(array, self._dtype)
        else:
            value = check_scalar(value, self._dtype)
        if not isinstance(index, (int, slice)) and (places := places_of(index)) is not None:
            shape = self._chosen(places).shape
            try:
                self.to_ml_numpy()[places] = np.asarray(value, self._dtype.ml_numpy)
            except ValueError as error:
                raise _no_fit(value, shape) from error
            return
        part = self[index]
        on_device = isinstance(self._stream, AcceleratorStream)
        place = np.empty(part._shape, self._dtype.ml_numpy) if on_device else part.to_ml_numpy()
        try:
            place[...] = value
        except ValueError as error:
            raise _no_fit(value, place.shape) from error
        if on_device:
            copying.fill(part, Tensor.from_numpy(place))

    def _chosen(self, places: Any) -> Array:
        """The elements at ``places``, by NumPy."""
        try:
            chosen: Array = self.to_ml_numpy()[places]
        except IndexError as error:
            raise TensorIndexError(
                "ML426",
                f"a tensor of shape {self._shape} has not all of these places: {error}",
                fix="give places from -size to size - 1, or a bool for each",
            ) from error
        return chosen

    def __iter__(self) -> Iterator[Tensor]:
        """The parts along the first axis, each sharing the tensor's memory."""
        if not self._shape:
            raise ArgumentTypeError(
                "ML421", "a tensor of rank 0 has no axis to go along", fix="use tensor.item()"
            )
        return (self[i] for i in range(self._shape[0]))

    # --------------------------------------------------------- copies and moves

    def contiguous(self) -> Tensor:
        """A contiguous copy of the tensor, on its stream."""
        return self._copy_to(self._stream)

    @overload
    def copy(self, stream: DeviceStream) -> Tensor: ...
    @overload
    def copy(self, device: Device | None = None) -> Tensor: ...
    def copy(  # type: ignore[misc]  # the first positional may be a device
        self, stream: DeviceStream | Device | None = None, device: Device | None = None
    ) -> Tensor:
        """A contiguous tensor with memory of its own and the same elements.

        Args:
            stream: the stream of the copy, which may be on another device.
            device: the device of the copy; this tensor's own when nothing is given.
        """
        given = stream is not None or device is not None
        return self._copy_to(one_stream(stream, device) if given else self._stream)

    @overload
    def to(self, device: Device) -> Tensor: ...
    @overload
    def to(self, stream: DeviceStream) -> Tensor: ...
    @overload
    def to(self, devices: Sequence[Device]) -> list[Tensor]: ...
    @overload
    def to(self, streams: Sequence[DeviceStream]) -> list[Tensor]: ...
    def to(  # type: ignore[misc]  # the first positional may be any of the four
        self,
        device: Any = None,
        stream: Any = None,
        devices: Any = None,
        streams: Any = None,
        *,
        dtype: Any = None,
    ) -> Tensor | list[Tensor]:
        """This tensor on the given device or stream; copied only to another device.

        On its own device the same object comes back; with another stream of that device, a
        tensor of the same memory that belongs to the stream and waits for the old one.
        Several devices or streams give a list. With ``dtype``, on the host, the elements are
        converted, as in PyTorch.

        Raises:
            ArgumentTypeError: ML421 (a TypeError), no target, or several.
        """
        if stream is not None and dtype_of(stream) is not None:  # PyTorch's order
            stream, dtype = None, stream
        given = [t for t in (device, stream, devices, streams) if t is not None]
        if dtype is not None:
            made = self.astype(dtype)
            return made if not given else made.to(device, stream, devices, streams)  # type: ignore[call-overload]
        if len(given) != 1:
            raise ArgumentTypeError(
                "ML421", f"to() takes one target, got {len(given)}", fix="write tensor.to(CPU())"
            )
        target = given[0]
        if not isinstance(target, (Device, DeviceStream)):
            kind = dtype_of(target)
            if kind is not None:
                return self.astype(kind)
        if isinstance(target, str) or type(target).__module__ == "torch":
            target = device_named(target)
        if isinstance(target, (Device, DeviceStream)):
            return self._move(target)
        if isinstance(target, Sequence):
            return [self._move(one) for one in target]
        stream_of(target)
        raise AssertionError("stream_of refuses what is neither a device nor a stream")

    def cpu(self) -> Tensor:
        """This tensor on the host; copied only from another device."""
        return self._move(CPU())

    def clone(self) -> Tensor:
        """The same as `copy`."""
        return self._copy_to(self._stream)

    def _move(self, target: Device | DeviceStream) -> Tensor:
        stream = stream_of(target)
        if stream is self._stream or (
            isinstance(target, Device) and target is self._stream._device
        ):
            return self
        if stream._device is not self._stream._device:
            return self._copy_to(stream)
        stream.wait_for(self._stream)
        self.note_use(stream)
        return self._alias(stream)

    def in_order_of(self, stream: DeviceStream) -> Tensor:
        """The same memory for work that ``stream``, of the tensor's device, is given from now on:
        what still writes it comes first. The host, which begins at once, has waited for that."""
        if stream is self._stream:
            return self
        if isinstance(stream, AcceleratorStream):
            return self._move(stream)
        self._stream.synchronize()
        return self

    def _copy_to(self, stream: DeviceStream) -> Tensor:
        result = Tensor(self._dtype, self._shape, stream)
        copying.fill(result, self)
        return result

    def inplace_copy_from(self, src: Tensor) -> None:
        """Copy the elements of ``src`` into this tensor, in the order of this one's stream.

        Both must be contiguous, with the same dtype and number of elements.

        Raises:
            TensorError: ML422 (a ValueError), they differ; ML427, this one is read-only.
            ArgumentTypeError: ML421 (a TypeError), ``src`` is no tensor.
        """
        self._require_writable()
        if not isinstance(src, Tensor):
            raise ArgumentTypeError(
                "ML421",
                f"inplace_copy_from takes a Tensor, got {type(src).__name__}",
                fix="make one first: Tensor.from_dlpack(array)",
            )
        problems = [
            f"dtypes {self._dtype.name} and {src._dtype.name} differ"
            if src._dtype is not self._dtype
            else "",
            f"{self.num_elements} elements were expected, got {src.num_elements}"
            if src.num_elements != self.num_elements
            else "",
            "" if self.is_contiguous else "the destination is not contiguous",
            "" if src.is_contiguous else "the source is not contiguous",
        ]
        if any(problems):
            raise TensorError(
                "ML422",
                "inplace_copy_from: " + "; ".join(p for p in problems if p),
                fix="copy from src.contiguous(), of the same dtype and number of elements",
            )
        copying.fill(self, src)

    def _nbytes(self) -> int:
        return math.prod(self._shape) * self._dtype._nbytes

    def _alias(self, stream: DeviceStream) -> Tensor:
        return _wrap(
            self.address,
            self._dtype,
            self._shape,
            self._strides,
            self._owner,
            stream,
            self._read_only,
        )

    def __reduce__(self) -> tuple[Callable[..., Tensor], tuple[Any, ...]]:
        data = self.on_host()._bits().tobytes()
        device = None if self.device is CPU() else self.device
        return _rebuild, (self._dtype, self._shape, data, self._read_only, device)


def _dtype(given: Any) -> DType:
    """``given``, which must be a dtype.

    Raises:
        ArgumentTypeError: ML421, it is none.
    """
    found = dtype_of(given)
    if found is None:
        raise ArgumentTypeError(
            "ML421",
            f"dtype must be a DType, got {shown(given)}",
            fix="write DType.float32, or DType.from_numpy(array.dtype)",
        )
    return found


_new = object.__new__


def host_tensor(dtype: DType, shape: tuple[int, ...], nbytes: int) -> Tensor:
    """A new contiguous host tensor; the caller vouches for ``nbytes``. Below 1 µs."""
    # As `_wrap`, whose call would be a tenth of the time.
    tensor = _new(Tensor)
    tensor._owner = block = block_of(nbytes)
    tensor.address = block.address
    tensor._dtype = dtype
    tensor._shape = shape
    tensor._strides = None
    tensor._stream = _HOST
    tensor._read_only = False
    return tensor


def _no_fit(value: Any, shape: tuple[int, ...]) -> TensorError:
    return TensorError(
        "ML422",
        f"values of shape {np.shape(value)} do not fit into {shape}",
        fix="give one number, or an array of that shape",
    )


def tensor_on(stream: DeviceStream, dtype: DType, shape: tuple[int, ...], nbytes: int) -> Tensor:
    """A new contiguous tensor on a device; the caller vouches for ``nbytes``."""
    block = block_on(stream, nbytes)
    return _wrap(block.address, dtype, shape, None, block, stream, False)


unchanging(Tensor)


def _wrap(
    address: int,
    dtype: DType,
    shape: tuple[int, ...],
    strides: tuple[int, ...] | None,
    owner: object,
    stream: DeviceStream,
    read_only: bool,
) -> Tensor:
    """A tensor of given memory, without any check."""
    tensor = _new(Tensor)
    tensor.address = address
    tensor._dtype = dtype
    tensor._shape = shape
    tensor._strides = strides
    tensor._owner = owner
    tensor._stream = stream
    tensor._read_only = read_only
    return tensor


def _memory(
    stream: DeviceStream, nbytes: int, pinned: bool
) -> Block | PinnedBlock | DeviceBlock | PinnedDeviceBlock | VirtualBlock:
    if not isinstance(pinned, bool):
        raise ArgumentTypeError(
            "ML421", f"pinned must be a bool, got {shown(pinned)}", fix="write pinned=True"
        )
    if not pinned:
        return block_on(stream, nbytes)
    if isinstance(stream, AcceleratorStream):
        return PinnedDeviceBlock(stream.context, nbytes)
    return PinnedBlock(nbytes)


def _rebuild(
    dtype: DType,
    shape: tuple[int, ...],
    data: bytes,
    read_only: bool,
    device: Device | None = None,
) -> Tensor:
    tensor = Tensor(dtype, shape)
    if data:
        tensor._bits()[...] = np.frombuffer(data, BITS[dtype._nbytes]).reshape(shape)
    if device is not None:
        tensor = tensor._move(device)
    tensor._read_only = read_only
    return tensor


__all__ = ["Tensor", "TensorIndexError"]
