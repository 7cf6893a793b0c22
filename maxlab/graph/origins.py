"""Where values came from, for messages."""

from __future__ import annotations

from collections.abc import Sequence

from maxlab.errors import MaxlabError
from maxlab.ir import Value as IrValue
from maxlab.opset import is_weight


def explain(error: MaxlabError, values: Sequence[IrValue]) -> None:
    """Say in ``error`` where each of several operands came from, unless it says why already."""
    if error.why or len(values) < 2:
        return
    names = ("left", "right") if len(values) == 2 else tuple(map(str, range(len(values))))
    lines = []
    for name, value in zip(names, values, strict=True):
        word = f"the {name} operand" if len(values) == 2 else f"operand {name}"
        type = value.tensor_type
        shape = ", ".join(map(str, type.shape))
        lines.append(f"{word}, {type.dtype.name} [{shape}], is {origin(value)}")
    error.why = tuple(lines[:8])
    error.args = (str(error),)


def origin(value: IrValue) -> str:
    """The origin of ``value``: its operation, and where the user made it, such as ``made by add at
    a.py:3``.
    """
    op = value.op
    if op is None:
        return f"the input {value.name!r}"
    if is_weight(op):
        return f"the weight {op.attrs['name']!r}"
    at = f" at {op.loc}" if op.loc is not None else ""
    return f"made by {op.name.removeprefix('mo.')}{at}"


__all__ = ["explain", "origin"]
