"""What users give as the outputs of a graph."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any

from maxlab.graph.build import (
    constant_array,
    is_array,
    is_number,
    is_weak,
    own_copy,
    tensor,
    to_numpy,
)
from maxlab.graph.value import Value
from maxlab.ir import DeviceRef, Dim, Op, Shape, user_frame, user_location


def listed(made: Any) -> tuple[Any, ...]:
    """What a function of the user returned, as a tuple: of nothing, one value, or several."""
    if made is None:
        return ()
    one = isinstance(made, (Value, Dim, Shape)) or is_number(made) or is_array(made)
    return (made,) if one or not isinstance(made, Iterable) else tuple(made)


def as_outputs(outputs: Iterable[Any]) -> list[Value]:
    """``outputs`` as values: numbers and arrays become constants, on the CPU.

    Raises:
        ArgumentTypeError: ML317, an output that is no tensor.
    """
    values: list[Value] = []
    for x in outputs:
        if isinstance(x, Value):
            values.append(x)
        elif is_weak(x):
            values.append(constant_array(own_copy(to_numpy(x), x), DeviceRef.CPU()))
        else:
            values.append(tensor(x, "an output"))
    return values


def warn_replaced(name: str, old: Op) -> None:
    """Warn, at the user's line, that ``old``, the output of the graph ``name``, is replaced."""
    frame = user_frame()
    warnings.warn_explicit(
        f"the graph {name!r} had an output, set at {old.loc or 'an unknown place'}; "
        f"the one of {user_location() or 'this call'} replaces it. Give all outputs at "
        "once: graph.output(x, y)",
        UserWarning,
        frame.f_code.co_filename if frame is not None else "<graph>",
        frame.f_lineno if frame is not None else 1,
    )


__all__ = ["as_outputs", "listed", "warn_replaced"]
