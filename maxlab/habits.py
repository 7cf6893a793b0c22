"""Habits of NumPy and PyTorch: calls that are written in two ways, lists that are taken for one
tensor, and calls that nearly fit.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ClassVar, NoReturn, ParamSpec, TypeVar

from maxlab.errors import ArgumentTypeError, Location, MaxlabError, OutputsError, shown

P = ParamSpec("P")
R = TypeVar("R")


class Elements(int):
    """A number of elements: an int, as NumPy's ``x.size``; ``x.size()`` is the shape, as
    PyTorch's."""

    shape: Any

    def __call__(self, dim: int | None = None) -> Any:
        """The shape, or the size of ``dim``."""
        return self.shape if dim is None else self.shape[dim]


class Told(int):
    """A bool or an int that may be called, and then is itself: PyTorch's methods of this name."""

    def __call__(self) -> Any:
        """The bool or int itself."""
        return self

    def __repr__(self) -> str:
        return int.__repr__(self)


class _Yes(Told):
    """True, that may be called."""

    def __repr__(self) -> str:
        return "True" if self else "False"

    __str__ = __repr__


YES, NO = _Yes(True), _Yes(False)
"""True and False, that may be called."""


class Several(list[Any]):
    """A list of tensors, also where there is one. What is meant for one of them, arithmetic and
    indices of several numbers, raises ML977."""

    __slots__ = ()
    told: ClassVar[str] = "here are"
    """The words before the number of entries, at the begin of a sentence about the list."""
    name: ClassVar[str] = "tensors"
    """The name of the list in code."""
    more: ClassVar[str] = ""
    """Where they are described."""

    def _refusal(self, what: str, fix: str) -> OutputsError:
        count = f"{len(self)} tensor" + "s" * (len(self) != 1)
        return OutputsError("ML977", f"{self.told} {count}, {what}", fix=fix)

    def __getitem__(self, index: Any) -> Any:
        try:
            return super().__getitem__(index)
        except (TypeError, IndexError):
            raise self._refusal(
                f"and it has no [{shown(index)}]",
                f"take one first: {self.name}[0][0, 0]"
                if isinstance(index, tuple)
                else f"they are numbered from {self.name}[0] on{self.more}",
            ) from None

    def __add__(self, other: Any) -> Any:
        return super().__add__(other) if isinstance(other, list) else _refusing("+")(self, other)

    def __radd__(self, other: Any) -> Any:
        # NotImplemented lets a list be added to, and extended in place, as by any list.
        return NotImplemented if isinstance(other, list) else _refusing("+")(self, other)

    def __float__(self) -> NoReturn:
        raise self._refusal(
            "which is no number", f"take an element of one: {self.name}[0][0, 0].item()"
        )

    __int__ = __index__ = __float__

    def __lt__(self, other: Any) -> Any:
        return super().__lt__(other) if isinstance(other, list) else _refusing("<")(self, other)

    def __gt__(self, other: Any) -> Any:
        return super().__gt__(other) if isinstance(other, list) else _refusing(">")(self, other)


def _refusing(sign: str) -> Callable[..., Any]:
    def method(self: Several, *others: object) -> NoReturn:
        other = f" with {type(others[0]).__name__}" if others else ""
        raise self._refusal(
            f"and a list has no {sign}{other}", f"take one first: {self.name}[0] + 1"
        )

    return method


# ``*`` would repeat the list.
for _sign, _names in {
    "*": ("mul", "rmul"), "-": ("sub", "rsub", "neg"), "/": ("truediv", "rtruediv"),
    "@": ("matmul", "rmatmul"), "**": ("pow", "rpow"),
}.items():  # fmt: skip
    for _name in _names:
        setattr(Several, f"__{_name}__", _refusing(_sign))


def is_count(value: object, least: int) -> bool:
    """Whether ``value`` is an int, of ``least`` or more."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def fitting(
    code: str, fix: str, where: Callable[[], Location | None] | None = None
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """A decorator: arguments that the function does not take, or that are missing, raise the error
    ``code``, and not the TypeError of Python. A call that fits costs nothing.

    Args:
        code: The code of the error.
        fix: What to write instead.
        where: Gives the place that the error names, which is the user's line.

    Example:
        >>> @fitting("ML421", "half(8)")
        ... def half(number: int) -> int:
        ...     return number // 2
        >>> try:
        ...     half()
        ... except ArgumentTypeError as error:
        ...     print(error.what, error.fix, sep="; ")
        half() missing 1 required positional argument: 'number'; write half(8)
    """

    def of(function: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            try:
                return function(*args, **kwargs)
            except TypeError as error:
                here = error.__traceback__
                if isinstance(error, MaxlabError) or (here is not None and here.tb_next):
                    raise  # it comes from within
                at = None if where is None else where()
                said = str(error).removeprefix("Methods.").removeprefix("TensorValue.")
                raise ArgumentTypeError(code, said, at=at, fix=f"write {fix}") from None

        return call

    return of


__all__ = ["NO", "YES", "Elements", "Several", "Told", "fitting", "is_count"]
