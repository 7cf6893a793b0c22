"""Less usual methods of tensors of a graph, by the names and arguments of PyTorch and NumPy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from maxlab.graph import refusals
from maxlab.habits import fitting
from maxlab.ir import Dim, TensorType, user_location
from maxlab.opset.builder import builder, current


def ops_for(x: Any, name: str) -> Any:
    """The functions of the builder in use, for the op ``name`` of ``x``."""
    b = current(x)
    if b is None:
        x._ir()  # a weight that has no graph says so
        b = builder(what=f"ops.{name}")
    return b.ops


def op_method(name: str) -> Callable[..., Any]:
    """A method that is the op ``name``."""

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return getattr(ops_for(self, name), name)(self, *args, **kwargs)

    method.__name__ = name
    method.__doc__ = f"The result of ``ops.{name}`` on the tensor; see there."
    return method


def _numpys(name: str) -> Callable[..., Any]:
    """A method that is the function ``name`` of NumPy on a tensor of the graph."""
    function = getattr(np, name)

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return function(self, *args, **kwargs)

    method.__name__ = name
    method.__doc__ = f"What ``np.{name}`` adds to the graph."
    return method


def several(given: tuple[Any, ...]) -> Any:
    """The sizes or dims that a method was given: one by one, or as one list."""
    if len(given) == 1 and not isinstance(given[0], (int, str, Dim, np.integer)):
        return given[0]
    return given


class Synonyms:
    """More methods of ``TensorValue`` that NumPy's arrays and PyTorch's tensors have too."""

    __slots__ = ()
    if TYPE_CHECKING:

        @property
        def type(self) -> TensorType:
            """The type."""

    # ------------------------------------------------------------ elements
    negative = op_method("negative")
    absolute = op_method("absolute")
    multiply = op_method("multiply")
    subtract = op_method("subtract")
    divide = op_method("divide")
    true_divide = op_method("true_divide")
    floor_divide = op_method("floor_divide")
    remainder = op_method("remainder")
    logical_not = op_method("logical_not")
    logical_and = op_method("logical_and")
    logical_or = op_method("logical_or")
    logical_xor = op_method("logical_xor")
    greater = op_method("greater")
    greater_equal = op_method("greater_equal")
    less = op_method("less")
    less_equal = op_method("less_equal")
    not_equal = op_method("not_equal")
    inner = op_method("inner")
    outer = op_method("outer")
    mv = op_method("matmul")
    tan = op_method("tan")
    sinh = op_method("sinh")
    cosh = op_method("cosh")
    acos = op_method("acos")
    arccos = op_method("acos")
    atanh = op_method("atanh")
    arctanh = op_method("atanh")
    sgn = op_method("sign")
    fix = op_method("trunc")
    rint = op_method("rint")
    hypot = _numpys("hypot")
    isclose = _numpys("isclose")
    leaky_relu = op_method("leaky_relu")
    elu = op_method("elu")
    relu6 = op_method("relu6")
    mish = op_method("mish")
    softplus = op_method("softplus")
    hardswish = op_method("hardswish")

    def clamp_min(self, min: Any) -> Any:
        """The elements, none below ``min``; see ``ops.clip``."""
        return ops_for(self, "clip").clip(self, min=min)

    def clamp_max(self, max: Any) -> Any:
        """The elements, none above ``max``; see ``ops.clip``."""
        return ops_for(self, "clip").clip(self, max=max)

    @fitting("ML330", "x.round()", user_location)
    def round(self, decimals: int = 0) -> Any:
        """The elements rounded to whole numbers, halves to even; see ``ops.round``.

        Raises:
            ArgumentError: ML328, ``decimals`` is not 0.
        """
        return round(self, decimals)  # type: ignore[call-overload]  # tensors have __round__

    # ------------------------------------------------------------ places
    moveaxis = op_method("moveaxis")
    movedim = op_method("moveaxis")
    swapdims = op_method("swapaxes")
    expand_dims = op_method("expand_dims")
    fliplr = _numpys("fliplr")
    flipud = _numpys("flipud")
    rot90 = _numpys("rot90")
    diag = _numpys("diag")
    diagonal = _numpys("diagonal")
    trace = _numpys("trace")
    index_select = op_method("index_select")
    take = op_method("take")
    tril = op_method("tril")
    triu = op_method("triu")
    topk = op_method("topk")
    roll = op_method("roll")
    repeat_interleave = op_method("repeat_interleave")
    unbind = op_method("unbind")
    squeeze = op_method("squeeze")

    @fitting("ML330", "x.T.ravel(), which goes along the columns, or x.ravel()", user_location)
    def ravel(self) -> Any:
        """The elements as one row; see ``ops.ravel``."""
        return ops_for(self, "ravel").ravel(self)

    def flip(self, *dims: Any, **named: Any) -> Any:
        """The tensor backwards along ``dims``, one or several, or along all; see ``ops.flip``."""
        return ops_for(self, "flip").flip(self, *((several(dims),) if dims else ()), **named)

    def tile(self, *repeats: Any) -> Any:
        """The tensor so many times along each of its last dims, as NumPy's and PyTorch's ``tile``;
        see ``ops.tile``."""
        given = several(repeats)
        return np.tile(self, given if isinstance(given, int) else tuple(given))  # type: ignore[call-overload]

    @fitting(
        "ML330",
        "x.repeat_interleave(2, dim=1) for NumPy's, which repeats each element, or x.repeat(2, 1)",
        user_location,
    )
    def repeat(self, *sizes: Any) -> Any:
        """The tensor so many times along each dim, as PyTorch's ``repeat``; see ``ops.tile``.

        Raises:
            ArgumentError: ML308, fewer sizes than dims.
        """
        counts = list(several(sizes))
        if len(counts) < self.type.rank:
            raise refusals.no_repeats(counts, self.type.rank)
        return self.tile(*counts)

    @fitting("ML330", "x.select(0, 1), or x[1]", user_location)
    def select(self, dim: int, index: Any) -> Any:
        """The part at ``index`` along ``dim``, without that dim; see ``ops.slice_tensor``."""
        before: list[Any] = [slice(None)] * (dim % self.type.rank)
        return ops_for(self, "slice_tensor").slice_tensor(self, [*before, index])

    @fitting("ML330", "x.gather(1, i)", user_location)
    def gather(self, dim: int, index: Any) -> Any:
        """For each index the element there along ``dim``, as PyTorch's ``gather``; see
        ``ops.take_along_axis``."""
        return ops_for(self, "take_along_axis").take_along_axis(self, index, dim)

    def tensor_split(self, sections: int | Sequence[int], dim: int = 0) -> Any:
        """As many parts along ``dim`` as ``sections``, or cut at these places, as PyTorch's
        ``tensor_split``."""
        value: Any = self  # NumPy asks its __array_function__
        return np.array_split(value, sections, dim)

    # ------------------------------------------------------------ order
    @fitting("ML330", "x.argsort(dim=1, descending=True)", user_location)
    def argsort(
        self,
        dim: int | None = -1,
        descending: bool = False,
        stable: bool = True,
        *,
        axis: int | None = -1,
    ) -> Any:
        """The places of the elements in order along ``dim``, or ``axis``, as NumPy's and PyTorch's
        ``argsort``; equal elements keep their order.

        Raises:
            AxisError: ML303, ``dim`` is out of range.
            ArgumentTypeError: ML302, the size of ``dim`` is not known.
        """
        along = axis if dim == -1 else dim
        if not descending:
            numpys: Any = self  # NumPy asks its __array_function__
            return np.argsort(numpys, along)
        value = self if along is not None else self.ravel()
        along = -1 if along is None else along
        return ops_for(self, "top_k").top_k(value, value.type.shape[along], along)[1]

    # ------------------------------------------------------------ facts
    def nelement(self) -> Any:
        """The number of elements: an int, or a dim of the graph."""
        return self.numel()  # type: ignore[attr-defined]  # of `Methods`

    def ndimension(self) -> int:
        """The number of dims."""
        return self.type.rank


__all__ = ["Synonyms", "op_method", "ops_for", "several"]
