"""Arithmetic, comparison, conversion and folds of tensors on the host: a result is looked at and
reckoned with as an array of NumPy is. NumPy computes; a tensor of a GPU is copied first, by the
user: ``tensor.to("cpu")``.
"""

from __future__ import annotations

import builtins
import math
import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn, Self

import numpy as np

from maxlab.driver.alone import alone
from maxlab.driver.instead import INSTEAD
from maxlab.dtype import DType, dtype_of
from maxlab.errors import (
    NO_GRADIENTS,
    ArgumentTypeError,
    MissingNameError,
    TensorError,
    elsewhere,
    shown,
    untrained,
)
from maxlab.habits import Elements, fitting

Array = np.ndarray[Any, Any]
_NUMBERS = (bool, int, float, complex, np.generic, np.ndarray, list, tuple)


def _wide(array: Array) -> Array:
    """``array``, floats that NumPy does not know as float32."""
    return array if array.dtype.isbuiltin == 1 else array.astype(np.float32)


def _binary(
    act: Callable[[Any, Any], Any], word: str, swapped: bool = False
) -> Callable[[Any, Any], Any]:
    def method(self: Numbers, other: Any) -> Any:
        own = self.to_ml_numpy()
        narrow = _wide(own) is not own
        if _is_of_torch(other):
            other = self._of_torch(other)
        if isinstance(other, Numbers):
            array = other.to_ml_numpy()
            narrow = narrow and array.dtype == own.dtype
            other = _wide(array)
        elif isinstance(other, _NUMBERS):
            narrow = narrow and not isinstance(other, (np.ndarray, list, tuple))
        elif other is None or isinstance(other, (str, bytes, dict, set)):
            raise ArgumentTypeError(
                "ML421",
                f"{word} of a tensor takes a tensor, an array or a number, got {shown(other)}",
                fix="convert it first: a text such as float('1'), values by np.asarray(values)",
            )
        else:
            return NotImplemented
        left = _wide(own)
        try:
            made = act(other, left) if swapped else act(left, other)
        except (ValueError, TypeError) as error:
            raise TensorError(
                "ML422",
                f"{word} of tensors {own.dtype} {own.shape} and {shown(np.asarray(other).dtype)} "
                f"{np.shape(other)}: {error}",
                fix="reshape or cast one of them; they broadcast as arrays of NumPy do",
            ) from error
        found = np.asarray(made)
        if narrow and found.dtype == np.float32:
            found = found.astype(own.dtype)
        return self._of(found)

    method.__doc__ = f"The {word}, by NumPy, on the host."
    return method


def _is_of_torch(x: object) -> bool:
    """Whether ``x`` is a tensor of PyTorch, or of another library that speaks DLPack as it does."""
    return type(x).__module__.partition(".")[0] == "torch" and hasattr(x, "__dlpack__")


def _unary(act: Callable[[Any], Any], word: str) -> Callable[[Any], Any]:
    def method(self: Numbers) -> Any:
        own = self.to_ml_numpy()
        try:
            made = np.asarray(act(_wide(own)))
        except TypeError as error:
            raise TensorError(
                "ML422",
                f"{word} of a tensor of {own.dtype}: {error}",
                fix="convert it first: tensor.astype('int32'); a mask is inverted by ~(tensor > 0)",
            ) from error
        return self._of(made.astype(own.dtype))

    method.__doc__ = f"The {word}, by NumPy, on the host."
    return method


def _compare(act: Callable[[Any, Any], Any], word: str) -> Callable[[Any, Any], Any]:
    compute = _binary(act, "comparison")
    orders = act not in (operator.eq, operator.ne)

    def method(self: Numbers, other: Any) -> Any:
        if isinstance(other, (Numbers, *_NUMBERS)) or orders or _is_of_torch(other):
            return compute(self, other)
        return NotImplemented

    method.__doc__ = f"Whether the elements are {word}: a bool tensor, by NumPy, on the host."
    return method


def _fold(name: str) -> Callable[..., Any]:
    def method(
        self: Numbers,
        axis: Any = None,
        keepdims: bool = False,
        *,
        dim: Any = None,
        keepdim: bool = False,
        **kwargs: Any,
    ) -> Any:
        if axis is not None and dim is not None:
            raise ArgumentTypeError(
                "ML966",
                f"{name}: axis={axis!r} and dim={dim!r} name one thing",
                fix="give one of the two",
            )
        own = self.to_ml_numpy()
        wide = _wide(own)
        where = axis if dim is None else dim
        if "unbiased" in kwargs:
            kwargs["ddof"] = int(kwargs.pop("unbiased"))
        try:
            found = getattr(np, name)(wide, axis=where, keepdims=keepdims or keepdim, **kwargs)
        except (ValueError, TypeError) as error:
            raise TensorError(
                "ML422",
                f"{name} of a tensor of shape {own.shape}: {error}",
                fix=f"name an axis that it has: tensor.{name}(axis=0)",
            ) from error
        made = np.asarray(found)
        folded = self._of(made.astype(own.dtype) if made.dtype == np.float32 else made)
        if dim is not None and name in ("max", "min"):
            return alone(folded)
        return folded

    method.__name__ = name
    method.__doc__ = (
        f"``np.{name}`` of the elements: of all, or along ``axis`` (or ``dim``), which is dropped "
        "unless ``keepdims``."
    )
    return method


def _by_numpy(name: str) -> Callable[..., Any]:
    def method(self: Numbers, *args: Any, **kwargs: Any) -> Any:
        own = self.to_ml_numpy()
        wide = _wide(own)
        if "dim" in kwargs:
            kwargs["axis"] = kwargs.pop("dim")
        given = [_wide(one.to_ml_numpy()) if isinstance(one, Numbers) else one for one in args]
        try:
            found = np.asarray(getattr(np, name)(wide, *given, **kwargs))
        except (ValueError, TypeError) as error:
            raise TensorError(
                "ML422",
                f"{name} of a tensor of shape {own.shape}: {error}",
                fix=f"give it what np.{name} takes; tensor.shape has the axes",
            ) from error
        narrow = wide is not own and found.dtype == np.float32
        return self._of(np.array(found, found.dtype if not narrow else own.dtype, order="C"))

    method.__name__ = name
    method.__doc__ = f"``np.{name}`` of the elements, on the host; ``dim`` is ``axis``."
    return method


def _cast(dtype: DType) -> Callable[[Any], Any]:
    def method(self: Numbers) -> Any:
        return self.astype(dtype)

    method.__name__ = dtype.name
    method.__doc__ = f"The elements converted to {dtype.name} by NumPy."
    return method


class Numbers:
    """Questions that a tensor answers as an array of NumPy or a tensor of PyTorch would."""

    __slots__ = ()
    if TYPE_CHECKING:
        shape: Any
        dtype: Any
        num_elements: Any
        item: Any
        to_ml_numpy: Any
        to_numpy: Any

    @staticmethod
    def _of(array: Array) -> Any:
        """The tensor of a result."""
        raise NotImplementedError

    @staticmethod
    def _of_torch(array: Any) -> Any:
        """The tensor of the memory of a tensor of PyTorch."""
        raise NotImplementedError

    @classmethod
    def __torch_function__(
        cls, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> NoReturn:
        name = str(getattr(function, "__name__", function)).replace("linalg_", "linalg.")
        raise ArgumentTypeError(
            "ML965",
            f"torch.{name} takes tensors of PyTorch, got one of maxlab",
            fix="convert it first, which copies nothing on the host: torch.from_dlpack(tensor)",
        )

    # ------------------------------------------------------------ facts
    @property
    def ndim(self) -> builtins.int:
        """The number of axes."""
        return len(self.shape)

    @property
    def size(self) -> Elements:
        """The number of elements, an int. ``tensor.size()`` is the shape."""
        made = Elements(math.prod(self.shape))
        made.shape = self.shape
        return made

    def numel(self) -> builtins.int:
        """The number of elements."""
        return math.prod(self.shape)

    def dim(self) -> builtins.int:
        """The number of axes."""
        return len(self.shape)

    @property
    def requires_grad(self) -> builtins.bool:
        """False: results have no gradients."""
        return False

    @property
    def itemsize(self) -> builtins.int:
        """The bytes of one element."""
        found: builtins.int = self.dtype.size_in_bytes
        return found

    @property
    def nbytes(self) -> builtins.int:
        """The bytes of all elements."""
        return self.size * self.itemsize

    def __len__(self) -> builtins.int:
        """The size of the first axis.

        Raises:
            ArgumentTypeError: ML421 (a TypeError), the rank is 0.
        """
        if not self.shape:
            raise ArgumentTypeError(
                "ML421",
                "a tensor of rank 0 has no length",
                fix="use tensor.shape, or tensor.num_elements",
            )
        found: builtins.int = self.shape[0]
        return found

    # ------------------------------------------------------------ operators
    __add__ = _binary(operator.add, "sum")
    __radd__ = _binary(operator.add, "sum", True)
    __sub__ = _binary(operator.sub, "difference")
    __rsub__ = _binary(operator.sub, "difference", True)
    __mul__ = _binary(operator.mul, "product")
    __rmul__ = _binary(operator.mul, "product", True)
    __truediv__ = _binary(operator.truediv, "quotient")
    __rtruediv__ = _binary(operator.truediv, "quotient", True)
    __floordiv__ = _binary(operator.floordiv, "quotient, rounded down,")
    __rfloordiv__ = _binary(operator.floordiv, "quotient, rounded down,", True)
    __mod__ = _binary(operator.mod, "remainder")
    __rmod__ = _binary(operator.mod, "remainder", True)
    __pow__ = _binary(operator.pow, "power")
    __rpow__ = _binary(operator.pow, "power", True)
    __matmul__ = _binary(operator.matmul, "matrix product")
    __rmatmul__ = _binary(operator.matmul, "matrix product", True)
    __and__ = _binary(operator.and_, "conjunction")
    __rand__ = _binary(operator.and_, "conjunction", True)
    __or__ = _binary(operator.or_, "disjunction")
    __ror__ = _binary(operator.or_, "disjunction", True)
    __xor__ = _binary(operator.xor, "exclusive disjunction")
    __rxor__ = _binary(operator.xor, "exclusive disjunction", True)
    __lshift__ = _binary(operator.lshift, "shift to the left")
    __rlshift__ = _binary(operator.lshift, "shift to the left", True)
    __rshift__ = _binary(operator.rshift, "shift to the right")
    __rrshift__ = _binary(operator.rshift, "shift to the right", True)
    __pos__ = _unary(operator.pos, "same elements")
    __neg__ = _unary(operator.neg, "negative")
    __abs__ = _unary(abs, "absolute value")
    __invert__ = _unary(operator.invert, "inverse of the bits")
    __eq__ = _compare(operator.eq, "equal")
    __ne__ = _compare(operator.ne, "not equal")
    __lt__ = _compare(operator.lt, "less")
    __le__ = _compare(operator.le, "less or equal")
    __gt__ = _compare(operator.gt, "greater")
    __ge__ = _compare(operator.ge, "greater or equal")
    __hash__ = object.__hash__  # tensors are told apart by what they are, not by what they hold

    def __divmod__(self, other: Any) -> tuple[Any, Any]:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> tuple[Any, Any]:
        return other // self, other % self

    def __delitem__(self, index: Any) -> NoReturn:
        raise TensorError(
            "ML961",
            "del tensor[...]: the size of a tensor never changes",
            fix="make another: np.delete(tensor, 0, axis=0), tensor[1:]",
        )

    def __contains__(self, value: Any) -> builtins.bool:
        return bool((self == value).any())

    # ------------------------------------------------------------ as Python's numbers
    def __bool__(self) -> builtins.bool:
        """Whether the only element differs from 0.

        Raises:
            TensorError: ML969 (a ValueError), there are several elements, or none.
        """
        if self.size != 1:
            raise TensorError(
                "ML969",
                f"the truth of a tensor of {self.size} elements could mean any of them or all",
                fix="ask tensor.any() or tensor.all(); for None: tensor is not None",
            )
        return bool(self.to_ml_numpy().reshape(()))

    def __float__(self) -> builtins.float:
        return float(self.item())

    def __int__(self) -> builtins.int:
        return int(self.item())

    def __complex__(self) -> complex:
        return complex(self.item())

    def __round__(self, digits: builtins.int | None = None) -> Any:
        return self._of(np.asarray(np.round(_wide(self.to_ml_numpy()), digits or 0)))

    def __index__(self) -> builtins.int:
        value = self.item()
        if isinstance(value, float):
            raise ArgumentTypeError(
                "ML421",
                f"an index is an int, got a tensor of {self.dtype.name}",
                fix="write int(tensor)",
            )
        return int(value)

    def __format__(self, spec: str) -> str:
        """The tensor as text; of rank 0, its element in the format ``spec`` when there is one."""
        return format(self.item(), spec) if spec else str(self)

    def __bytes__(self) -> bytes:
        return self.tobytes()

    # ------------------------------------------------------------ conversions
    def numpy(self) -> Array:
        """The same as ``to_numpy``."""
        found: Array = self.to_numpy()
        return found

    def tolist(self) -> Any:
        """The elements as Python's numbers, in nested lists."""
        return _wide(self.to_ml_numpy()).tolist()

    @fitting("ML421", "tensor.astype('float16')")
    def astype(self, dtype: Any, copy: builtins.bool = True) -> Self:
        """A tensor of the elements converted to ``dtype`` by NumPy.

        Raises:
            ArgumentTypeError: ML421 (a TypeError), not a dtype.
        """
        kind = dtype_of(dtype)
        if kind is None:
            raise ArgumentTypeError(
                "ML421",
                f"dtype must be a DType, got {shown(dtype)}",
                fix="write DType.float32, or DType.from_numpy(array.dtype)",
            )
        with np.errstate(all="ignore"):
            made: Self = self._of(self.to_ml_numpy().astype(kind.ml_numpy))
            return made

    float = _cast(DType.float32)
    double = _cast(DType.float64)
    half = _cast(DType.float16)
    bfloat16 = _cast(DType.bfloat16)
    int = _cast(DType.int32)
    long = _cast(DType.int64)
    bool = _cast(DType.bool)

    def reshape(self, *shape: Any) -> Self:
        """The elements in another shape, where one size may be -1: of the same memory where that is
        contiguous.

        Raises:
            TensorError: ML422 (a ValueError), another number of elements.
        """
        sizes = shape[0] if len(shape) == 1 and not isinstance(shape[0], int) else shape
        try:
            made: Self = self._of(self.to_ml_numpy().reshape(sizes))
        except (ValueError, TypeError) as error:
            raise TensorError(
                "ML422",
                f"a tensor of shape {self.shape} cannot be reshaped to {shown(sizes)}",
                fix="give sizes with the same product; one may be -1",
            ) from error
        return made

    @fitting("ML421", "tensor.flatten()")
    def flatten(self, start_dim: builtins.int = 0, end_dim: builtins.int = -1) -> Self:
        """The tensor with the axes from ``start_dim`` to ``end_dim``, inclusive, as one."""
        sizes, rank = self.shape, len(self.shape)
        if not rank:
            return self.reshape(-1)
        first, last = start_dim % rank, end_dim % rank
        one = math.prod(sizes[first : last + 1])
        return self.reshape(*sizes[:first], one, *sizes[last + 1 :])

    @property
    def T(self) -> Self:  # noqa: N802 - as NumPy calls it
        """The tensor with its axes in the other order, copied."""
        made: Self = self._of(np.ascontiguousarray(self.to_ml_numpy().T))
        return made

    @property
    def mT(self) -> Any:  # noqa: N802 - as NumPy and PyTorch call it
        """The tensor with its last two axes swapped, copied."""
        return self.swapaxes(-1, -2)

    def permute(self, *dims: Any) -> Any:
        """The tensor with its axes in the order ``dims``, copied."""
        return self._permuted(dims[0] if len(dims) == 1 and not isinstance(dims[0], int) else dims)

    def transpose(self, *dims: Any) -> Any:
        """The tensor with two axes swapped, as PyTorch's; without arguments, or with one list, as
        NumPy's."""
        return self.swapaxes(*dims) if len(dims) == 2 else self._permuted(*dims)

    _permuted = _by_numpy("transpose")
    swapaxes = _by_numpy("swapaxes")
    squeeze = _by_numpy("squeeze")
    unsqueeze = _by_numpy("expand_dims")

    def ravel(self) -> Self:
        """The elements as one row."""
        return self.reshape(-1)

    def tobytes(self) -> bytes:
        """The bytes of the elements, in the order of rows."""
        found: bytes = self.to_ml_numpy().tobytes()
        return found

    def clip(self, min: Any = None, max: Any = None) -> Any:
        """The elements, none below ``min`` or above ``max``; a limit of None is none."""
        return self._clipped(min, max)

    clamp = clip
    _clipped = _by_numpy("clip")
    abs = _by_numpy("abs")
    pow = _by_numpy("power")
    round = _by_numpy("round")
    cumsum = _by_numpy("cumsum")
    argsort = _by_numpy("argsort")
    isnan = _by_numpy("isnan")
    isinf = _by_numpy("isinf")
    isfinite = _by_numpy("isfinite")

    def detach(self) -> Any:
        """The tensor itself: results have no gradients."""
        return self

    @property
    def real(self) -> Any:
        """The tensor itself: its elements are real."""
        return self

    def t(self) -> Any:
        """The tensor with its last two axes swapped; of fewer axes the tensor itself."""
        return self.mT if len(self.shape) > 1 else self

    def nelement(self) -> builtins.int:
        """The number of elements."""
        return math.prod(self.shape)

    def ndimension(self) -> builtins.int:
        """The number of axes."""
        return len(self.shape)

    # ------------------------------------------------------------ PyTorch's names of operators
    add = _binary(operator.add, "sum")
    sub = _binary(operator.sub, "difference")
    mul = _binary(operator.mul, "product")
    div = _binary(operator.truediv, "quotient")
    subtract, multiply, divide = sub, mul, div
    matmul = mm = _binary(operator.matmul, "matrix product")
    neg = negative = _unary(operator.neg, "negative")
    absolute = _by_numpy("abs")
    eq = _compare(operator.eq, "equal")
    ne = _compare(operator.ne, "not equal")
    lt = _compare(operator.lt, "less")
    le = _compare(operator.le, "less or equal")
    gt = _compare(operator.gt, "greater")
    ge = _compare(operator.ge, "greater or equal")

    # ------------------------------------------------------------ folds
    sum = _fold("sum")
    prod = _fold("prod")
    mean = _fold("mean")
    max = _fold("max")
    min = _fold("min")
    amax = _fold("amax")
    amin = _fold("amin")
    std = _fold("std")
    var = _fold("var")
    argmax = _fold("argmax")
    argmin = _fold("argmin")
    any = _fold("any")
    all = _fold("all")


elsewhere(Numbers, "tensor", INSTEAD)
untrained(Numbers, "tensor", (*NO_GRADIENTS, "is_leaf", "register_hook"))


def unchanging(kind: type) -> None:
    """Let tensors, of the class ``kind``, say for what never changes of them what makes another."""

    def refuse(name: str, fix: str) -> Callable[[Any, Any], NoReturn]:
        def setter(self: Any, value: Any) -> NoReturn:
            raise MissingNameError(
                "ML961", f"tensor.{name} = ...: the {name} of a tensor never changes", fix=fix
            )

        return setter

    for name, fix in {
        "shape": "make another: tensor.reshape(4, 2)",
        "dtype": "make another: tensor.astype('float16')",
        "device": "make another: tensor.to('cpu')",
    }.items():
        setattr(kind, name, getattr(kind, name).setter(refuse(name, fix)))

    def training(self: Any, value: Any) -> NoReturn:
        raise MissingNameError(
            "ML962",
            "tensor.requires_grad = ...: graphs compute no gradients",
            fix="train with PyTorch, then run the module with maxlab.torch.load(module, x)",
        )

    setattr(kind, "requires_grad", getattr(kind, "requires_grad").setter(training))  # noqa: B010, B009


__all__ = ["Numbers", "unchanging"]
