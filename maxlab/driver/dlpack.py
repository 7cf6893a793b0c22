"""DLPack: sharing memory with NumPy, PyTorch, JAX and others, without a copy.

Both forms are read and written: the versioned one, which knows read-only memory, and the
older one. A capsule that is handed out keeps the tensor's memory alive until the consumer
calls its deleter, or until the capsule itself dies unused.
"""

from __future__ import annotations

import ctypes
import functools
import math
from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

from maxlab.driver.layout import MAX_RANK
from maxlab.dtype import DType
from maxlab.errors import DeviceError, DTypeError, MaxlabError, TensorError, shown
from maxlab.toolchain.cffi_abi import ffi

CPU_DEVICE = (1, 0)  # kDLCPU
CUDA = 2  # kDLCUDA
_HOST_TYPES = (1, 3)  # kDLCPU, kDLCUDAHost
_READ_ONLY = 1
_COPIED = 2
_VERSION = (1, 0)

# (code, bits) of DLPack's dlpack.h
_CODES: dict[DType, tuple[int, int]] = {
    DType.bool: (6, 8),
    DType.int8: (0, 8),
    DType.int16: (0, 16),
    DType.int32: (0, 32),
    DType.int64: (0, 64),
    DType.uint8: (1, 8),
    DType.uint16: (1, 16),
    DType.uint32: (1, 32),
    DType.uint64: (1, 64),
    DType.float16: (2, 16),
    DType.float32: (2, 32),
    DType.float64: (2, 64),
    DType.bfloat16: (4, 16),
    DType.float8_e4m3fn: (10, 8),
    DType.float8_e4m3fnuz: (11, 8),
    DType.float8_e5m2: (12, 8),
    DType.float8_e5m2fnuz: (13, 8),
    DType.float8_e8m0fnu: (14, 8),
}
_DTYPES = {code: dtype for dtype, code in _CODES.items()}


@runtime_checkable
class DLPackArray(Protocol):
    """Any array that hands out its memory by the DLPack protocol."""

    def __dlpack__(self, **kwargs: Any) -> Any:
        """A capsule with a description of the array's memory."""

    def __dlpack_device__(self) -> tuple[int, int]:
        """(device type, device id) as numbered by DLPack."""


class ExportError(TensorError, BufferError):
    """The consumer of a DLPack exchange asks for what the tensor cannot give."""


class ProducerError(TensorError, BufferError):
    """The producer of a DLPack exchange does not give what the protocol says, or refuses to."""


# --------------------------------------------------------------------- capsules

_api = ctypes.pythonapi
_DESTRUCTOR = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)
_keep = _api.Py_IncRef
_keep.argtypes = [ctypes.py_object]
_keep.restype = None
_capsule_new = _api.PyCapsule_New
_capsule_new.argtypes = [ctypes.c_void_p, ctypes.c_char_p, _DESTRUCTOR]
_capsule_new.restype = ctypes.py_object
_capsule_name = _api.PyCapsule_GetName
_capsule_name.argtypes = [ctypes.py_object]
_capsule_name.restype = ctypes.c_char_p
_capsule_pointer = _api.PyCapsule_GetPointer
_capsule_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
_capsule_pointer.restype = ctypes.c_void_p
_capsule_rename = _api.PyCapsule_SetName
_capsule_rename.argtypes = [ctypes.py_object, ctypes.c_char_p]
_capsule_rename.restype = ctypes.c_int
# The same functions on a dying capsule: a py_object would count a reference and revive it.
_dying_is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)(
    ("PyCapsule_IsValid", _api)
)
_dying_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", _api)
)

# Names must outlive the capsules, which keep a pointer to them.
_OLD, _OLD_USED = b"dltensor", b"used_dltensor"
_NEW, _NEW_USED = b"dltensor_versioned", b"used_dltensor_versioned"

# address of a managed tensor -> what must live as long as it
_exported: dict[int, tuple[Any, ...]] = {}


# The address of a capsule that is alive -> what to do when it dies.
_alive: dict[int, _Unused] = {}


class _Unused:
    """Gives memory back in ``__del__`` if nobody has taken it out of its capsule."""

    __slots__ = ("capsule",)

    def __init__(self, capsule: int) -> None:
        self.capsule = capsule

    def __del__(
        self,
        exported: dict[int, Any] = _exported,
        is_valid: Any = _dying_is_valid,
        pointer: Any = _dying_pointer,
        names: tuple[bytes, bytes] = (_OLD, _NEW),
    ) -> None:
        for name in names:
            if is_valid(self.capsule, name):
                exported.pop(pointer(self.capsule, name) or 0, None)


@functools.cache
def _callbacks() -> tuple[Any, Any]:
    """The C functions by which consumers give memory back, and by which capsules die; made at first
    use.

    Arrays and capsules also die while an exception is on its way through the frames that had them.
    Calling any function then takes the exception for that function's own, and Python crashes later.
    Therefore both have operators alone. What these let go of may run any code: Python puts the
    exception aside for ``__del__``.
    """

    def release(managed: int, exported: dict[int, Any] = _exported) -> None:
        if managed in exported:
            del exported[managed]  # noqa: RUF051 - pop is a function

    def destroy(capsule: int, alive: dict[int, Any] = _alive) -> None:
        if capsule in alive:
            del alive[capsule]  # noqa: RUF051

    kind = "void(*)(uintptr_t)"
    made = ffi.callback(kind, release), ffi.callback(kind, destroy)
    for each in made:  # never freed: arrays of others may die when this module is gone already
        _keep(each)
    return made


@functools.cache
def _destructor() -> Any:
    """The destructor that `_capsule_new` takes for the second of `_callbacks`."""
    return _DESTRUCTOR(int(ffi.cast("uintptr_t", _callbacks()[1])))


def export(
    address: int,
    dtype: DType,
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    owner: object,
    *,
    read_only: bool,
    copied: bool,
    max_version: tuple[int, int] | None,
    device: tuple[int, int] = CPU_DEVICE,
) -> Any:
    """A capsule for memory; ``strides`` count elements, ``owner`` keeps the memory.

    Raises:
        ExportError: ML424 (a BufferError), read-only memory asked for by a consumer that
            does not know of it, or a dtype that DLPack has no code for.
    """
    code = _CODES.get(dtype)
    if code is None:
        raise ExportError(
            "ML424",
            f"DLPack has no code for {dtype.name}",
            fix="export the bits: tensor.view(DType.uint8)",
        )
    versioned = max_version is not None and max_version[0] >= 1
    if read_only and not versioned:
        raise ExportError(
            "ML424",
            "the tensor is read-only, and the consumer asks for a form of DLPack that "
            "cannot say so",
            fix="pass max_version=(1, 0), or export tensor.copy()",
        )
    rank = len(shape)
    managed = ffi.new("DLManagedTensorVersioned *" if versioned else "DLManagedTensor *")
    sizes = ffi.new("int64_t[]", [*shape, *strides]) if rank else ffi.NULL
    tensor = managed.dl_tensor
    tensor.data = ffi.cast("void *", address)
    tensor.device = {"device_type": device[0], "device_id": device[1]}
    tensor.ndim = rank
    tensor.dtype = {"code": code[0], "bits": code[1], "lanes": 1}
    if rank:
        tensor.shape = sizes
        tensor.strides = sizes + rank
    managed.deleter = ffi.cast(ffi.typeof(managed.deleter), _callbacks()[0])
    if versioned:
        managed.version = {"major": _VERSION[0], "minor": _VERSION[1]}
        managed.flags = _READ_ONLY * read_only + _COPIED * copied
    pointer = int(ffi.cast("uintptr_t", managed))
    _exported[pointer] = (managed, sizes, owner)
    capsule = _capsule_new(pointer, _NEW if versioned else _OLD, _destructor())
    _alive[id(capsule)] = _Unused(id(capsule))
    return capsule


def check_request(stream: Any, max_version: Any, dl_device: Any, copy: Any) -> None:
    """Raises unless the arguments of a consumer are of the types that the protocol says.

    Raises:
        ExportError: ML424 (a BufferError), one of them is not.
    """

    def is_pair(given: Any) -> bool:
        pair = isinstance(given, (tuple, list)) and len(given) == 2
        return given is None or (pair and all(isinstance(part, int) for part in given))

    fits = {
        "stream": (stream, stream is None or isinstance(stream, int)),
        "max_version": (max_version, is_pair(max_version)),
        "dl_device": (dl_device, is_pair(dl_device)),
        "copy": (copy, copy is None or isinstance(copy, bool)),
    }
    for name, (given, fitting) in fits.items():
        if not fitting:
            raise ExportError(
                "ML424",
                f"__dlpack__ was asked with {name}={shown(given)}",
                fix="leave it out: max_version and dl_device are pairs of ints, copy is a bool",
            )


# ---------------------------------------------------------------------- import


class Imported:
    """Memory that another library owns; gives it back when nothing refers to it any more."""

    __slots__ = ("_managed", "address", "device", "dtype", "read_only", "shape", "strides")

    def __init__(self, capsule: Any) -> None:
        try:
            name = _capsule_name(capsule)
        except ValueError as error:
            raise ProducerError(
                "ML423",
                f"__dlpack__ gave {shown(capsule)}, which is no capsule",
                fix="convert the array to NumPy first, or tell its library",
            ) from error
        if name not in (_OLD, _NEW):
            raise TensorError(
                "ML423",
                f"not an unused DLPack capsule: it is called {name!r}",
                fix="a capsule can be taken once; ask the producer for a new one",
            )
        versioned = name == _NEW
        kind = "DLManagedTensorVersioned *" if versioned else "DLManagedTensor *"
        managed = ffi.cast(kind, _capsule_pointer(capsule, name))
        if versioned and managed.version.major != _VERSION[0]:
            raise TensorError(
                "ML423",
                f"DLPack {managed.version.major}.{managed.version.minor} memory, "
                f"expected {_VERSION[0]}.x",
                fix="ask the producer for max_version=(1, 0)",
            )
        tensor = managed.dl_tensor
        self.read_only = bool(versioned and managed.flags & _READ_ONLY)
        self.dtype = _dtype_of(tensor)
        self.device = (int(tensor.device.device_type), int(tensor.device.device_id))
        if self.device[0] not in (*_HOST_TYPES, CUDA):
            raise not_reachable(self.device[0])
        self.shape, self.strides = _layout_of(tensor)
        self.address = _address_of(tensor, self.shape)
        # From here on the memory is ours to give back.
        _capsule_rename(capsule, _NEW_USED if versioned else _OLD_USED)
        self._managed = managed

    def __del__(self) -> None:
        managed = getattr(self, "_managed", None)
        if managed is not None and managed.deleter != ffi.NULL:
            managed.deleter(managed)


_LARGEST = 2**63 - 1


def _layout_of(tensor: Any) -> tuple[tuple[int, ...], tuple[int, ...] | None]:
    """The shape and the strides of ``tensor``, a ``DLTensor``.

    Raises:
        ProducerError: ML414, no memory is laid out like this.
    """
    rank = tensor.ndim
    if not 0 <= rank <= MAX_RANK:
        raise _no_memory(f"it has {rank} axes, expected 0 to {MAX_RANK}")
    if rank and tensor.shape == ffi.NULL:
        raise _no_memory(f"it has {rank} axes and no sizes")
    shape = tuple(tensor.shape[i] for i in range(rank))
    steps = tensor.strides
    strides = None if steps == ffi.NULL else tuple(steps[i] for i in range(rank))
    if min(shape, default=0) < 0:
        raise _no_memory(f"its shape is {shape}")
    nbytes = tensor.dtype.bits // 8
    count = math.prod(size or 1 for size in shape) * nbytes
    reach = count
    if strides is not None and 0 not in shape:
        reach = sum((n - 1) * abs(step) for n, step in zip(shape, strides, strict=True)) * nbytes
    if max(count, reach) > _LARGEST:
        raise _no_memory(f"its shape is {shape}, its strides {strides}, more than memory has")
    return shape, strides


def _address_of(tensor: Any, shape: tuple[int, ...]) -> int:
    """Where the first element of ``tensor``, a ``DLTensor`` of ``shape``, is.

    Raises:
        ProducerError: ML414, nowhere.
    """
    data = int(ffi.cast("uintptr_t", tensor.data))
    if not data and 0 not in shape:
        raise _no_memory(f"its shape is {shape}, and it has no address")
    address = data + int(tensor.byte_offset)
    if address >= 1 << 64:
        raise _no_memory(f"its elements begin {tensor.byte_offset} bytes behind {data:#x}")
    return address


def _no_memory(what: str) -> ProducerError:
    return ProducerError(
        "ML414",
        f"the array describes memory that cannot be: {what}",
        fix="pass an array that has elements: one that is fake, freed or made for tracing has none",
    )


def _dtype_of(tensor: Any) -> DType:
    kind = tensor.dtype
    found = _DTYPES.get((kind.code, kind.bits))
    if found is None or kind.lanes != 1:
        raise DTypeError(
            "ML103",
            f"no dtype of tensors equals DLPack's code {kind.code} with {kind.bits} bits "
            f"and {kind.lanes} lanes",
            fix="convert the array first",
        )
    return found


def not_reachable(device_type: int) -> DeviceError:
    """The error for an array whose memory this build cannot reach."""
    return DeviceError(
        "ML410",
        f"the array is on DLPack device type {device_type}, neither the host nor an NVIDIA GPU",
        fix="copy it to the host first, for example tensor.cpu()",
    )


def request(array: Any, stream_of: Callable[[int], int]) -> Any:
    """The capsule of ``array``, in the newest form that it speaks.

    Args:
        array: any object with DLPack's methods.
        stream_of: from the id of a GPU to the ``CUstream`` that shall see the array finished.

    Raises:
        DeviceError: ML410 (a ValueError), its memory is neither on the host nor on a GPU.
        ProducerError: ML412 (a BufferError), it refuses to hand out its memory.
    """
    try:
        for view, mend in (("is_neg", "resolve_neg"), ("is_conj", "resolve_conj")):
            # torch's memory of such a view has other numbers than the tensor
            if getattr(type(array), view, None) is not None and getattr(array, view)():
                raise _refusal(array, f"{view}() is true of it", f"pass x.{mend}()")
        device_type, device = (int(part) for part in array.__dlpack_device__())
    except MaxlabError:
        raise
    except Exception as error:
        raise _refusal(array, f"{type(error).__name__}: {_text(error)}") from error
    if device_type not in (*_HOST_TYPES, CUDA):
        raise not_reachable(device_type)
    options: dict[str, Any] = {}
    if device_type == CUDA:
        options["stream"] = stream_of(device) or 1
    try:
        try:
            return array.__dlpack__(max_version=_VERSION, **options)
        except TypeError:  # a producer from before versions
            return array.__dlpack__(**options)
    except MaxlabError:
        raise
    except Exception as error:
        raise _refusal(array, f"{type(error).__name__}: {_text(error)}") from error


def _text(error: Exception) -> str:
    first = error.args[0] if error.args else ""
    return first[:200] if type(first) is str else shown(first)


_TORCH = (
    "pass a dense tensor of the CPU: x.detach() where it requires gradients, x.to_dense(), "
    "x.dequantize() or x.resolve_conj() where it is stored otherwise, x.cpu() where it is elsewhere"
)


def _refusal(array: object, why: str, fix: str = "") -> ProducerError:
    """The error for ``array``, which does not hand out its memory."""
    name = type(array).__name__
    torch = hasattr(type(array), "detach")
    return ProducerError(
        "ML412",
        f"{name} does not hand out its memory: {why}",
        fix=fix or (_TORCH if torch else "convert it to a NumPy array first"),
    )
