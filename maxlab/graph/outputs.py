"""The inputs of a graph as users hold them, and what they give as its outputs."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any

from maxlab.errors import ArgumentTypeError, elsewhere
from maxlab.graph.build import (
    constant_array,
    is_array,
    is_number,
    is_weak,
    own_copy,
    tensor,
    to_numpy,
)
from maxlab.graph.value import TensorValue, Value
from maxlab.habits import Several
from maxlab.ir import DeviceRef, Dim, Op, Shape, user_frame, user_location


class Inputs(Several):
    """The inputs of a graph: a list, also where there is one."""

    __slots__ = ()
    told = "the inputs of a graph are a list, here of"
    name = "graph.inputs"
    more = ", in the order of the input types"


elsewhere(
    Inputs,
    "the list of inputs",
    {
        name: f"of the first input: graph.inputs[0].{name}"
        for name in dir(TensorValue)
        if not name.startswith("_") and not hasattr(list, name)
    },
    lambda name: "inputs have numbers: graph.inputs[0], or a, b = graph.inputs",
)


def one_by_one(outputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """``outputs``, or what is in the list, tuple or dict of values of a graph that stands alone."""
    if len(outputs) != 1 or isinstance(outputs[0], Shape):
        return outputs
    (one,) = outputs
    if isinstance(one, dict):
        raise ArgumentTypeError(
            "ML317",
            "outputs have an order and no names, got a dict",
            at=user_location(),
            fix="give its values: graph.output(*found.values()), or return a list: "
            "list({'y': x}.values())",
        )
    if isinstance(one, (list, tuple)) and any(isinstance(x, Value) for x in one):
        return tuple(one)
    return outputs


def listed(made: Any) -> tuple[Any, ...]:
    """The results of a function of the user, as a tuple: none, one value, or several."""
    if made is None:
        return ()
    if isinstance(made, dict):
        return (made,)
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


__all__ = ["Inputs", "as_outputs", "listed", "one_by_one", "warn_replaced"]
