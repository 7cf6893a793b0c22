"""The parameters of the function that a graph is made from, and whether it takes the arguments."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from maxlab.errors import ArgumentTypeError, shown
from maxlab.ir import user_location


def parameter_names(forward: Callable[..., Any] | None, count: int) -> tuple[str, ...]:
    """The names of the first ``count`` parameters of ``forward``; none where it does not tell.

    Example:
        >>> parameter_names(lambda tokens, mask: tokens, 2)
        ('tokens', 'mask')
        >>> parameter_names(lambda *tensors: tensors, 2)
        ()
    """
    if forward is None:
        return ()
    try:
        found = inspect.signature(forward).parameters.values()
    except (TypeError, ValueError):  # written in C, or without a signature for another reason
        return ()
    by_place = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    names = tuple(each.name for each in found if each.kind in by_place)
    return names[:count] if len(names) >= count else ()


MADE = "Graph('g', input_types=[TensorType(DType.float32, ['n', 4])])"


def no_such_argument(names: Sequence[str]) -> ArgumentTypeError:
    """The error for arguments by name of a graph that has no ``forward`` to give them to."""
    return ArgumentTypeError(
        "ML320",
        f"Graph does not take {', '.join(names)}, and there is no forward to give them to",
        at=user_location(),
        fix=f"the types of the inputs are input_types: {MADE}",
    )


def callable_with(
    forward: Any, inputs: int, args: Sequence[Any], kwargs: dict[str, Any]
) -> Callable[..., Any]:
    """``forward``, which can be called with so many inputs, ``args`` and ``kwargs``.

    Raises:
        ArgumentTypeError: ML320, it cannot.
    """
    if callable(forward):
        call: Callable[..., Any] = forward
        try:
            signature = inspect.signature(call)
        except (TypeError, ValueError):
            return call  # written in C, say: the call will tell
        try:
            signature.bind(*[None] * inputs, *args, **kwargs)
        except TypeError as error:
            raise ArgumentTypeError(
                "ML320",
                f"forward is called with {inputs} input{'s' * (inputs != 1)}, and takes "
                f"{signature}: {error}",
                at=user_location(),
                fix=f"give a type for each parameter, as in {MADE}",
            ) from None
        return call
    raise ArgumentTypeError(
        "ML320",
        f"forward is {shown(forward)}, expected something to call with the inputs",
        at=user_location(),
        fix="Graph(name, forward, input_types), or Graph(name, input_types=[...]) as a context",
    )
