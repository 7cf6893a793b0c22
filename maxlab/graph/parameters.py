"""What the function that a graph is made from calls its arguments."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any


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
