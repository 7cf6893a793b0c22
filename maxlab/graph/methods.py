"""Methods and properties of tensors of a graph that NumPy and PyTorch users type: each is an op."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from maxlab.dtype import DType, dtype_of
from maxlab.graph import refusals
from maxlab.habits import Elements, fitting
from maxlab.ir import DeviceRef, Dim, StaticDim, TensorType, user_location
from maxlab.opset.builder import builder, current


def _op(name: str) -> Callable[..., Any]:
    """A method that is the op ``name``."""

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return getattr(_ops(self, name), name)(self, *args, **kwargs)

    method.__name__ = name
    method.__doc__ = f"The result of ``ops.{name}`` on the tensor; see there."
    return method


def _ops(x: Any, name: str) -> Any:
    """The functions of the builder in use."""
    b = current(x)
    if b is None:
        x._ir()  # a weight that has no graph says so
        b = builder(what=f"ops.{name}")
    return b.ops


def _fold(name: str) -> Callable[..., Any]:
    """A method that is the fold ``name``."""

    def method(self: Any, axis: Any = -1, *keepdims: builtins.bool, **dims: Any) -> Any:
        return self._fold(name, axis, keepdims, dims)

    method.__name__ = name
    method.__doc__ = f"The result of ``ops.{name}`` on the tensor; see there."
    return method


def _cast(dtype: DType) -> Callable[[Any], Any]:
    def method(self: Any) -> Any:
        return _ops(self, "cast").cast(self, dtype)

    method.__name__ = dtype.name
    method.__doc__ = f"The elements converted to {dtype.name}; see ``ops.cast``."
    return method


def _same(what: str) -> Callable[..., Any]:
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return self

    method.__doc__ = f"The tensor itself: {what}."
    return method


def several(given: tuple[Any, ...]) -> Any:
    """The sizes or dims that a method was given: one by one, or as one list."""
    if len(given) == 1 and not isinstance(given[0], (int, str, Dim, np.integer)):
        return given[0]
    return given


class Methods:
    """What ``TensorValue`` has of the methods of NumPy's arrays and PyTorch's tensors."""

    __slots__ = ()
    if TYPE_CHECKING:

        @property
        def type(self) -> TensorType:
            """The type."""

    # ------------------------------------------------------------ facts
    @property
    def ndim(self) -> builtins.int:
        """The number of dims."""
        return self.type.rank

    def dim(self) -> builtins.int:
        """The number of dims."""
        return self.type.rank

    @property
    def size(self) -> Any:
        """The number of elements: an int, or a dim of the graph. ``x.size()`` is the shape."""
        shape = self.type.shape
        total = shape.num_elements
        if not isinstance(total, StaticDim):
            return total
        made = Elements(total.dim)
        made.shape = shape
        return made

    def numel(self) -> Any:
        """The number of elements: an int, or a dim of the graph."""
        total = self.type.shape.num_elements
        return total.dim if isinstance(total, StaticDim) else total

    @property
    def itemsize(self) -> builtins.int:
        """The bytes of an element."""
        return self.type.dtype.size_in_bytes

    @property
    def nbytes(self) -> Any:
        """The bytes of all elements: an int, or a dim of the graph."""
        total = self.type.shape.num_elements * self.itemsize
        return total.dim if isinstance(total, StaticDim) else total

    @property
    def requires_grad(self) -> builtins.bool:
        """False: graphs compute no gradients."""
        return False

    def is_floating_point(self) -> builtins.bool:
        """Whether the elements are floats."""
        return self.type.dtype.is_float()

    @property
    def mT(self) -> Any:  # noqa: N802 - as NumPy and PyTorch call it
        """The tensor with its last two dims swapped."""
        return _ops(self, "transpose").transpose(self, -1, -2)

    # ------------------------------------------------------------ ops
    sum = _fold("sum")
    argmin = _fold("argmin")
    std = _fold("std")
    any = _fold("any")
    all = _fold("all")
    cumsum = _op("cumsum")
    norm = _fold("norm")
    logsumexp = _fold("logsumexp")
    relu = _op("relu")
    gelu = _op("gelu")
    silu = _op("silu")
    exp2 = _op("exp2")
    expm1 = _op("expm1")
    log2 = _op("log2")
    log10 = _op("log10")
    tile = _op("tile")
    exp = _op("exp")
    log = _op("log")
    log1p = _op("log1p")
    sqrt = _op("sqrt")
    rsqrt = _op("rsqrt")
    tanh = _op("tanh")
    sigmoid = _op("sigmoid")
    erf = _op("erf")
    abs = _op("abs")
    sin = _op("sin")
    cos = _op("cos")
    neg = _op("negate")
    square = _op("square")
    reciprocal = _op("reciprocal")
    sign = _op("sign")
    floor = _op("floor")
    ceil = _op("ceil")
    trunc = _op("trunc")
    round = _op("round")
    softmax = _op("softmax")
    log_softmax = _op("logsoftmax")
    add = _op("add")
    sub = _op("sub")
    mul = _op("mul")
    div = _op("div")
    pow = _op("pow")
    matmul = _op("matmul")
    mm = _op("matmul")
    bmm = _op("matmul")
    dot = _op("matmul")
    eq = _op("equal")
    ne = _op("not_equal")
    gt = _op("greater")
    ge = _op("greater_equal")
    lt = _op("less")
    le = _op("less_equal")
    maximum = _op("maximum")
    minimum = _op("minimum")
    clamp = _op("clip")
    clip = _op("clip")
    masked_fill = _op("masked_fill")
    isnan = _op("isnan")
    isinf = _op("isinf")
    isfinite = _op("isfinite")
    unsqueeze = _op("unsqueeze")
    swapaxes = _op("swapaxes")
    ravel = _op("ravel")
    flip = _op("flip")
    roll = _op("roll")
    chunk = _op("chunk")
    index_select = _op("index_select")
    take = _op("take")
    tril = _op("tril")
    triu = _op("triu")
    topk = _op("topk")
    sort = _op("sort")
    argsort = _op("argsort")
    repeat_interleave = _op("repeat_interleave")

    def squeeze(self, axis: builtins.int | None = None, *, dim: builtins.int | None = None) -> Any:
        """The tensor without the dim ``axis`` of size 1, or without all of size 1."""
        ops, place = _ops(self, "squeeze"), dim if axis is None else axis
        if place is not None:
            return ops.squeeze(self, place)
        return ops.reshape(self, [one for one in self.type.shape if one != 1])

    def _fold(self, name: str, axis: Any, keepdims: tuple[Any, ...], dims: dict[str, Any]) -> Any:
        """The fold ``name`` with the arguments of a method of NumPy or PyTorch: ``keepdims`` behind
        the axis, None for all axes, and ``dtype``, which the elements are converted to first."""
        ops, value = _ops(self, name), self
        if len(keepdims) == 1 and isinstance(keepdims[0], builtins.bool):
            dims["keepdims"] = keepdims[0]
        elif keepdims:
            raise refusals.no_such_fold(name, keepdims)
        if (dtype := dims.pop("dtype", None)) is not None:
            value = ops.cast(self, dtype)
        if unknown := dims.keys() - {"dim", "keepdim", "keepdims", "ddof", "correction"}:
            raise refusals.no_such_fold(name, sorted(unknown))
        if "dim" not in dims or axis != -1:
            dims["axis"] = tuple(range(self.ndim)) if axis is None else axis
        return getattr(ops, name)(value, **dims)

    def view(self, *shape: Any) -> Any:
        """The same elements in another shape; see ``ops.reshape``.

        Raises:
            ArgumentTypeError: ML336, a dtype: no op reads the bits as another one.
        """
        if len(shape) == 1 and not isinstance(shape[0], (builtins.int, Dim)):
            found = dtype_of(shape[0])
            if found is not None:
                raise refusals.no_bits(found)
        return _ops(self, "reshape").reshape(self, several(shape))

    def unflatten(self, dim: builtins.int, sizes: Sequence[Any]) -> Any:
        """The tensor with ``dim`` cut into the dims ``sizes``, one of which may be -1."""
        at, shape = dim % self.ndim, self.type.shape
        return _ops(self, "reshape").reshape(self, [*shape[:at], *sizes, *shape[at + 1 :]])

    def view_as(self, other: Any) -> Any:
        """The same elements in the shape of ``other``; see ``ops.reshape``."""
        return self.view(other.type.shape)

    reshape_as = view_as

    def expand_as(self, other: Any) -> Any:
        """The tensor repeated to the shape of ``other``; see ``ops.broadcast_to``."""
        return self.expand(other.type.shape)

    @fitting("ML330", "x.where(b, y)", user_location)
    def where(self, condition: Any, other: Any) -> Any:
        """The tensor where ``condition`` is true, elsewhere ``other``, as PyTorch's ``where``; see
        ``ops.where``."""
        return _ops(self, "where").where(condition, self, other)

    def narrow(self, dim: builtins.int, start: builtins.int, length: builtins.int) -> Any:
        """``length`` elements along ``dim`` from ``start`` on; see ``ops.slice_tensor``."""
        before: list[Any] = [slice(None)] * (dim % self.ndim)
        return _ops(self, "slice_tensor").slice_tensor(
            self, [*before, slice(start, start + length), ...]
        )

    def unbind(self, dim: builtins.int = 0) -> Any:
        """The parts along ``dim``, each without it, as a tuple."""
        ops = _ops(self, "split")
        return tuple(ops.squeeze(one, dim) for one in self.split(1, dim))

    @property
    def real(self) -> Any:
        """The tensor itself: its elements are real."""
        return self

    def is_contiguous(self) -> builtins.bool:
        """True: kernels choose how it lies in memory."""
        return True

    def element_size(self) -> builtins.int:
        """The bytes of an element."""
        return self.itemsize

    def t(self) -> Any:
        """The tensor with its last two dims swapped; of fewer dims the tensor itself."""
        return self.mT if self.ndim > 1 else self

    def adjoint(self) -> Any:
        """The tensor with its last two dims swapped: its elements are real."""
        return self.mT

    @property
    def H(self) -> Any:  # noqa: N802 - as NumPy and PyTorch call it
        """The tensor with its last two dims swapped: its elements are real."""
        return self.mT

    mH = H  # noqa: N815 - as above

    def expand(self, *shape: Any) -> Any:
        """The tensor repeated to a shape, in which -1 keeps a dim; see ``ops.broadcast_to``."""
        wanted = list(several(shape))
        own = self.type.shape
        missing = len(wanted) - len(own)
        kept = [
            own[i - missing] if size == -1 and i >= missing else size
            for i, size in enumerate(wanted)
        ]
        return _ops(self, "broadcast_to").broadcast_to(self, kept)

    def repeat(self, *sizes: Any) -> Any:
        """The tensor so many times along each dim, as PyTorch's ``repeat``; see ``ops.tile``."""
        ops, counts, value = _ops(self, "tile"), list(several(sizes)), self
        for _ in range(len(counts) - self.ndim):
            value = ops.unsqueeze(value, 0)
        return ops.tile(value, counts)

    def split(self, sizes: Any, dim: builtins.int = 0) -> Any:
        """Parts along ``dim``: of one size, the last of which may be smaller, or of the sizes in a
        list; see ``ops.split``."""
        if isinstance(sizes, int):
            total = self.type.shape[dim]
            if not isinstance(total, StaticDim) or sizes < 1:
                raise refusals.no_length(total)
            whole, rest = divmod(total.dim, sizes)
            sizes = [sizes] * whole + [rest] * bool(rest)
        return _ops(self, "split").split(self, sizes, dim)

    @fitting("ML330", "x.astype('float16')", user_location)
    def astype(self, dtype: Any, copy: builtins.bool = True) -> Any:
        """The elements converted to ``dtype``; see ``ops.cast``."""
        return _ops(self, "cast").cast(self, dtype)

    def type_as(self, other: Any) -> Any:
        """The elements converted to the dtype of ``other``; see ``ops.cast``."""
        return self.astype(other.dtype)

    short = _cast(DType.int16)
    float = _cast(DType.float32)
    double = _cast(DType.float64)
    half = _cast(DType.float16)
    bfloat16 = _cast(DType.bfloat16)
    int = _cast(DType.int32)
    long = _cast(DType.int64)
    bool = _cast(DType.bool)

    clone = _same("it never changes")
    copy = _same("it never changes")
    conj = _same("its elements are real")
    detach = _same("graphs compute no gradients")
    contiguous = _same("kernels choose how it lies in memory")

    def cpu(self) -> Any:
        """The tensor on the host; see ``ops.transfer_to``."""
        return _ops(self, "transfer_to").transfer_to(self, DeviceRef.CPU())

    def cuda(self, id: Any = 0) -> Any:
        """The tensor on a GPU; see ``ops.transfer_to``."""
        return _ops(self, "transfer_to").transfer_to(self, DeviceRef.GPU(id))

    # ------------------------------------------------------------ NumPy
    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        """What ``ufunc`` of NumPy adds to the graph.

        Raises:
            ArgumentTypeError: ML965, no op does it.
        """
        return _ops(self, "numpy").as_numpy.apply_ufunc(ufunc, method, inputs, kwargs)

    def __array_function__(
        self, function: Any, types: Any, args: Sequence[Any], kwargs: dict[str, Any]
    ) -> Any:
        """What ``function`` of NumPy adds to the graph.

        Raises:
            ArgumentTypeError: ML965, no op does it.
        """
        return _ops(self, "numpy").as_numpy.apply_function(function, args, kwargs)

    def __array__(self, dtype: Any = None, copy: Any = None) -> NoReturn:
        raise refusals.no_array()

    @classmethod
    def __torch_function__(
        cls, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> NoReturn:
        tensors = [x for x in (*args, *(kwargs or {}).values()) if isinstance(x, Methods)]
        parts = [x for part in args if isinstance(part, (list, tuple)) for x in part]
        first = next(x for x in (*tensors, *parts) if isinstance(x, Methods))
        name = str(getattr(function, "__name__", function))
        has_op = hasattr(_ops(first, name), name)
        raise refusals.no_function_of_torch(name, has_op, len(tensors) == 1)

    # ------------------------------------------------------------ what needs a run
    def item(self) -> NoReturn:
        """Nothing.

        Raises:
            ArgumentTypeError: ML960, always: results have elements, graphs have none.
        """
        raise refusals.no_value("x.item()", f"{refusals.ASK}[0, 0].item()")

    def tolist(self) -> NoReturn:
        """Nothing.

        Raises:
            ArgumentTypeError: ML960, always: results have elements, graphs have none.
        """
        raise refusals.no_value("x.tolist()", f"{refusals.ASK}.tolist()")

    def numpy(self) -> NoReturn:
        """Nothing.

        Raises:
            ArgumentTypeError: ML960, always: results have elements, graphs have none.
        """
        raise refusals.no_value("x.numpy()", f"{refusals.ASK}.to_numpy()")

    def __float__(self) -> NoReturn:
        raise refusals.no_number("float")

    def __int__(self) -> NoReturn:
        raise refusals.no_number("int")

    def __index__(self) -> NoReturn:
        raise refusals.no_number("int")

    def __format__(self, spec: str) -> str:
        if spec:
            raise refusals.no_value(f"a format such as {spec!r}", f"f'{{result[0, 0]:{spec}}}'")
        return str(self)

    def __lshift__(self, other: Any) -> NoReturn:
        raise refusals.no_shift()

    __rshift__ = __rlshift__ = __rrshift__ = __lshift__

    def __setitem__(self, index: Any, value: Any) -> NoReturn:
        raise refusals.no_change("x[...] = y")

    def __delitem__(self, index: Any) -> NoReturn:
        raise refusals.no_change("del x[...]")

    def __len__(self) -> Any:
        shape = self.type.shape
        if not shape or not isinstance(shape[0], StaticDim):
            raise refusals.no_length(shape[0] if shape else "none")
        return shape[0].dim


refusals.refuse(Methods)


def target_of(given: Any) -> DType | None:
    """The dtype that an argument of ``x.to`` names; None when it names a device."""
    return None if isinstance(given, DeviceRef) else dtype_of(given)


__all__ = ["Methods", "several", "target_of"]
