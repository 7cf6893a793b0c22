"""The operators of tensors of a graph: each adds an op."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

from maxlab.errors import ArgumentError, shown
from maxlab.graph import refusals
from maxlab.ir import TensorType, user_location
from maxlab.opset.builder import builder, current

S = TypeVar("S")
T = TypeVar("T")
"""The class of the results: ``TensorValue``."""
Like = TypeVar("Like")
"""The type of what an operator takes beside a tensor: ``TensorValueLike``."""


def do(name: str, *args: Any, **kwargs: Any) -> Any:
    """The result of the function ``name`` of ``graph.ops`` on ``args``, in the builder in use."""
    b = current(*args)
    if b is None:
        for x in args:
            if isinstance(x, Operators):
                x._ir()  # a weight that has no graph says so, before an op that it meets does
        b = builder(what=f"ops.{name}")
    return getattr(b.ops, name)(*args, **kwargs)


class Operators(Generic[T, Like]):
    """The operators of ``TensorValue``. ``==`` is one, so tensors are no keys."""

    __slots__ = ()
    if TYPE_CHECKING:

        @property
        def type(self) -> TensorType:
            """The type."""

        def _ir(self) -> Any: ...

    def _op(self, name: str, *operands: Any) -> T:
        made: T = do(name, *operands)
        return made

    def _elementwise(self, name: str, what: str, lhs: Any, rhs: Any) -> Any:
        """The result of the operator ``what``, whose function is not one of ``graph.ops``."""
        return getattr(builder(lhs, rhs, what=what).ops.elementwise, name)(lhs, rhs)

    def __add__(self, rhs: Like) -> T:
        return self._op("add", self, rhs)

    def __radd__(self, lhs: Like) -> T:
        return self._op("add", lhs, self)

    def __sub__(self, rhs: Like) -> T:
        return self._op("sub", self, rhs)

    def __rsub__(self, lhs: Like) -> T:
        return self._op("sub", lhs, self)

    def __mul__(self, rhs: Like) -> T:
        return self._op("mul", self, rhs)

    def __rmul__(self, lhs: Like) -> T:
        return self._op("mul", lhs, self)

    def __truediv__(self, rhs: Like) -> T:
        return self._op("div", self, rhs)

    def __rtruediv__(self, lhs: Like) -> T:
        return self._op("div", lhs, self)

    def __floordiv__(self, rhs: Like) -> T:
        made: T = self._elementwise("floordiv", "//", self, rhs)
        return made

    def __rfloordiv__(self, lhs: Like) -> T:
        made: T = self._elementwise("floordiv", "//", lhs, self)
        return made

    def __mod__(self, rhs: Like) -> T:
        return self._op("mod", self, rhs)

    def __rmod__(self, lhs: Like) -> T:
        return self._op("mod", lhs, self)

    def __divmod__(self, rhs: Like) -> tuple[T, T]:
        quotient, remainder = self._elementwise("divmod", "divmod", self, rhs)
        return quotient, remainder

    def __rdivmod__(self, lhs: Like) -> tuple[T, T]:
        quotient, remainder = self._elementwise("divmod", "divmod", lhs, self)
        return quotient, remainder

    def __pow__(self, rhs: Like, modulo: Like | None = None) -> T:
        if isinstance(rhs, int) and rhs < 0 and self.type.dtype.is_integral():
            raise refusals.no_reciprocal(rhs, self.type.dtype)
        made = self._op("pow", self, rhs)
        return made if modulo is None else self._op("mod", made, modulo)

    def __rpow__(self, lhs: Like) -> T:
        return self._op("pow", lhs, self)

    def __matmul__(self, rhs: Like) -> T:
        return self._op("matmul", self, rhs)

    def __rmatmul__(self, lhs: Like) -> T:
        return self._op("matmul", lhs, self)

    def __neg__(self) -> T:
        return self._op("negate", self)

    def __pos__(self: S) -> S:
        return self

    def __abs__(self) -> T:
        return self._op("abs", self)

    def __round__(self, ndigits: int | None = None) -> T:
        if ndigits is not None and not (isinstance(ndigits, int) and ndigits == 0):
            digits = shown(ndigits)
            raise ArgumentError(
                "ML328",
                f"round() of a tensor takes no digits, got {digits}",
                at=user_location(),
                fix=f"write round(x * 10**{digits}) / 10**{digits}",
            )
        return self._op("round", self)

    def __invert__(self) -> T:
        return self._op("logical_not", self)

    def __and__(self, rhs: Like) -> T:
        return self._op("logical_and", self, rhs)

    def __rand__(self, lhs: Like) -> T:
        return self._op("logical_and", lhs, self)

    def __or__(self, rhs: Like) -> T:
        return self._op("logical_or", self, rhs)

    def __ror__(self, lhs: Like) -> T:
        return self._op("logical_or", lhs, self)

    def __xor__(self, rhs: Like) -> T:
        return self._op("logical_xor", self, rhs)

    def __rxor__(self, lhs: Like) -> T:
        return self._op("logical_xor", lhs, self)

    def __eq__(self, rhs: Like | None) -> Any:  # type: ignore[override]
        return False if rhs is None else self._op("equal", self, rhs)

    def __ne__(self, rhs: Like | None) -> Any:  # type: ignore[override]
        return True if rhs is None else self._op("not_equal", self, rhs)

    def __gt__(self, rhs: Like) -> T:
        return self._op("greater", self, rhs)

    def __ge__(self, rhs: Like) -> T:
        return self._op("greater_equal", self, rhs)

    def __lt__(self, rhs: Like) -> T:
        return self._op("greater", rhs, self)

    def __le__(self, rhs: Like) -> T:
        return self._op("greater_equal", rhs, self)

    def __hash__(self) -> int:
        raise refusals.no_key()
