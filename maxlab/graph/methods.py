"""Methods and properties of tensors of a graph that NumPy and PyTorch users type: each is an op."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from maxlab.dtype import DType, dtype_of
from maxlab.graph import refusals
from maxlab.graph.operands import is_array
from maxlab.graph.synonyms import Synonyms, op_method, ops_for, several
from maxlab.habits import Elements, fitting
from maxlab.ir import DeviceRef, Dim, StaticDim, TensorType, user_location
from maxlab.ir.sizes import sizes_of


def _fold(name: str) -> Callable[..., Any]:
    """A method that is the fold ``name``."""

    def method(self: Any, axis: Any = -1, *keepdims: builtins.bool, **dims: Any) -> Any:
        return self._fold(name, axis, keepdims, dims)

    method.__name__ = name
    method.__doc__ = f"The result of ``ops.{name}`` on the tensor; see there."
    return method


def _cast(dtype: DType) -> Callable[[Any], Any]:
    def method(self: Any) -> Any:
        return ops_for(self, "cast").cast(self, dtype)

    method.__name__ = dtype.name
    method.__doc__ = f"The elements converted to {dtype.name}; see ``ops.cast``."
    return method


def _same(what: str) -> Callable[..., Any]:
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return self

    method.__doc__ = f"The tensor itself: {what}."
    return method


_OF_FOLDS = {"dim", "keepdim", "keepdims", "ddof", "correction", "unbiased", "p"}
"""The names of arguments of folds, beside ``axis``."""


class Methods(Synonyms):
    """The methods of ``TensorValue`` that NumPy's arrays and PyTorch's tensors have too."""

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
            return sizes_of(total, shape)
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
        return ops_for(self, "transpose").transpose(self, -1, -2)

    # ------------------------------------------------------------ ops
    sum = _fold("sum")
    argmin = _fold("argmin")
    amax = _fold("amax")
    amin = _fold("amin")
    count_nonzero = _fold("count_nonzero")
    std = _fold("std")
    any = _fold("any")
    all = _fold("all")
    cumsum = op_method("cumsum")
    logsumexp = _fold("logsumexp")
    relu = op_method("relu")
    gelu = op_method("gelu")
    silu = op_method("silu")
    exp2 = op_method("exp2")
    expm1 = op_method("expm1")
    log2 = op_method("log2")
    log10 = op_method("log10")
    exp = op_method("exp")
    log = op_method("log")
    log1p = op_method("log1p")
    sqrt = op_method("sqrt")
    rsqrt = op_method("rsqrt")
    tanh = op_method("tanh")
    sigmoid = op_method("sigmoid")
    erf = op_method("erf")
    abs = op_method("abs")
    sin = op_method("sin")
    cos = op_method("cos")
    neg = op_method("negate")
    square = op_method("square")
    reciprocal = op_method("reciprocal")
    sign = op_method("sign")
    floor = op_method("floor")
    ceil = op_method("ceil")
    trunc = op_method("trunc")
    softmax = op_method("softmax")
    log_softmax = op_method("logsoftmax")
    add = op_method("add")
    sub = op_method("sub")
    mul = op_method("mul")
    div = op_method("div")
    pow = op_method("pow")
    matmul = op_method("matmul")
    mm = op_method("matmul")
    bmm = op_method("matmul")
    dot = op_method("matmul")
    eq = op_method("equal")
    ne = op_method("not_equal")
    gt = op_method("greater")
    ge = op_method("greater_equal")
    lt = op_method("less")
    le = op_method("less_equal")
    maximum = op_method("maximum")
    minimum = op_method("minimum")
    clamp = op_method("clip")
    clip = op_method("clip")
    masked_fill = op_method("masked_fill")
    isnan = op_method("isnan")
    isinf = op_method("isinf")
    isfinite = op_method("isfinite")
    unsqueeze = op_method("unsqueeze")
    swapaxes = op_method("swapaxes")
    chunk = op_method("chunk")

    def _fold(self, name: str, axis: Any, keepdims: tuple[Any, ...], dims: dict[str, Any]) -> Any:
        """The fold ``name`` with the arguments of a method of NumPy or PyTorch: ``keepdims`` behind
        the axis, None for all axes, and ``dtype``, which the elements are converted to first. Of
        bools the sum is a number of them, as NumPy's and PyTorch's. With a tensor in the place of
        the axis, ``max`` and ``min`` are those of two tensors, as PyTorch's."""
        ops, value = ops_for(self, name), self
        if name in ("max", "min") and (isinstance(axis, Methods) or is_array(axis)):
            return (ops.maximum if name == "max" else ops.minimum)(self, axis)
        if len(keepdims) == 1 and isinstance(keepdims[0], builtins.bool):
            dims["keepdims"] = keepdims[0]
        elif keepdims:
            raise refusals.no_such_fold(name, keepdims)
        if (dtype := dims.pop("dtype", None)) is not None:
            value = ops.cast(self, dtype)
        elif name == "sum" and self.type.dtype is DType.bool:
            value = ops.cast(self, DType.int64)
        if unknown := dims.keys() - _OF_FOLDS:
            raise refusals.no_such_fold(name, sorted(unknown))
        if "dim" not in dims or axis != -1:
            dims["axis"] = tuple(range(self.ndim)) if axis is None else axis
        return getattr(ops, name)(value, **dims)

    @fitting("ML330", "x.norm(p=2, dim=1)", user_location)
    def norm(self, axis: Any = -1, *, p: Any = 2, **dims: Any) -> Any:
        """The length along ``axis``, which stays with size 1; see ``ops.norm``."""
        return self._fold("norm", axis, (), {**dims, "p": p})

    @fitting("ML330", "x.sort(dim=1, descending=True)", user_location)
    def sort(self, dim: builtins.int = -1, descending: builtins.bool = False, **named: Any) -> Any:
        """The elements in order along ``dim``, or ``axis``; see ``ops.sort``."""
        ops = ops_for(self, "sort")
        if "axis" in named:
            return ops.sort(self, **named, descending=descending)
        named.pop("stable", None)
        return ops.sort(self, dim=dim, descending=descending, **named)

    def view(self, *shape: Any) -> Any:
        """The same elements in another shape; see ``ops.reshape``.

        Raises:
            ArgumentTypeError: ML336, a dtype: no op reads the bits as another one.
        """
        if len(shape) == 1 and not isinstance(shape[0], (builtins.int, Dim)):
            found = dtype_of(shape[0])
            if found is not None:
                raise refusals.no_bits(found)
        return ops_for(self, "reshape").reshape(self, several(shape))

    @fitting("ML330", "x.unflatten(1, (2, 2))", user_location)
    def unflatten(self, dim: builtins.int, sizes: Sequence[Any]) -> Any:
        """The tensor with ``dim`` cut into the dims ``sizes``, one of which may be -1."""
        at, shape = dim % self.ndim, self.type.shape
        return ops_for(self, "reshape").reshape(self, [*shape[:at], *sizes, *shape[at + 1 :]])

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
        return ops_for(self, "where").where(condition, self, other)

    @fitting("ML330", "x.narrow(1, 0, 2)", user_location)
    def narrow(self, dim: builtins.int, start: builtins.int, length: builtins.int) -> Any:
        """``length`` elements along ``dim`` from ``start`` on; see ``ops.slice_tensor``."""
        before: list[Any] = [slice(None)] * (dim % self.ndim)
        return ops_for(self, "slice_tensor").slice_tensor(
            self, [*before, slice(start, start + length), ...]
        )

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
        return ops_for(self, "broadcast_to").broadcast_to(self, kept)

    @fitting("ML330", "x.split(2, dim=1)", user_location)
    def split(
        self,
        sizes: Any = None,
        dim: builtins.int = 0,
        *,
        split_size: Any = None,
        axis: builtins.int | None = None,
    ) -> Any:
        """Parts along ``dim``: of one size, the last of which may be smaller, or of the sizes in a
        list; see ``ops.split``."""
        sizes, dim = split_size if sizes is None else sizes, dim if axis is None else axis
        if isinstance(sizes, int):
            total = self.type.shape[dim]
            if not isinstance(total, StaticDim) or sizes < 1:
                raise refusals.no_length(total)
            whole, rest = divmod(total.dim, sizes)
            sizes = [sizes] * whole + [rest] * bool(rest)
        return ops_for(self, "split").split(self, sizes, dim)

    @fitting("ML330", "x.astype('float16')", user_location)
    def astype(self, dtype: Any, copy: builtins.bool = True) -> Any:
        """The elements converted to ``dtype``; see ``ops.cast``."""
        return ops_for(self, "cast").cast(self, dtype)

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
        return ops_for(self, "transfer_to").transfer_to(self, DeviceRef.CPU())

    def cuda(self, id: Any = 0) -> Any:
        """The tensor on a GPU; see ``ops.transfer_to``."""
        return ops_for(self, "transfer_to").transfer_to(self, DeviceRef.GPU(id))

    # ------------------------------------------------------------ NumPy
    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        """The values that ``ufunc`` of NumPy adds to the graph.

        Raises:
            ArgumentTypeError: ML965, no op does it.
        """
        return ops_for(self, "numpy").as_numpy.apply_ufunc(ufunc, method, inputs, kwargs)

    def __array_function__(
        self, function: Any, types: Any, args: Sequence[Any], kwargs: dict[str, Any]
    ) -> Any:
        """The values that ``function`` of NumPy adds to the graph.

        Raises:
            ArgumentTypeError: ML965, no op does it.
        """
        return ops_for(self, "numpy").as_numpy.apply_function(function, args, kwargs)

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
        has_op = hasattr(ops_for(first, name), name)
        raise refusals.no_function_of_torch(name, has_op, len(tensors) == 1)

    # ------------------------------------------------------------ what needs a run
    def item(self) -> NoReturn:
        """Raises: a value of a graph has no numbers.

        Raises:
            ArgumentTypeError: ML960, always: results have elements, graphs have none.
        """
        raise refusals.no_value("x.item()", f"{refusals.ASK}[0, 0].item()")

    def tolist(self) -> NoReturn:
        """Raises: a value of a graph has no numbers.

        Raises:
            ArgumentTypeError: ML960, always: results have elements, graphs have none.
        """
        raise refusals.no_value("x.tolist()", f"{refusals.ASK}.tolist()")

    def numpy(self) -> NoReturn:
        """Raises: a value of a graph has no numbers.

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

    def __setattr__(self, name: str, value: Any) -> None:
        raise refusals.no_attribute(name)

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


__all__ = ["Methods", "target_of"]
