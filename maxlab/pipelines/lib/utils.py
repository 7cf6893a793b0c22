"""Small functions for models of pipelines."""

from __future__ import annotations

from maxlab.errors import InputError
from maxlab.interfaces import fields


def upper_bounded_default(upper_bound: int, default: int | None) -> int:
    """``default``, or ``upper_bound`` where it is None.

    Args:
        upper_bound: The largest value there may be, such as a model's longest text.
        default: What is asked for, such as ``max_length`` of a configuration.

    Raises:
        InputTypeError: ML980, one of them is no int.
        InputError: ML180 (a ValueError), ``default`` is larger than ``upper_bound``.

    Example:
        >>> upper_bounded_default(512, None), upper_bounded_default(512, 100)
        (512, 100)
    """
    fields.integer()("upper_bound", upper_bound)
    fields.optional(fields.integer())("default", default)
    if default is None:
        return upper_bound
    if default > upper_bound:
        raise InputError(
            "ML180",
            f"at most {upper_bound} expected ≠ {default} given",
            fix=f"pass {upper_bound} or less",
        )
    return default


__all__ = ["upper_bounded_default"]
