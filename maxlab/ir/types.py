"""The types of graph values and the devices they live on."""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NoReturn, Self

import numpy as np

from maxlab import trace
from maxlab.dtype import DType, dtype_of
from maxlab.errors import (
    ArgumentError,
    ArgumentTypeError,
    ParseError,
    ShapeError,
    elsewhere,
    shown,
)
from maxlab.ir.dims import LARGEST, DimLike, Shape, StaticDim
from maxlab.ir.poly import Poly


class DeviceKind(enum.Enum):
    """The kinds of devices."""

    CPU = "cpu"
    GPU = "gpu"

    @staticmethod
    def from_string(txt: str) -> DeviceKind:
        """The kind that ``txt`` names.

        Raises:
            ArgumentError: ML396, neither ``"cpu"`` nor ``"gpu"``.
        """
        for kind in DeviceKind:
            if isinstance(txt, str) and kind.value == txt:
                return kind
        raise ArgumentError(
            "ML396", f"no device kind {shown(txt)}", fix="the kinds are 'cpu' and 'gpu'"
        )

    def __str__(self) -> str:
        return self.value


_UNSAID: Any = object()
"""The shape of a type that is given none."""


@dataclass(frozen=True, init=False, slots=True)
class DeviceRef:
    """A symbolic device: a kind and an id. It names a device that need not exist here.

    Raises:
        ArgumentError: ML396, no such kind.
        ArgumentTypeError: ML302, the id is not an int.

    Example:
        >>> from maxlab.graph import DeviceRef
        >>> print(DeviceRef.GPU())
        gpu:0
    """

    device_type: DeviceKind
    id: int

    def __init__(self, device_type: DeviceKind | str = "", id: int = 0) -> None:
        if not isinstance(device_type, DeviceKind):
            is_kind = type(device_type) is str and device_type in ("cpu", "gpu")
            named = None if is_kind else _named(device_type)
            if named is not None and named.id:
                id = named.id
            kind = device_type if named is None else named.device_type.value
            device_type = DeviceKind.from_string(kind)
        object.__setattr__(self, "device_type", device_type)
        if isinstance(id, bool) or not isinstance(id, (int, np.integer)):
            raise ArgumentTypeError(
                "ML302",
                f"the id of a device must be an int, got {shown(id)}",
                fix="pass an int: DeviceRef.GPU(0)",
            )
        object.__setattr__(self, "id", max(int(id), 0))

    @staticmethod
    def CPU(id: int = 0) -> DeviceRef:  # noqa: N802 - MAX's name
        """The CPU device ``id``."""
        return DeviceRef(DeviceKind.CPU, id)

    @staticmethod
    def GPU(id: int = 0) -> DeviceRef:  # noqa: N802 - MAX's name
        """The GPU device ``id``."""
        return DeviceRef(DeviceKind.GPU, id)

    def is_cpu(self) -> bool:
        """Whether this is a CPU."""
        return self.device_type is DeviceKind.CPU

    def is_gpu(self) -> bool:
        """Whether this is a GPU."""
        return self.device_type is DeviceKind.GPU

    @property
    def driver_call(self) -> str:
        """How the device is written in Python, such as ``driver.Accelerator(0)``."""
        return f"driver.Accelerator({self.id})" if self.is_gpu() else f"driver.CPU({self.id or ''})"

    @staticmethod
    def from_device(device: Any) -> DeviceRef:
        """The reference to ``device``, a ``driver.Device`` or already a reference.

        Raises:
            ArgumentTypeError: ML397, anything else.
        """
        if isinstance(device, DeviceRef):
            return device
        named = _named(device)
        if named is not None:
            return named
        label, number = getattr(device, "label", None), getattr(device, "id", None)
        if isinstance(label, str) and isinstance(number, int):
            return DeviceRef(label, number)
        raise ArgumentTypeError(
            "ML397",
            f"a device is a DeviceRef, a driver.Device or a name of one, not {shown(device)}",
            fix="use DeviceRef.CPU() or DeviceRef.GPU()",
        )

    def to_device(self) -> Any:
        """The ``driver.Device`` that this names.

        Raises:
            DeviceError: The device is not there.
        """
        # `driver` stands above `ir`.
        return trace.reading("open_device")(self.device_type.value, self.id)

    def to_mlir(self) -> str:
        """The text of the device inside of a type, such as ``gpu:0``."""
        return str(self)

    @staticmethod
    def from_mlir(attr: DeviceRef | str) -> DeviceRef:
        """The device that ``attr`` (a reference, or text such as ``gpu:0``) stands for.

        Raises:
            ParseError: ML352, text that is not a device.
        """
        if isinstance(attr, DeviceRef):
            return attr
        match = re.fullmatch(r"\s*(cpu|gpu):(\d+)\s*", attr)
        if match is None:
            raise ParseError("ML352", f"{attr!r} is not a device", fix="write cpu:0 or gpu:0")
        return DeviceRef(match[1], int(match[2]))

    def __str__(self) -> str:
        return f"{self.device_type.value}:{self.id}"

    def __repr__(self) -> str:
        return f"DeviceRef({self})"

    def __eq__(self, other: object) -> bool:
        if other.__class__ is not DeviceRef:
            other = _named(other)
        return (
            isinstance(other, DeviceRef)
            and self.id == other.id
            and self.device_type is other.device_type
        )

    def __hash__(self) -> int:
        return 2 * self.id + (self.device_type is DeviceKind.GPU)  # asked for each value of a graph


elsewhere(
    DeviceRef,
    "device",
    {
        "type": "x.device.is_gpu(), or x.device.device_type",
        "index": "x.device.id",
        "cpu": "DeviceRef.CPU()",
        "gpu": "DeviceRef.GPU()",
        "cuda": "DeviceRef.GPU()",
        "CUDA": "DeviceRef.GPU()",
        "from_str": "DeviceRef('cpu')",
        "from_string": "DeviceRef('cpu')",
    },
)


def _named(device: object) -> DeviceRef | None:
    """The device that ``device``, a name such as ``"cuda:1"`` or a ``torch.device``, stands for;
    None for other objects and names."""
    if type(device).__module__ != "torch" and not isinstance(device, str):
        return None
    match = re.fullmatch(r"(cpu|gpu|cuda)(?::(\d{1,9}))?", str(device))
    if match is None:
        return None
    kind = DeviceKind.CPU if match[1] == "cpu" else DeviceKind.GPU
    return DeviceRef(kind, int(match[2] or 0))


class _LayoutMixin:
    value: str

    def to_mlir(self) -> str:
        """The text of the layout as an attribute."""
        return f'#mo.layout<"{self.value}">'


class FilterLayout(_LayoutMixin, enum.Enum):
    """The order of the dims of a convolution filter."""

    RSCF = "RSCF"
    QRSCF = "QRSCF"
    FCRS = "FCRS"
    FCQRS = "FCQRS"
    CFRS = "CFRS"

    @staticmethod
    def from_mlir(attr: FilterLayout | str) -> FilterLayout:
        """The layout that ``attr`` (a layout, its name or its attribute text) stands for.

        Raises:
            ParseError: ML353, not a layout.
        """
        found: FilterLayout = _layout(FilterLayout, attr)
        return found


class ConvInputLayout(_LayoutMixin, enum.Enum):
    """The order of the dims of a convolution's input."""

    NHWC = "NHWC"
    NCHW = "NCHW"

    @staticmethod
    def from_mlir(attr: ConvInputLayout | str) -> ConvInputLayout:
        """The layout that ``attr`` (a layout, its name or its attribute text) stands for.

        Raises:
            ParseError: ML353, not a layout.
        """
        found: ConvInputLayout = _layout(ConvInputLayout, attr)
        return found


def _layout(kind: Any, attr: Any) -> Any:
    if isinstance(attr, kind):
        return attr
    match = re.fullmatch(r'(?:#mo\.layout<)?"?(\w+)"?>?', str(attr).strip())
    if match is None or match[1] not in kind.__members__:
        names = ", ".join(kind.__members__)
        raise ParseError("ML353", f"{attr!r} is not a {kind.__name__}", fix=f"use one of {names}")
    return kind[match[1]]


class Type:
    """The type of a graph value: a tensor, a buffer, an opaque handle or a chain."""

    __slots__ = ()

    def to_mlir(self) -> Type:
        """The type itself; its ``str`` is the MLIR text."""
        return self

    @staticmethod
    def from_mlir(t: Type | str) -> Type:
        """The type that ``t`` (a type, or its MLIR text) stands for.

        Raises:
            ParseError: ML354, text that is not a type.
        """
        return t if isinstance(t, Type) else parse_type(t)


MAX_RANK = 32
"""The most dims of a value of a graph. NumPy 1 has as many; kernels have a name for each axis."""


def _shape(shape: Iterable[DimLike], dtype: DType) -> Shape:
    """``shape`` as dims that a tensor of ``dtype`` can have.

    Raises:
        ArgumentTypeError: ML398, a negative dim.
        ShapeError: ML221, too many dims; ML222, more bytes than 63 bits can count.
    """
    result = shape if type(shape) is Shape else Shape(shape)
    nbytes = dtype.size_in_bytes
    for dim in result:
        if isinstance(dim, StaticDim):
            if dim.dim < 0:
                raise ArgumentTypeError(
                    "ML398",
                    f"a tensor type has the negative dim {dim}",
                    fix="sizes are 0 or more; -1 is only for reshape",
                )
            nbytes *= dim.dim or 1
    if len(result) > MAX_RANK:
        raise ShapeError(
            "ML221",
            f"a value of a graph has a rank of up to {MAX_RANK}, got rank {len(result)}",
            fix="merge dims that are not needed: ops.reshape, or x.reshape(...) of an input",
        )
    if nbytes > LARGEST:
        raise ShapeError(
            "ML222",
            f"a tensor of {dtype.name} {result} takes more bytes than 63 bits can count",
            why=["strides are products of sizes, so those beside a size of 0 count too"],
            fix="look at what the sizes are computed from",
        )
    return result


class Typed(Type):
    """The common part of tensors and buffers: dtype, shape and device."""

    __slots__ = ("_hash", "_key", "_layout", "device", "dtype", "shape", "sizes")
    _word = ""
    dtype: DType
    shape: Shape
    device: DeviceRef
    sizes: tuple[Poly, ...]
    _layout: FilterLayout | None
    _key: tuple[Any, ...]
    _hash: int | None

    def __init__(
        self,
        dtype: DType = DType.float32,
        shape: Iterable[DimLike] = _UNSAID,
        device: Any = None,
        _layout: FilterLayout | None = None,
    ) -> None:
        if shape is _UNSAID:
            known = dtype_of(dtype) or DType.float32
            raise ArgumentTypeError(
                "ML302",
                f"a type needs a dtype and a shape, got {shown(dtype)} alone",
                fix=f"write {type(self).__name__}({known}, []) for a single element, or "
                f"{type(self).__name__}({known}, ['n', 4])",
            )
        found = dtype if dtype.__class__ is DType else dtype_of(dtype)
        if found is None:
            raise ArgumentTypeError(
                "ML399",
                f"the dtype of a type must be a DType, got {shown(dtype)}",
                fix="use DType.float32, or DType.from_numpy(array.dtype)"
                + _swapped(type(self), dtype, shape),
            )
        self.dtype = dtype = found
        self.shape = _shape(shape, dtype)
        # The reference's signature asks for the device, its examples leave it out: CPU 0 then.
        self.device = DeviceRef.CPU() if device is None else DeviceRef.from_device(device)
        self._layout = _layout
        self.sizes = tuple(dim.poly for dim in self.shape)
        self._key = (type(self), dtype, tuple(self.shape), self.device, _layout)
        self._hash = None

    def with_shape(self, shape: Iterable[DimLike]) -> Self:
        """A type of the same dtype and device, with the dims ``shape``.

        Example:
            >>> from maxlab.dtype import DType
            >>> from maxlab.graph import TensorType
            >>> TensorType(DType.float32, ["n"]).with_shape([4, "n"])
            TensorType(dtype=DType.float32, shape=[Dim(4), Dim('n')], device=cpu:0)
        """
        return type(self)(self.dtype, shape, self.device, self._layout)

    @property
    def rank(self) -> int:
        """The number of dims."""
        return len(self.shape)

    @property
    def ndim(self) -> int:
        """`rank`, as NumPy and PyTorch call it."""
        return len(self.shape)

    @property
    def size(self) -> Any:
        """The number of elements: an int, or a dim of the graph."""
        total = self.shape.num_elements
        return total.dim if isinstance(total, StaticDim) else total

    def numel(self) -> Any:
        """`size`, as PyTorch calls it."""
        return self.size

    def num_elements(self) -> int:
        """The number of elements.

        Raises:
            RuntimeError: A dim is symbolic.
        """
        total = 1
        for dim in self.shape:
            if not isinstance(dim, StaticDim):
                raise RuntimeError(
                    f"the number of elements of {self} is not known: {dim} is symbolic"
                )
            total *= dim.dim
        return total

    @property
    def parameters(self) -> list[Any]:
        """The symbolic dims on which the shape depends."""
        return list(self.shape.parameters)

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Typed) and self._key == other._key)

    def __hash__(self) -> int:
        known = self._hash
        if known is None:
            known = self._hash = hash(self._key)
        return known

    def __str__(self) -> str:
        device = "" if self.device == _CPU0 else f", {self.device}"
        layout = "" if self._layout is None else f", layout = {self._layout.value}"
        return f"!mo.{self._word}<{self.shape.to_mlir()}, {self.dtype.short}{device}{layout}>"

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(dtype={self.dtype}, shape={list(self.shape)!r}, "
            f"device={self.device})"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (self.dtype, list(self.shape), self.device, self._layout))


_LIKE = "TensorType(array.dtype, array.shape)"
elsewhere(
    Typed,
    "type",
    dict.fromkeys(("from_numpy", "like", "of", "from_array", "from_torch"), _LIKE),
)


def _swapped(kind: type, dtype: object, shape: object) -> str:
    """The end of a fix where a shape was written before the dtype."""
    found = dtype_of(shape)
    if found is None or not isinstance(dtype, (list, tuple)):
        return ""
    return f"; the dtype comes first: {kind.__name__}({found}, {list(dtype)})"


_CPU0 = DeviceRef.CPU()


class TensorType(Typed):
    """The type of an immutable tensor: element type, shape and device.

    Args:
        dtype: The element type.
        shape: Ints, names and dims.
        device: A ``DeviceRef`` or ``driver.Device``; CPU 0 when it is left out.

    Raises:
        ArgumentTypeError: A negative dim, or a dtype that is not a ``DType``.
        ShapeError: ML221, more than 32 dims; ML222, more than 2**63 - 1 bytes.

    Example:
        >>> from maxlab.dtype import DType
        >>> from maxlab.graph import TensorType
        >>> print(TensorType(DType.int32, ("batch", 10)))
        !mo.tensor<[batch, 10], si32>
    """

    __slots__ = ()
    _word = "tensor"

    def __call__(self, *args: object, **kwargs: object) -> NoReturn:
        """Raises: ``x.type`` is no method, as it is in PyTorch.

        Raises:
            ArgumentTypeError: ML974, always.
        """
        raise ArgumentTypeError(
            "ML974",
            "a type is no function: x.type is the type of x",
            fix="x.astype('float16') converts the elements; str(x.dtype) is the name",
        )

    def as_buffer(self) -> BufferType:
        """The buffer type of the same dtype, shape and device."""
        return BufferType(self.dtype, self.shape, self.device)

    @classmethod
    def from_mlir(cls, type: Type | str) -> TensorType:
        """The tensor type that ``type`` (a type, or its MLIR text) stands for.

        Raises:
            ParseError: ML354, not a tensor type.
        """
        found: TensorType = _expect(cls, type)
        return found


class BufferType(Typed):
    """The type of a tensor that can be changed in place.

    Args:
        dtype: The element type.
        shape: Ints, names and dims.
        device: A ``DeviceRef`` or ``driver.Device``; CPU 0 when it is left out.
    """

    __slots__ = ()
    _word = "buffer"

    def as_tensor(self) -> TensorType:
        """The tensor type of the same dtype, shape and device."""
        return TensorType(self.dtype, self.shape, self.device)

    @classmethod
    def from_mlir(cls, type: Type | str) -> BufferType:
        """The buffer type that ``type`` (a type, or its MLIR text) stands for.

        Raises:
            ParseError: ML354, not a buffer type.
        """
        found: BufferType = _expect(cls, type)
        return found


@dataclass(frozen=True, slots=True)
class OpaqueType(Type):
    """The type of a handle that only user kernels understand."""

    name: str

    def __str__(self) -> str:
        return f'!mo.opaque<"{self.name}">'


class HandleType(TensorType):
    """An opaque handle as the compiler sees it: the address of an object, on the host.

    No user's graph has one, and no text of a graph makes one: it is what ``OpaqueType`` becomes
    when a graph is compiled, so that memory is planned for it as for any number.
    """

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        super().__init__(DType.uint64, ())
        self.name = name
        self._key = (*self._key, name)

    def __str__(self) -> str:
        return str(OpaqueType(self.name))

    def __repr__(self) -> str:
        return f"HandleType({self.name!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return (HandleType, (self.name,))


@dataclass(frozen=True, slots=True)
class ChainType(Type):
    """The type of an ordering between side effects; it carries no data."""

    def __str__(self) -> str:
        return "!mo.chain"


def _expect(cls: Any, type: Type | str) -> Any:
    found = Type.from_mlir(type)
    if not isinstance(found, cls):
        raise ParseError("ML354", f"{found} is not a {cls.__name__}")
    return found


_TYPED = re.compile(
    r"!mo\.(tensor|buffer)<(\[.*\]),\s*(\w+)(?:,\s*((?:cpu|gpu):\d+))?(?:,\s*layout = (\w+))?>"
)


def parse_type(text: str) -> Type:
    """The type that ``text``, in MLIR's syntax, stands for.

    Raises:
        ParseError: ML354, text that is not a type of the ``mo`` dialect.
    """
    text = text.strip()
    if text == "!mo.chain":
        return ChainType()
    opaque = re.fullmatch(r'!mo\.opaque<"([^"]*)">', text)
    if opaque:
        return OpaqueType(opaque[1])
    match = _TYPED.fullmatch(text)
    if match is None:
        raise ParseError(
            "ML354", f"{text!r} is not a type", fix="write !mo.tensor<[batch, 4], f32>"
        )
    cls = TensorType if match[1] == "tensor" else BufferType
    device = DeviceRef.from_mlir(match[4]) if match[4] else None
    layout = FilterLayout.from_mlir(match[5]) if match[5] else None
    return cls(DType.from_short(match[3]), Shape.from_mlir(match[2]), device, layout)
