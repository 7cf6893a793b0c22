"""Values of a graph as users hold them: ``Value``, ``TensorValue`` and ``BufferValue``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import (
    Any,
    NoReturn,
    ParamSpec,
    Protocol,
    TypeAlias,
    TypeVar,
    Union,
    runtime_checkable,
)

import numpy as np

from maxlab.dtype import DType
from maxlab.errors import ArgumentTypeError
from maxlab.graph import refusals
from maxlab.graph.methods import Methods, target_of
from maxlab.graph.operands import is_array, no_tensor
from maxlab.graph.operators import Operators, do
from maxlab.graph.staged import staged
from maxlab.graph.synonyms import several
from maxlab.habits import fitting
from maxlab.ir import (
    BufferType,
    ChainType,
    Constant,
    DeviceRef,
    Dim,
    DimLike,
    HandleType,
    OpaqueType,
    Shape,
    StaticDim,
    TensorType,
    Type,
    user_location,
)
from maxlab.ir import Value as IrValue
from maxlab.opset.builder import builder, one


def _do(name: str, *args: Any, **kwargs: Any) -> TensorValue:
    made: TensorValue = do(name, *args, **kwargs)
    return made


P = ParamSpec("P")
R = TypeVar("R")


def _fitting(fix: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    return fitting("ML330", fix, user_location)


@runtime_checkable
class HasTensorValue(Protocol):
    """An object that stands for a tensor of the graph."""

    def __tensorvalue__(self) -> TensorValue:
        """The tensor."""
        ...


@runtime_checkable
class HasBufferValue(Protocol):
    """An object that stands for a buffer of the graph."""

    def __buffervalue__(self) -> BufferValue:
        """The buffer."""
        ...


class DLPackArray(Protocol):
    """An array that can hand its data over: NumPy's, PyTorch's, or a ``driver.Tensor``."""

    def __dlpack__(self) -> Any:
        """The capsule."""
        ...

    def __dlpack_device__(self) -> Any:
        """Where the data is."""
        ...


TensorValueLike: TypeAlias = Union[
    "Value",
    "HasTensorValue",
    Shape,
    Dim,
    int,
    float,
    list[Any],
    "np.integer[Any]",
    "np.floating[Any]",
    "np.ndarray[Any, Any]",
    DLPackArray,
]
"""Values that ops take for a tensor. Numbers and arrays need a tensor beside them, whose dtype they
take.
"""

Index: TypeAlias = Union[
    "TensorValue", int, Dim, slice, Any, tuple[slice, Union[int, str, Dim, "np.integer[Any]"]], None
]
"""One entry of an index: an int, a dim, a slice, ``None``, ``...``, a rank-0 integer tensor, or a
slice with the dim that its result has."""


Axis: TypeAlias = int | tuple[int, ...] | None
"""An axis, several, or None for all. Beside it stand ``dim``, another name for it, and ``keepdims``
or ``keepdim``, which are True unless they are given."""


class Value:
    """A value inside a graph: an input, or a result of an op. It has a type and no data.

    Abstract: values come from ``graph.inputs`` and from ops.

    Example:
        >>> from maxlab.dtype import DType
        >>> from maxlab.graph import Graph, TensorType, Value
        >>> with Graph("g", input_types=[TensorType(DType.float32, ["n"])]) as graph:
        ...     isinstance(graph.inputs[0] + 1, Value)
        True
    """

    __slots__ = ("_value",)
    _value: IrValue

    def __init__(self) -> None:
        raise ArgumentTypeError(
            "ML325",
            f"a {type(self).__name__} is not constructed",
            at=user_location(),
            fix="values come from graph.inputs and from ops",
        )

    def _ir(self) -> IrValue:
        return self._value

    @property
    def type(self) -> Type:
        """The type of the value."""
        return self._ir().type

    @property
    def tensor(self) -> TensorValue:
        """The value as a ``TensorValue``.

        Raises:
            ArgumentTypeError: ML324, the value is not a tensor.
        """
        return _expect(self, TensorValue, "tensor")

    @property
    def buffer(self) -> BufferValue:
        """The value as a ``BufferValue``.

        Raises:
            ArgumentTypeError: ML324, the value is not a buffer.
        """
        return _expect(self, BufferValue, "buffer")

    @property
    def opaque(self) -> _OpaqueValue:
        """The value as an opaque handle.

        Raises:
            ArgumentTypeError: ML324, the value is not an opaque handle.
        """
        return _expect(self, _OpaqueValue, "opaque handle", "an")

    @classmethod
    def from_mlir(cls, value: IrValue) -> Any:
        """The ``Value`` of the class that fits the type of ``value``, a value of the IR.

        Raises:
            ArgumentTypeError: ML324, the value is not what the class asks for.
        """
        if not isinstance(value, IrValue):
            raise ArgumentTypeError(
                "ML324",
                f"{type(value).__name__} is not a value of the IR",
                at=user_location(),
                fix="pass a value of a graph, such as graph.inputs[0]",
            )
        return _expect(wrap(value), cls, cls.__name__)

    def to_mlir(self) -> IrValue:
        """The value of the IR that this stands for."""
        return self._ir()

    def __repr__(self) -> str:
        return f"{type(self).__name__.lstrip('_')}({self.type})"


class _OpaqueValue(Value):
    """A handle that only custom kernels understand."""

    __slots__ = ()


class _ChainValue(Value):
    """An ordering between side effects."""

    __slots__ = ()


class BufferValue(Value):
    """A tensor inside a graph that can be changed in place.

    Args:
        value: A ``BufferValue``, a ``Value`` or an IR value of buffer type, or an object with
            ``__buffervalue__``.

    Raises:
        ArgumentTypeError: ML324, anything else.
    """

    __slots__ = ()

    def __init__(self, value: Value | IrValue | HasBufferValue) -> None:
        if isinstance(value, HasBufferValue):
            value = value.__buffervalue__()
        if isinstance(value, IrValue):
            value = wrap(value)
        _put(self, _expect(value, BufferValue, "buffer")._ir())

    @property
    def type(self) -> BufferType:
        """The type: dtype, shape and device."""
        found = self._ir().type
        assert isinstance(found, BufferType)
        return found

    @property
    def dtype(self) -> DType:
        """The element type."""
        return self.type.dtype

    @property
    def shape(self) -> Shape:
        """The dims."""
        return self.type.shape

    @property
    def device(self) -> DeviceRef:
        """The device that the buffer lives on."""
        return self.type.device

    @property
    def rank(self) -> int:
        """The number of dims."""
        return self.type.rank

    def __repr__(self) -> str:
        return _text(self, self.type)

    def print(self, label: str = "debug_buffer") -> None:
        """Prints the buffer's elements each time the model comes here; see ``ops.print``."""
        _do("print", _do("buffer_load", self), label)

    def __getitem__(self, index: Index | tuple[Index, ...]) -> TensorValue:
        """A copy of the part of the buffer that ``index`` names, as it is now; ``[...]`` is all of
        it. See ``ops.buffer_load_slice``."""
        if index is Ellipsis:
            return _do("buffer_load", self)
        if not isinstance(index, tuple) or (len(index) == 2 and isinstance(index[1], str)):
            index = (index,)
        return _do("buffer_load_slice", self, index)

    def __setitem__(self, index: Index | tuple[Index, ...], value: TensorValueLike) -> None:
        """Stores ``value`` into the part of the buffer that ``index`` names; ``[...]`` is all of
        it. See ``ops.buffer_store_slice``.
        """
        if index is Ellipsis:
            _do("buffer_store", self, value)
            return
        if not isinstance(index, tuple) or (len(index) == 2 and isinstance(index[1], str)):
            index = (index,)
        _do("buffer_store_slice", self, value, index)


class TensorValue(Value, Methods, Operators["TensorValue", TensorValueLike]):
    """An immutable tensor inside a graph. Operators and methods add ops to the graph that is being
    built.

    ``==`` and the other comparisons are ops too, so tensor values cannot be hashed and have no
    truth value. NumPy's functions add ops: ``np.exp(x)``; so do methods that NumPy's arrays and
    PyTorch's tensors have.

    Args:
        value: A ``TensorValue``, a ``Value`` or an IR value of tensor type, a ``Dim`` or ``Shape``
            (which become int64 tensors on the CPU), an array or nested list, or an object with
            ``__tensorvalue__``.

    Raises:
        ArgumentTypeError: ML317, anything else.
        NoGraphError: ML313, a conversion that needs a graph while none is being built.

    Example:
        >>> import numpy as np
        >>> from maxlab.dtype import DType
        >>> from maxlab.graph import DeviceRef, Graph, ops
        >>> with Graph("demo"):
        ...     x = ops.constant(np.array([[1, 2], [3, 4]]), DType.float32, DeviceRef.CPU())
        ...     (x.T * 2).shape
        [Dim(2), Dim(2)]
    """

    __slots__ = ()

    def __init__(self, value: TensorValueLike | IrValue | Sequence[Any]) -> None:
        _put(self, _tensor_ir(value))

    # ------------------------------------------------------------ facts
    @property
    def type(self) -> TensorType:
        """The type: dtype, shape and device."""
        return self._value.type  # type: ignore[return-value]  # `wrap` has chosen the class by it

    @property
    def dtype(self) -> DType:
        """The element type."""
        return self._value.type.dtype  # type: ignore[attr-defined,no-any-return]  # as above

    @property
    def shape(self) -> Shape:
        """The dims."""
        return self.type.shape

    @property
    def device(self) -> DeviceRef:
        """The device that the tensor lives on."""
        return self.type.device

    @property
    def rank(self) -> int:
        """The number of dims."""
        return self.type.rank

    def __repr__(self) -> str:
        return _text(self, self.type)

    # ------------------------------------------------------------ methods
    @property
    def T(self) -> TensorValue:  # noqa: N802 - the documented name
        """The tensor with its last two dims swapped; of fewer dims the tensor itself."""
        return self if self.rank < 2 else _do("transpose", self, -1, -2)

    @_fitting("x.transpose(0, 1)")
    def transpose(self, dim_1: Any = None, dim_2: int | None = None, *more: int) -> TensorValue:
        """The tensor with two dims swapped; see ``ops.transpose``. As NumPy's, without arguments
        all dims are in the other order, and a list of dims, or all of them, is their new order.

        Raises:
            AxisError: ML303 (an IndexError), a dim out of range.
            ArgumentError: ML307, not an order of the dims.
        """
        if dim_1 is None:
            return _do("permute", self, list(reversed(range(self.rank))))
        if dim_2 is not None and not more:
            return _do("transpose", self, dim_1, dim_2)
        return _do("permute", self, several((dim_1,) if dim_2 is None else (dim_1, dim_2, *more)))

    @_fitting("x.permute(1, 0)")
    def permute(self, dims: Sequence[int] | int, *more: int) -> TensorValue:
        """The tensor with its dims in the order ``dims``; see ``ops.permute``."""
        return _do("permute", self, several((dims, *more)))

    @_fitting("x.reshape(-1), or x.reshape(4, 2)")
    def reshape(self, shape: Iterable[DimLike] | DimLike, *more: DimLike) -> TensorValue:
        """The same elements in the shape ``shape``, where one dim may be -1; see
        ``ops.reshape``."""
        return _do("reshape", self, several((shape, *more)))

    def flatten(self, start_dim: int = 0, end_dim: int = -1) -> TensorValue:
        """The tensor with the dims ``start_dim`` to ``end_dim``, inclusive, merged; see
        ``ops.flatten``."""
        return _do("flatten", self, start_dim, end_dim)

    @_fitting("x.broadcast_to((2, 4))")
    def broadcast_to(
        self, shape: Iterable[DimLike] | DimLike, *more: DimLike, **named: Any
    ) -> TensorValue:
        """The tensor repeated to the shape ``shape``; see ``ops.broadcast_to``."""
        return _do("broadcast_to", self, several((shape, *more)), **named)

    def rebind(self, shape: Iterable[DimLike], message: str = "") -> TensorValue:
        """The tensor with its dims named or asserted anew; see ``ops.rebind``."""
        return _do("rebind", self, shape, message)

    def cast(self, dtype: DType | str) -> TensorValue:
        """The elements converted to ``dtype``; see ``ops.cast``."""
        return _do("cast", self, dtype)

    @_fitting("x.to('cpu')")
    def to(
        self,
        device: DeviceRef | str | Any = None,
        dtype: Any = None,
        non_blocking: bool = False,
        copy: bool = False,
        memory_format: Any = None,
    ) -> TensorValue:
        """The tensor on ``device``, which may be named: ``"cpu"``, ``"gpu:1"``; see
        ``ops.transfer_to``. A dtype in its place, or beside it, converts the elements, as in
        PyTorch, whose other arguments say nothing of a tensor of a graph: kernels choose how it
        lies in memory, and it never changes.

        Raises:
            ArgumentTypeError: ML327, neither is given.
        """
        if device is None and dtype is None:
            if memory_format is not None:
                return self
            raise ArgumentTypeError(
                "ML327",
                "x.to() needs a device or a dtype, got neither",
                at=user_location(),
                fix="write x.to('cpu') or x.to(dtype='float16')",
            )
        if dtype is None and (found := target_of(device)) is not None:
            device, dtype = None, found
        moved = self if device is None else _do("transfer_to", self, device)
        return moved if dtype is None else _do("cast", moved, dtype)

    def max(self, axis: Axis = -1, *keepdims: bool, **dims: Any) -> TensorValue:
        """The largest along ``axis``, which stays with size 1; NaN if there is one."""
        made: TensorValue = self._fold("max", axis, keepdims, dims)
        return made

    def min(self, axis: Axis = -1, *keepdims: bool, **dims: Any) -> TensorValue:
        """The smallest along ``axis``, which stays with size 1; NaN if there is one."""
        made: TensorValue = self._fold("min", axis, keepdims, dims)
        return made

    def mean(self, axis: Axis = -1, *keepdims: bool, **dims: Any) -> TensorValue:
        """The mean along ``axis``, which stays with size 1."""
        made: TensorValue = self._fold("mean", axis, keepdims, dims)
        return made

    def argmax(self, axis: Axis = -1, *keepdims: bool, **dims: Any) -> TensorValue:
        """The int64 index of the first largest element along ``axis``, which stays with size 1."""
        made: TensorValue = self._fold("argmax", axis, keepdims, dims)
        return made

    def var(self, axis: Axis = -1, *keepdims: bool, **dims: Any) -> TensorValue:
        """The population variance along ``axis``, which stays with size 1: the mean of the squared
        deviations from the mean.

        Raises:
            DTypeError: ML107, not a float tensor.
            AxisError: ML303, ``axis`` is out of range.
        """
        made: TensorValue = self._fold("var", axis, keepdims, dims)
        return made

    def stdev(self, axis: Axis = -1, *keepdims: bool, **dims: Any) -> TensorValue:
        """The population standard deviation along ``axis``, which stays with size 1.

        Raises:
            DTypeError: ML107, not a float tensor.
            AxisError: ML303, ``axis`` is out of range.
        """
        made: TensorValue = self._fold("std", axis, keepdims, dims)
        return made

    def print(self, label: str = "debug_tensor") -> None:
        """Prints the tensor each time the model comes here; see ``ops.print``."""
        _do("print", self, label)

    # ------------------------------------------------------------ indexing
    def __getitem__(self, index: Index | tuple[Index, ...]) -> TensorValue:
        if not isinstance(index, tuple) or (len(index) == 2 and isinstance(index[1], str)):
            index = (index,)
        return _do("slice_tensor", self, index)

    def __iter__(self) -> Iterator[TensorValue]:
        if not self.rank or not isinstance(self.shape[0], StaticDim):
            size = self.shape[0] if self.rank else "none"
            raise ArgumentTypeError(
                "ML327",
                f"iteration needs a first dim of known size, got {size}",
                at=user_location(),
                fix="work on the whole tensor with ops, or split it with ops.split",
            )
        return (self[i] for i in range(self.shape[0].dim))

    def __contains__(self, item: object) -> NoReturn:
        raise _no_truth("`in` on a tensor of the graph")

    def __bool__(self) -> NoReturn:
        raise _no_truth("the truth of a tensor of the graph")


class _Elements(TensorValue):
    """The elements that ``x.max(dim=1)`` gives: alone, where PyTorch gives a pair with the places,
    so that what takes a pair apart would silently get rows."""

    __slots__ = ("_call",)
    _call: tuple[str, str, int]

    def __getitem__(self, index: Index | tuple[Index, ...]) -> TensorValue:
        if isinstance(index, int) and not isinstance(index, bool):
            raise refusals.no_pair(*self._call, f"[{index}]")
        return super().__getitem__(index)

    def __iter__(self) -> NoReturn:
        raise refusals.no_pair(*self._call, ", taken apart")


def alone(value: TensorValue, name: str, places: str, dim: int) -> TensorValue:
    """``value``, which the op ``name`` gave for ``dim``, refusing to be taken for a pair; the op
    ``places`` tells the other half."""
    made = object.__new__(_Elements)
    _put(made, value._ir())
    object.__setattr__(made, "_call", (name, places, dim))
    return made


def _no_truth(what: str) -> ArgumentTypeError:
    return ArgumentTypeError(
        "ML329",
        f"{what} is not known while the graph is built",
        at=user_location(),
        fix="choose between values with ops.where(condition, x, y); Python may compare dims",
    )


@staged
def _tensor_ir(value: Any) -> IrValue:
    """The IR value of what the constructor of ``TensorValue`` takes."""
    what = "the value of a TensorValue"
    if isinstance(value, IrValue):
        value = wrap(value)
    convert = None if isinstance(value, TensorValue) else getattr(value, "__tensorvalue__", None)
    if convert is not None:
        value = convert()
    if isinstance(value, TensorValue):
        return value._ir()
    listed = isinstance(value, (list, tuple)) and not isinstance(value, Shape)
    if not (listed or isinstance(value, (Dim, Shape)) or is_array(value)):
        raise no_tensor(value, what)
    b = builder(what=what)
    if not listed:
        return _ir_of(b.tensor(value, what))
    array = np.asarray(value)
    if array.dtype == np.float64:
        array = array.astype(np.float32)
    DType.from_numpy(array.dtype)
    return _ir_of(one(b, "constant", [], value=Constant(array), device=DeviceRef.CPU()))


def _ir_of(value: Value) -> IrValue:
    return value._ir()


def _text(value: Value, type: TensorType | BufferType) -> str:
    name = "TensorValue" if isinstance(value, _Elements) else value.__class__.__name__
    return f"{name}(dtype={type.dtype}, shape={list(type.shape)!r}, device={type.device})"


V = TypeVar("V", bound=Value)


def _expect(value: Any, cls: type[V], what: str, article: str = "a") -> V:
    if isinstance(value, cls):
        return value
    found = value.type if isinstance(value, Value) else type(value).__name__
    raise ArgumentTypeError(
        "ML324",
        f"the value is {found}, not {article} {what}",
        at=user_location(),
        fix="look at value.type before asking for .tensor, .buffer or .opaque",
    )


def wrap(value: IrValue) -> Any:
    """The ``Value`` of the class that fits the type of ``value``."""
    made = object.__new__(_CLASSES.get(value.type.__class__, Value))
    _put(made, value)
    return made


_put: Callable[[Value, IrValue], None] = Value.__dict__["_value"].__set__
"""Sets the value of the IR, past the ``__setattr__`` of tensors, which refuses changes."""


_CLASSES: dict[type[Type], type[Value]] = {
    TensorType: TensorValue,
    HandleType: TensorValue,
    BufferType: BufferValue,
    OpaqueType: _OpaqueValue,
    ChainType: _ChainValue,
}
