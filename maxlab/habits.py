"""What NumPy and PyTorch write in two ways, and calls that nearly fit: `Elements`, `fitting`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from maxlab.errors import ArgumentTypeError, Location, MaxlabError

P = ParamSpec("P")
R = TypeVar("R")


class Elements(int):
    """A number of elements: an int, as NumPy's ``x.size``; ``x.size()`` is the shape, as
    PyTorch's."""

    shape: Any

    def __call__(self, dim: int | None = None) -> Any:
        """The shape, or the size of ``dim``."""
        return self.shape if dim is None else self.shape[dim]


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


__all__ = ["Elements", "fitting", "is_count"]
