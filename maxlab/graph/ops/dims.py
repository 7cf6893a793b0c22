"""``dim=`` and ``keepdim=`` beside ``axis=``, and several axes at once, for ops of one axis."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from maxlab.errors import ArgumentTypeError, shown
from maxlab.graph.build import add as add_op
from maxlab.graph.build import as_dtype, cast, staged, tensor
from maxlab.graph.value import TensorValue, alone
from maxlab.ir import Dim, Shape
from maxlab.opset.rules import axis_of

P = ParamSpec("P")
R = TypeVar("R")
_OTHER_NAMES = frozenset({"dim", "keepdim", "keepdims"})


def axis_named(what: str, kwargs: dict[str, Any]) -> None:
    """Renames a ``dim`` in ``kwargs`` to ``axis``.

    Raises:
        ArgumentTypeError: ML966, both are given.
    """
    if "dim" in kwargs:
        if "axis" in kwargs:
            raise ArgumentTypeError(
                "ML966",
                f"{what}: axis={kwargs['axis']!r} and dim={kwargs['dim']!r} name one thing",
                fix="give one of the two",
            )
        kwargs["axis"] = kwargs.pop("dim")


def along(function: Callable[P, R]) -> Callable[P, R]:
    """``function``, an op along an ``axis``, which may be called ``dim`` too."""

    @functools.wraps(function)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        if kwargs:
            named(kwargs)
        return function(*args, **kwargs)

    @staged
    def named(kwargs: dict[str, Any]) -> None:
        axis_named(function.__name__, kwargs)

    return wrapped


def worded(**others: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """A decorator: an op whose arguments may have other names too, as PyTorch or NumPy writes them.

    Args:
        **others: By the other name, that of the op: ``worded(diagonal="k")``.
    """

    def of(function: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(function)
        def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
            for other, name in others.items():
                if other in kwargs:
                    renamed(kwargs, other, name)
            return function(*args, **kwargs)

        @staged
        def renamed(kwargs: dict[str, Any], other: str, name: str) -> None:
            if name in kwargs:
                raise ArgumentTypeError(
                    "ML966",
                    f"{function.__name__}: {name}={shown(kwargs[name])} and "
                    f"{other}={shown(kwargs[other])} name one thing",
                    fix="give one of the two",
                )
            kwargs[name] = kwargs.pop(other)

        return wrapped

    return of


def converted(function: Callable[P, R]) -> Callable[P, R]:
    """``function``, an op of one operand, which may be given the ``dtype`` of its result too: the
    operand is converted to it first."""
    op: Callable[..., R] = function

    @functools.wraps(function)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        if "dtype" in kwargs:
            return after(kwargs.pop("dtype"), *args, **kwargs)
        return function(*args, **kwargs)

    @staged
    def after(dtype: Any, x: Any, *args: Any, **kwargs: Any) -> R:
        value = tensor(x, f"{function.__name__}: the operand")
        if dtype is not None:
            value = cast(value, as_dtype(function.__name__, dtype))
        return op(value, *args, **kwargs)

    return wrapped


def paired(places: str) -> Callable[[Callable[P, TensorValue]], Callable[P, TensorValue]]:
    """A decorator: an op that PyTorch, whose word for the axis is ``dim``, gives a pair for, of
    elements and of where they are. With ``dim`` the elements refuse to be taken for that pair.

    Args:
        places: The op that tells where they are.
    """

    def of(function: Callable[P, TensorValue]) -> Callable[P, TensorValue]:
        @functools.wraps(function)
        def wrapped(*args: P.args, **kwargs: P.kwargs) -> TensorValue:
            if "dim" not in kwargs:
                return function(*args, **kwargs)
            dim: Any = kwargs["dim"]
            made = function(*args, **kwargs)
            if isinstance(dim, (tuple, list)):
                return made
            return alone(made, function.__name__, places, dim)

        return wrapped

    return of


def folding(function: Callable[P, TensorValue]) -> Callable[P, TensorValue]:
    """``function``, an op that folds an ``axis``, which then has size 1.

    The axis may be called ``dim``, be a tuple of axes, or None for all; ``keepdims=False`` or
    ``keepdim=False`` drops what was folded.
    """
    what = function.__name__
    op: Callable[..., TensorValue] = function
    # The second argument of these is another operand, and None the axis that is left out.
    two = what in ("max", "min")

    @functools.wraps(function)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> TensorValue:
        if not kwargs and (len(args) != 2 or args[1].__class__ is int):
            return function(*args, **kwargs)
        given = args[1] if len(args) == 2 and not two else -1
        axis = kwargs.get("axis", given)
        if _OTHER_NAMES.isdisjoint(kwargs) and not _is_several(axis, two):
            return function(*args, **kwargs)
        return folded(*args, **kwargs)

    @staged
    def folded(*args: Any, **kwargs: Any) -> TensorValue:
        axis_named(what, kwargs)
        kept = kwargs.pop("keepdims", True) and kwargs.pop("keepdim", True)
        if len(args) > 1 and not two:
            axis, args = args[1], (args[0], *args[2:])
        else:
            axis = -1
        axis = kwargs.pop("axis", axis)
        if two and axis is None:
            axis = -1
        x = tensor(args[0] if args else kwargs.pop("x"), f"{what}: the operand")
        if not _is_several(axis, two):
            made = op(x, *args[1:], **kwargs, axis=axis)
            return made if kept else _without(made, [axis_of(axis, x.rank, what)])
        several = range(x.rank) if axis is None else axis
        axes = sorted({axis_of(one, x.rank, what) for one in several})
        flat = merged(x, axes)
        made = op(flat, *args[1:], **{**kwargs, "axis": -1})
        shape = [Dim(1) if i in axes else dim for i, dim in enumerate(x.shape)]
        made = add_op("reshape", [made], shape=Shape(shape))
        return made if kept else _without(made, axes)

    return wrapped


def merged(x: TensorValue, axes: list[int]) -> TensorValue:
    """``x`` with ``axes`` as one, which comes last."""
    rest = [i for i in range(x.rank) if i not in axes]
    if [*rest, *axes] != list(range(x.rank)):
        x = add_op("permute", [x], dims=(*rest, *axes))
    count = Dim(1)
    for dim in x.shape[len(rest) :]:
        count = count * dim
    return add_op("reshape", [x], shape=Shape([*x.shape[: len(rest)], count]))


def _is_several(axis: object, two: bool) -> bool:
    return isinstance(axis, (tuple, list)) or (axis is None and not two)


def _without(x: TensorValue, axes: list[int]) -> TensorValue:
    shape = Shape([dim for i, dim in enumerate(x.shape) if i not in axes])
    return add_op("reshape", [x], shape=shape)


__all__ = ["along", "axis_named", "converted", "folding", "merged", "paired", "worded"]
