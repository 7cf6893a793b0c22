"""Tensors whose values are computed when something reads them.

Operations on a `Tensor` are recorded, and checked at once. What reads a value, such as ``print``,
``item``, ``bool``, a loop, NumPy or ``await``, compiles what that value depends on and runs it;
everything else stays recorded, and is never computed when nobody reads it.
"""

from __future__ import annotations

import inspect
import math
import operator
from collections.abc import Callable, Iterable
from typing import Any, ClassVar

import numpy as np

from maxlab.driver import Device
from maxlab.driver import Tensor as Memory
from maxlab.dtype import DType
from maxlab.errors import (
    NO_GRADIENTS,
    ArgumentTypeError,
    Elsewhere,
    GraphError,
    shown,
)
from maxlab.experimental import functional, random, recording
from maxlab.experimental.compute_graph import ComputeGraph
from maxlab.experimental.defaults import (
    contextvar_context,
    default_device,
    default_dtype,
    defaults,
)
from maxlab.experimental.elements import Elements
from maxlab.experimental.factories import Factories
from maxlab.experimental.in_graph import InGraph
from maxlab.experimental.indexing import indexed
from maxlab.experimental.mirror import Mirror, type_of
from maxlab.experimental.programs import graph_made_by
from maxlab.experimental.recording import binary, made_of, type_in, unary
from maxlab.experimental.tracing import stats
from maxlab.graph import BufferValue, DimLike, Graph, TensorType, TensorValue, ops
from maxlab.graph.methods import Methods
from maxlab.graph.synonyms import several
from maxlab.ir import Shape, user_location
from maxlab.opset.builder import builder


def driver_tensor_type(t: Memory) -> TensorType:
    """The type of ``t``, a tensor of the driver: its dtype, shape and device.

    Example:
        >>> from maxlab.driver import Tensor as Memory
        >>> from maxlab.dtype import DType
        >>> from maxlab.experimental import tensor
        >>> tensor.driver_tensor_type(Memory.zeros([2, 3], DType.float32))
        TensorType(dtype=DType.float32, shape=[Dim(2), Dim(3)], device=cpu:0)
    """
    if not isinstance(t, Memory):
        raise ArgumentTypeError(
            "ML421",
            f"driver_tensor_type takes a tensor of the driver, got {shown(t)}",
            fix="of a Tensor: x.type",
        )
    return type_of(t)


_binary: Callable[..., Callable[[Any, Any], Tensor]] = binary
_unary: Callable[..., Callable[[Any], Tensor]] = unary


class Tensor(Elements, Factories, Methods):  # type: ignore[misc]  # it has elements
    """An array whose value is computed when something reads it.

    Operators and functions of ``experimental.functional`` record operations, with the errors and
    the types of the functions of ``graph.ops``; ``==`` gives a tensor of bools. Reading compiles
    and runs what is needed for the value, together with the tensors on the way that are still in
    use.

    Args:
        data: Numbers, which are copied, as `constant` takes them.
        storage: Memory that the tensor is made of, which it shares, in place of ``data``.
        value: A value of a graph that is being built, which the tensor stands for, in place of
            both.
        dtype: The dtype of ``data``; where it is left out, that of `defaults`.
        device: The device for ``data``; where it is left out, that of `defaults`.

    Raises:
        ArgumentTypeError: ML809, none of the three is given, or something else.
        DTypeError: ML102, a number that ``dtype`` cannot hold.

    Example:
        >>> from maxlab.dtype import DType
        >>> from maxlab.experimental.tensor import Tensor
        >>> x = Tensor.ones((2, 3), dtype=DType.float32)
        >>> y = x + 1
        >>> y.real
        False
        >>> print(y)
        [[2. 2. 2.]
         [2. 2. 2.]]
        >>> y.real
        True
    """

    __slots__ = ()
    __setattr__ = object.__setattr__  # type: ignore[assignment]  # not that of a graph's values

    def __init__(
        self,
        data: Any = None,
        /,
        *,
        storage: Memory | None = None,
        value: Any = None,
        dtype: DType | None = None,
        device: Device | None = None,
    ) -> None:
        if data is not None and storage is None and value is None:
            data, storage = None, self.constant(data, dtype=dtype, device=device).driver_tensor
        if data is None and isinstance(storage, Memory) and value is None:
            self._memory, self._trace, self._slot, self._type = storage, None, -1, None
            return
        if isinstance(value, (TensorValue, BufferValue)) and storage is None:
            buffer = isinstance(value, BufferValue)
            kind = value.type
            self._memory, self._trace = None, None
            self._slot = value  # type: ignore[assignment]  # `in_graph` has it there
            self._type = TensorType(kind.dtype, kind.shape, kind.device) if buffer else kind
            self.__class__ = GraphTensor
            return
        raise ArgumentTypeError(
            "ML809",
            "a Tensor is made of numbers, of storage or of a value, got "
            f"{shown(data)}, {shown(storage)} and {shown(value)}",
            at=user_location(),
            fix="of numbers: Tensor([1.0, 2.0]); of an array: Tensor.from_dlpack(array)",
        )

    @classmethod
    def randn(
        cls,
        shape: Iterable[Any],
        mean: float = 0.0,
        std: float = 1.0,
        *,
        dtype: DType | None = None,
        device: Device | None = None,
    ) -> Tensor:
        """A tensor of ``shape`` of normally distributed numbers; see ``random.normal``.

        Example:
            >>> from maxlab.experimental.tensor import Tensor
            >>> Tensor.randn([4, 128]).shape
            [Dim(4), Dim(128)]
        """
        made: Tensor = random.normal(shape, mean, std, dtype=dtype, device=device)
        return made

    @classmethod
    def from_graph_value(cls, value: TensorValue | BufferValue) -> Tensor:
        """A tensor that stands for ``value`` of the graph that is being built: what is done with it
        is added to that graph, and it has no elements."""
        return cls(value=value)

    # ------------------------------------------------------------ facts
    @property
    def type(self) -> TensorType:
        """The type: dtype, shape and device."""
        return type_in(self)

    @property
    def dtype(self) -> DType:
        """The dtype of the elements."""
        return type_in(self).dtype

    @property
    def shape(self) -> Shape:
        """The sizes of the axes."""
        return Shape(type_in(self).shape)

    @property
    def device(self) -> Device:
        """The device that the elements are on."""
        return type_in(self).device.to_device()  # type: ignore[no-any-return]

    @property
    def rank(self) -> int:
        """The number of axes."""
        return len(type_in(self).shape)

    def num_elements(self) -> int:
        """The number of elements.

        Example:
            >>> from maxlab.experimental.tensor import Tensor
            >>> Tensor.zeros((2, 3)).num_elements()
            6
        """
        return math.prod(type_in(self).shape.static_dims)

    @property
    def real(self) -> bool:
        """Whether the value is in memory, and nothing has to be computed to read it."""
        return self._memory is not None

    @property
    def storage(self) -> Memory | None:
        """The memory of the elements; None as long as they are not computed."""
        return self._memory

    @storage.setter
    def storage(self, memory: Memory) -> None:
        self.__init__(storage=memory)  # type: ignore[misc]

    @property
    def driver_tensor(self) -> Memory:
        """The memory of the elements.

        Raises:
            GraphError: ML826, they are not computed yet.
        """
        if self._memory is None:
            raise GraphError(
                "ML826",
                "the tensor is recorded and not computed, so it has no memory",
                at=user_location(),
                fix="read it first: await x.realize, or x.item(); x.real tells",
            )
        return self._memory

    @property
    def graph(self) -> Graph:
        """The graph of the operations that made the tensor, since the last read before it, with the
        line of each. It can be shown, loaded, profiled and saved; its inputs are the tensors that
        had a value by then.

        Example:
            >>> from maxlab.experimental.tensor import Tensor
            >>> x = Tensor.ones((2,))
            >>> (x * 2 + 1).graph
            Graph('tensors', 1 input, 2 ops)
        """
        made = recording.made_by(self)
        if made is not None:
            return graph_made_by(made)
        graph = Graph("tensors", input_types=[self.type])
        graph.output(graph.inputs[0])
        return graph

    # ------------------------------------------------------------ copies
    def __copy__(self) -> Tensor:
        return made_of(self._read())  # type: ignore[no-any-return]

    def __deepcopy__(self, memo: Any) -> Tensor:
        return made_of(self._read().copy())  # type: ignore[no-any-return]

    def __reduce__(self) -> tuple[Callable[..., Tensor], tuple[Any, ...]]:
        return made_of, (self._read(),)

    # ------------------------------------------------------------ in a graph
    def clone(self) -> Tensor:
        """A tensor of the same elements with memory of its own, as ``copy.deepcopy`` gives."""
        return made_of(self._read().copy())  # type: ignore[no-any-return]

    copy = clone

    @property
    def __builder__(self) -> Any:
        return _EAGER

    def __tensorvalue__(self) -> TensorValue:
        return _value_in(self, builder(what="a tensor in a graph"))

    # ------------------------------------------------------------ operations
    @property
    def T(self) -> Tensor:  # noqa: N802 - the documented name
        """The tensor with its last two axes swapped; of fewer axes the tensor itself."""
        return self if self.rank < 2 else self.transpose(-1, -2)

    def transpose(self, dim1: int, dim2: int) -> Tensor:
        """The tensor with two axes swapped; see ``ops.transpose``."""
        return functional.transpose(self, dim1, dim2)  # type: ignore[no-any-return]

    def permute(self, dims: Iterable[int] | int, *more: int) -> Tensor:
        """The tensor with its axes in the order ``dims``; see ``ops.permute``."""
        return functional.permute(self, several((dims, *more)))  # type: ignore[no-any-return]

    def reshape(self, shape: Iterable[Any] | DimLike, *more: DimLike) -> Tensor:
        """The same elements in the shape ``shape``, where one size may be -1; see
        ``ops.reshape``."""
        return functional.reshape(self, several((shape, *more)))  # type: ignore[no-any-return]

    def cast(self, dtype: DType) -> Tensor:
        """The elements converted to ``dtype``; see ``ops.cast``."""
        return functional.cast(self, dtype)  # type: ignore[no-any-return]

    def to(self, device: Device) -> Tensor:
        """The tensor on ``device``; see ``ops.transfer_to``."""
        return functional.transfer_to(self, device)  # type: ignore[no-any-return]

    def max(self, axis: int = -1, *, dim: int | None = None) -> Tensor:
        """The largest along ``axis``, which stays with size 1, or along ``dim``; see
        ``ops.max``."""
        return functional.max(self, axis=axis if dim is None else dim)  # type: ignore[no-any-return]

    def mean(self, axis: int = -1, *, dim: int | None = None) -> Tensor:
        """The mean along ``axis``, which stays with size 1, or along ``dim``; see
        ``ops.mean``."""
        return functional.mean(self, axis if dim is None else dim)  # type: ignore[no-any-return]

    def argmax(self, axis: int = -1, *, dim: int | None = None) -> Tensor:
        """The index of the largest along ``axis``, which stays with size 1, or along ``dim``; see
        ``ops.argmax``."""
        return functional.argmax(self, axis if dim is None else dim)  # type: ignore[no-any-return]

    def __getitem__(self, index: Any) -> Tensor:
        return indexed(self, index)  # type: ignore[no-any-return]

    def __setitem__(self, index: Any, value: Any) -> None:  # type: ignore[override]
        functional.buffer_store_slice(self, value, list(index) if type(index) is tuple else [index])

    __add__ = _binary("add", ops.add)
    __radd__ = _binary("add", ops.add, reflected=True)
    __sub__ = _binary("sub", ops.sub)
    __rsub__ = _binary("sub", ops.sub, reflected=True)
    __mul__ = _binary("mul", ops.mul)
    __rmul__ = _binary("mul", ops.mul, reflected=True)
    __truediv__ = _binary("div", ops.div)
    __rtruediv__ = _binary("div", ops.div, reflected=True)
    __floordiv__ = _binary("floordiv", operator.floordiv)
    __rfloordiv__ = _binary("floordiv", operator.floordiv, reflected=True)
    __mod__ = _binary("mod", ops.mod)
    __rmod__ = _binary("mod", ops.mod, reflected=True)

    def __divmod__(self, rhs: Any) -> tuple[Tensor, Tensor]:
        return _divmod(self, rhs)  # type: ignore[no-any-return]

    def __rdivmod__(self, lhs: Any) -> tuple[Tensor, Tensor]:
        return _divmod(lhs, self)  # type: ignore[no-any-return]

    __matmul__ = _binary("matmul", ops.matmul)
    __rmatmul__ = _binary("matmul", ops.matmul, reflected=True)
    __and__ = _binary("and", ops.logical_and)
    __rand__ = _binary("and", ops.logical_and, reflected=True)
    __or__ = _binary("or", ops.logical_or)
    __ror__ = _binary("or", ops.logical_or, reflected=True)
    __xor__ = _binary("xor", ops.logical_xor)
    __rxor__ = _binary("xor", ops.logical_xor, reflected=True)
    __gt__ = _binary("gt", operator.gt)
    __ge__ = _binary("ge", operator.ge)
    __lt__ = _binary("lt", operator.lt)
    __le__ = _binary("le", operator.le)
    __neg__ = _unary("negate", ops.negate)
    __abs__ = _unary("abs", ops.abs)
    __invert__ = _unary("not", ops.logical_not)
    _equal = _binary("equal", ops.equal)
    _not_equal = _binary("not_equal", ops.not_equal)

    def __eq__(self, rhs: Any) -> Any:
        return False if rhs is None else self._equal(rhs)

    def __ne__(self, rhs: Any) -> Any:
        return True if rhs is None else self._not_equal(rhs)

    __hash__ = None  # type: ignore[assignment]

    def __pos__(self) -> Tensor:
        return self

    def __pow__(self, rhs: Any, modulo: Any = None) -> Tensor:
        made = _power(self, rhs)
        return made if modulo is None else made % modulo  # type: ignore[no-any-return]

    def __rpow__(self, lhs: Any) -> Tensor:
        return _power(lhs, self)  # type: ignore[no-any-return]

    def __round__(self, ndigits: int | None = None) -> Tensor:
        return _round(self, ndigits)


class GraphTensor(InGraph, Tensor):  # type: ignore[misc]  # it has no elements to read
    """A tensor that stands for a value of the graph that is being built."""

    __slots__ = ()


_power = functional.functional(operator.pow)
_divmod: Callable[..., Any] = functional.functional(divmod)
_round = functional.functional(round)

recording.kind = Tensor

for _name in dir(Methods):
    if _name.endswith("_") and isinstance(inspect.getattr_static(Methods, _name), Elsewhere):
        _what = f"x.{_name} would change x, which no method of a tensor does"
        _fix = "write x = x + y; or F.buffer_store(x, y), or x[...] = y, which change its memory"
        setattr(Tensor, _name, Elsewhere("ML961", _what, _fix))
for _name in (*NO_GRADIENTS, "is_leaf", "register_hook", "requires_grad"):
    _what = f"x.{_name}: tensors compute no gradients"
    _fix = 'train with PyTorch; torch.compile(model, backend="maxlab") runs what needs no gradient'
    setattr(Tensor, _name, Elsewhere("ML962", _what, _fix))


class _Eager:
    """Speaks for tensors where a builder is asked for: they have none, but the functions of
    ``experimental.functional``.
    """

    ops: ClassVar[Any] = functional._all

    def transaction(self) -> Any:
        """Raises: functions of ``graph.ops`` take no tensors outside of a graph.

        Raises:
            GraphError: ML829, always.
        """
        raise GraphError(
            "ML829",
            "a function of graph.ops was given a Tensor, and no graph is being built",
            at=user_location(),
            fix="use the function of that name of maxlab.experimental.functional: F.relu(x)",
        )


_EAGER = _Eager()


def _value_in(tensor: Tensor, b: Any) -> TensorValue:
    """``tensor`` as a value of the builder ``b``: a constant of a graph of the user's."""
    if isinstance(b, Mirror):  # of a trace, whose inputs have values
        if tensor._trace is b.trace and tensor._slot in b.values:
            return b.values[tensor._slot]  # type: ignore[no-any-return]
        return b.known(tensor._read())
    memory = tensor._read()
    device = type_in(tensor).device
    array = np.array(memory.on_host().to_ml_numpy())
    return ops.constant(array, tensor.dtype, device)


__all__ = [
    "ComputeGraph",
    "Tensor",
    "contextvar_context",
    "default_device",
    "default_dtype",
    "defaults",
    "driver_tensor_type",
    "stats",
]
