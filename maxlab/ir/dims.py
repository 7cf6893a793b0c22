"""Tensor dimensions: a number, a name, or a polynomial over names in canonical form."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from typing import Any, NoReturn, Union

import numpy as np

from maxlab.errors import (
    ArgumentError,
    ArgumentTypeError,
    DimDivisionError,
    MaxlabError,
    ParseError,
    ShapeError,
    elsewhere,
    shown,
)
from maxlab.ir.dim_numbers import AsNumber
from maxlab.ir.dimtext import read_poly
from maxlab.ir.poly import Poly

LARGEST = 2**63 - 1
"""The largest size, and the most bytes of a tensor: kernels, files and DLPack count in int64."""

DimLike = Union[int, str, "Dim", "np.integer[Any]"]


class POC(enum.Enum):
    """The operators of parametric dim expressions (MAX calls them *param operator codes*)."""

    add = "+"
    sub = "-"
    mul = "*"
    mul_no_wrap = "*nw"
    div = "//"
    neg = "neg"


class Dim(AsNumber):
    """A tensor dimension: static, symbolic or algebraic; ``Dim(value)`` picks the kind.

    Two dims are equal when they are the same polynomial: ``(x + 1) * 2 == x * 2 + 2``. Equal dims
    hash equal. Only ``+ - * //`` and negation exist; ``//`` rounds towards minus infinity.

    Args:
        value: A non-boolean integer, an identifier, or another dim.

    Raises:
        ArgumentTypeError: Any other type, such as float or None.
        ArgumentError: A name that is not an identifier.
        ShapeError: ML220, a number of more than 63 bits.

    Example:
        >>> from maxlab.graph import Dim
        >>> print(Dim("batch") * 5)
        batch * 5
        >>> -Dim("x") - 4 == -(Dim("x") + 4)
        True
    """

    __slots__ = ("_poly",)
    _poly: Poly

    def __new__(cls, value: DimLike) -> Dim:
        if cls is not Dim:
            return super().__new__(cls)
        if isinstance(value, Dim):
            return value
        if isinstance(value, str):
            return super().__new__(SymbolicDim)
        if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
            return super().__new__(StaticDim)
        raise _bad_dim(value)

    @property
    def poly(self) -> Poly:
        """The polynomial of this dim."""
        return self._poly

    @property
    def parameters(self) -> Iterable[SymbolicDim]:
        """The symbolic dims on which this dim depends, in order of first appearance."""
        return [SymbolicDim(name) for name in self._poly.symbols()]

    def evaluate(self, env: Mapping[str, int]) -> int:
        """The size when every name has the size that ``env`` gives it."""
        return self._poly.evaluate(env)

    def to_mlir(self) -> Dim:
        """The attribute of this dim, which is the dim itself; its ``str`` is the text in a type."""
        return self

    @staticmethod
    def from_mlir(attr: Dim | str | int) -> Dim:
        """The dim that ``attr`` (a dim, or its text in a type) stands for.

        Raises:
            ParseError: ML351, text that is not a dim expression.
        """
        return parse_dim(attr) if isinstance(attr, str) else Dim(attr)

    # ------------------------------------------------------------ arithmetic
    def _other(self, other: object) -> Poly | None:
        if isinstance(other, Dim):
            return other._poly
        if isinstance(other, (str, int, np.integer)) and not isinstance(other, bool):
            return Dim(other)._poly
        if isinstance(other, (float, np.floating)):
            raise _no_whole(f"{self} with {shown(other)}")
        return None

    def __add__(self, other: DimLike) -> Dim:
        poly = self._other(other)
        return NotImplemented if poly is None else from_poly(self._poly + poly)

    def __sub__(self, other: DimLike) -> Dim:
        poly = self._other(other)
        return NotImplemented if poly is None else from_poly(self._poly - poly)

    def __mul__(self, other: DimLike) -> Dim:
        poly = self._other(other)
        return NotImplemented if poly is None else from_poly(self._poly * poly)

    def __floordiv__(self, other: DimLike) -> Dim:
        poly = self._other(other)
        return NotImplemented if poly is None else _divided(self._poly, poly)

    def __radd__(self, other: DimLike) -> Dim:
        return self + other

    def __rmul__(self, other: DimLike) -> Dim:  # type: ignore[misc]  # str * int means another thing
        return self * other

    def __rsub__(self, other: DimLike) -> Dim:
        poly = self._other(other)
        return NotImplemented if poly is None else from_poly(poly - self._poly)

    def __rfloordiv__(self, other: DimLike) -> Dim:
        poly = self._other(other)
        return NotImplemented if poly is None else _divided(poly, self._poly)

    def __neg__(self) -> Dim:
        return from_poly(-self._poly)

    def __truediv__(self, other: object) -> NoReturn:
        raise _no_whole(f"{self} / {shown(other)}")

    def __rtruediv__(self, other: object) -> NoReturn:
        raise _no_whole(f"{shown(other)} / {self}")

    # ------------------------------------------------------------ identity
    def __eq__(self, other: object) -> bool:
        if isinstance(other, Dim):
            return self._poly == other._poly
        if isinstance(other, str):
            return isinstance(self, SymbolicDim) and self.name == other
        if isinstance(other, (int, np.integer)) and not isinstance(other, bool):
            return isinstance(self, StaticDim) and self.dim == other
        return NotImplemented

    def __hash__(self) -> int:
        if isinstance(self, StaticDim):
            return hash(self.dim)
        if isinstance(self, SymbolicDim):
            return hash(self.name)
        return hash(self._poly)

    def __lt__(self, other: object) -> bool:
        raise _no_order(self, other)

    __le__ = __gt__ = __ge__ = __lt__

    def __int__(self) -> int:
        raise ArgumentTypeError(
            "ML391",
            f"int() of the dim {self}, whose size is not known while the graph is built",
            fix="use the dim itself in shapes and in ops.range; only static dims are numbers",
        )

    def __index__(self) -> int:
        return int(self)

    def __str__(self) -> str:
        return str(self._poly)

    def __repr__(self) -> str:
        return self._poly.source(lambda name: f"Dim({name!r})", number=lambda n: f"Dim({n})")

    def __copy__(self) -> Dim:
        return self

    def __deepcopy__(self, memo: Any) -> Dim:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return (parse_dim, (str(self),))


class StaticDim(Dim):
    """A dimension of known size.

    Example:
        >>> int(StaticDim(5)) + 1
        6
    """

    __slots__ = ("dim",)
    dim: int

    def __new__(cls, value: int | Dim) -> StaticDim:
        return object.__new__(cls)

    def __init__(self, value: int | Dim) -> None:
        if isinstance(value, StaticDim):
            value = value.dim
        if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
            raise _bad_dim(value)
        self.dim = int(value)
        if not -LARGEST <= self.dim <= LARGEST:
            raise ShapeError(
                "ML220",
                f"a dim is a number of up to 63 bits, got {shown(self.dim)}",
                fix="look at what it is computed from; no memory has so many elements",
            )
        self._poly = Poly.constant(self.dim)

    def __int__(self) -> int:
        return self.dim

    def __format__(self, spec: str) -> str:
        return format(self.dim, spec)

    def __repr__(self) -> str:
        return f"Dim({self.dim})"

    def _order(self, other: object) -> int:
        if isinstance(other, StaticDim):
            return other.dim
        if isinstance(other, (int, np.integer)):
            return int(other)
        raise _no_order(self, other)

    def __lt__(self, other: object) -> bool:
        return self.dim < self._order(other)

    def __le__(self, other: object) -> bool:
        return self.dim <= self._order(other)

    def __gt__(self, other: object) -> bool:
        return self.dim > self._order(other)

    def __ge__(self, other: object) -> bool:
        return self.dim >= self._order(other)


class SymbolicDim(Dim):
    """A dimension known by name; the same name has one size in a call of the graph.

    Args:
        value: An identifier.
    """

    __slots__ = ("name",)
    name: str

    def __new__(cls, value: str | Dim) -> SymbolicDim:
        return object.__new__(cls)

    def __init__(self, value: str | Dim) -> None:
        if isinstance(value, SymbolicDim):
            value = value.name
        if not isinstance(value, str):
            raise _bad_dim(value)
        if not value.isidentifier():
            raise ArgumentError(
                "ML392",
                f"{shown(value)} cannot name a dim: a name is letters, digits and '_', not "
                "starting with a digit",
                fix="use a name such as 'batch' or 'seq_len'",
            )
        self.name = value
        self._poly = Poly.symbol(value)

    def __repr__(self) -> str:
        return f"Dim({self.name!r})"


class AlgebraicDim(Dim):
    """A dimension given by an expression over symbolic dims, kept in canonical form."""

    __slots__ = ()

    def __new__(cls, value: Dim | Poly) -> AlgebraicDim:
        return object.__new__(cls)

    def __init__(self, value: Dim | Poly) -> None:
        if isinstance(value, Poly):
            self._poly = value
        elif isinstance(value, Dim):
            self._poly = value.poly
        else:
            raise _bad_dim(value)

    @property
    def attr(self) -> Poly:
        """The canonical expression."""
        return self._poly

    @classmethod
    def apply(cls, op: POC, *operands: DimLike) -> Dim:
        """The dim ``op(*operands)``, simplified; it need not stay algebraic.

        Raises:
            ArgumentTypeError: ``op`` is not a ``POC``, or the number of operands does not fit.
        """
        dims = [Dim(operand) for operand in operands]
        if op is POC.neg and len(dims) == 1:
            return -dims[0]
        if op is POC.sub and len(dims) == 2:
            return dims[0] - dims[1]
        if op is POC.div and len(dims) == 2:
            return dims[0] // dims[1]
        if op in (POC.add, POC.mul, POC.mul_no_wrap) and dims:
            total = dims[0]
            for dim in dims[1:]:
                total = total + dim if op is POC.add else total * dim
            return total
        raise ArgumentTypeError(
            "ML393", f"no dim operator {op} with {len(dims)} operands", fix="use a member of POC"
        )


def from_poly(poly: Poly) -> Dim:
    """The dim of ``poly``: static, symbolic or algebraic, whichever it is."""
    if poly.is_constant:
        return StaticDim(poly.value)
    if len(poly.terms) == 1 and poly.terms[0][1] == 1:
        monomial = poly.terms[0][0]
        if len(monomial) == 1 and monomial[0][1] == 1 and isinstance(monomial[0][0], str):
            return SymbolicDim(monomial[0][0])
    return AlgebraicDim(poly)


def _divided(dividend: Poly, divisor: Poly) -> Dim:
    """``dividend // divisor``.

    Raises:
        DimDivisionError: ML224, the divisor is 0.
    """
    try:
        return from_poly(dividend.floordiv(divisor))
    except ZeroDivisionError:
        raise DimDivisionError(
            "ML224",
            f"the dim {from_poly(dividend)} is divided by zero",
            fix="divide by a dim that is not 0",
        ) from None


def parse_dim(text: str) -> Dim:
    """The dim that ``text`` spells, with ``//`` or ``floordiv`` for division.

    Raises:
        ParseError: ML351, anything but names, integers, ``+ - * //`` and parentheses.
    """
    return from_poly(read_poly(text))


def mlir_text(dim: Dim) -> str:
    """The text of ``dim`` inside an MLIR type; ``//`` would begin a comment there."""
    return dim.poly.source(str, "floordiv")


def _bad_dim(value: object) -> ArgumentTypeError:
    return ArgumentTypeError(
        "ML394",
        f"a dim is an int, a name or another dim, not {type(value).__name__} {shown(value)}",
        fix="pass an int such as 4, or a name such as 'batch'",
    )


def _no_order(left: object, right: object) -> ArgumentTypeError:
    return ArgumentTypeError(
        "ML395",
        f"the dims {left} and {right} have no order while the graph is built",
        fix="ask for equality, x.shape[0] == 1, or rebind the symbolic dim to a static size",
    )


def _no_whole(what: str) -> ArgumentTypeError:
    return ArgumentTypeError(
        "ML393",
        f"{what} is not a whole number, and a dim is one",
        fix="divide by //, as in x.shape[0] // 2; ops.arange(x.shape[0]) counts to a dim",
    )


class Shape(list[Dim]):
    """The dims of a tensor, a list.

    Args:
        dims: Ints, names and dims.

    Raises:
        ArgumentTypeError: ML744, not a sequence of dims.

    Example:
        >>> print(Shape(["batch", 4]))
        [batch, 4]
    """

    def __init__(self, dims: Iterable[DimLike] = ()) -> None:
        if isinstance(dims, (str, bytes)) or not isinstance(dims, Iterable):
            # The letters of a name would be dims of their own.
            raise ArgumentTypeError(
                "ML744",
                f"a shape is a sequence of ints, names and dims, got {shown(dims)}",
                fix=f"write [{shown(dims)}]",
            )
        try:
            listed = list(dims)
        except MaxlabError:
            raise
        except Exception as error:
            raise ArgumentTypeError(
                "ML744",
                f"a shape is a sequence of ints, names and dims, and the dims of {shown(dims)} "
                f"cannot be read: {type(error).__name__}: {shown(error)}",
                fix="pass a list or a tuple",
            ) from error
        # Not Dim(dim) of a dim: Python would make the same one ready again.
        super().__init__([dim if isinstance(dim, Dim) else Dim(dim) for dim in listed])

    @property
    def rank(self) -> int:
        """The number of dims."""
        return len(self)

    def __add__(self, other: Any) -> Any:
        """The dims of both, as a list; with a tuple, as those of NumPy and PyTorch are, a shape."""
        return Shape([*self, *other]) if isinstance(other, tuple) else super().__add__(other)

    def __radd__(self, other: Any) -> Any:
        return Shape([*other, *self]) if isinstance(other, tuple) else NotImplemented

    @staticmethod
    def is_static(shape: Shape) -> bool:
        """Whether every dim of ``shape`` is a number."""
        return all(isinstance(dim, StaticDim) for dim in shape)

    @property
    def static_dims(self) -> list[int]:
        """The static dims as integers; the others are left out."""
        return [dim.dim for dim in self if isinstance(dim, StaticDim)]

    @property
    def parameters(self) -> Iterable[SymbolicDim]:
        """The symbolic dims on which the shape depends, each once."""
        return list(dict.fromkeys(p for dim in self for p in dim.parameters))

    @property
    def num_elements(self) -> Dim:
        """The product of the dims."""
        total = Poly.constant(1)
        for dim in self:
            total = total * dim.poly
        return from_poly(total)

    def to_mlir(self) -> str:
        """The text of the shape inside of a type, such as ``[batch, 4]``."""
        return "[" + ", ".join(mlir_text(dim) for dim in self) + "]"

    @classmethod
    def from_mlir(cls, attr: Shape | str) -> Shape:
        """The shape that ``attr`` (a shape, or its text) stands for.

        Raises:
            ParseError: ML351, text that is not a shape.
        """
        if not isinstance(attr, str):
            return cls(attr)
        text = attr.strip()
        if not (text.startswith("[") and text.endswith("]")):
            raise ParseError("ML351", f"{attr!r} is not a shape", fix="write [dim, dim, …]")
        inner = text[1:-1].strip()
        return cls(parse_dim(part) for part in inner.split(",")) if inner else cls()

    def __eq__(self, other: object) -> bool:
        # A list or tuple of ints and names is equal when its dims are.
        return super().__eq__(list(other) if isinstance(other, tuple) else other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def numel(self) -> Dim:
        """`num_elements`, as PyTorch calls it."""
        return self.num_elements

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(tuple(self))

    def __str__(self) -> str:
        return "[" + ", ".join(map(str, self)) + "]"


elsewhere(Dim, "dim", {"value": "dim.dim of a static one; of others only a run knows it"})
elsewhere(Shape, "shape", {"ndim": "len(x.shape), x.ndim", "size": "x.shape.numel()"})
