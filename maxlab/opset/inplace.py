"""The op of users that changes buffers in place: a declaration with ``inout`` operands.

It is ``mo.custom`` with an effect. Buffers are whole memory, so the kernel sees what earlier stores
have left there, and later loads see what it has written; its other results are tensors.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from maxlab.errors import ArgumentError, ArgumentTypeError
from maxlab.ir import BufferType, HandleType, OpaqueType, Type
from maxlab.opset.core import Array, Attrs, Call, define
from maxlab.opset.custom import (
    ATTRIBUTES,
    INPLACE,
    _cost,
    _kernel,
    _label,
    _reference,
    _told,
    bound_of,
    declaration_of,
    is_effect,
    label_of,
)
from maxlab.opset.faults import Fault

if TYPE_CHECKING:
    from maxlab.opset.declarations import Declaration


def require_buffers(declared: Declaration, types: Sequence[Type]) -> None:
    """Raises unless the operands that ``declared`` changes are buffers or handles, and there is one
    at all.

    Raises:
        ArgumentTypeError: ML787, there is none; ML788, what would be changed is a tensor.
    """
    if not any(isinstance(type, (BufferType, OpaqueType, HandleType)) for type in types):
        raise ArgumentTypeError(
            "ML787",
            f"inplace_custom: {declared.name} gets no buffer and no handle",
            why=[declared.declared_at],
            fix="pass a BufferValue, such as graph.inputs[0].buffer; an op of tensors alone is "
            "called with ops.custom",
        )
    for argument, type in zip(declared.operands, types, strict=False):
        if argument.inout and not argument.opaque and not isinstance(type, BufferType):
            raise ArgumentTypeError(
                "ML788",
                f"{declared.name} changes the operand {argument.name} in place, which must be a "
                f"buffer, got {type}",
                why=[declared.declared_at],
                fix="tensors never change: store it into ops.buffer_create(type) first",
            )


def require_apart(declared: Declaration, operands: Sequence[Any]) -> None:
    """Raises if an operand that ``declared`` changes is also another operand.

    Raises:
        ArgumentError: ML789.
    """
    for number in [n for n, operand in enumerate(declared.operands) if operand.inout]:
        for other, value in enumerate(operands):
            if other != number and value is operands[number]:
                names = [declared.operands[n].name for n in sorted((number, other))]
                raise ArgumentError(
                    "ML789",
                    f"{declared.name}: the operands {' and '.join(names)} are one "
                    f"{'handle' if declared.operands[number].opaque else 'buffer'}, and "
                    f"{declared.operands[number].name} is changed in place",
                    why=[declared.declared_at],
                    fix="pass two handles"
                    if declared.operands[number].opaque
                    else "pass a copy, ops.buffer_load(x), for what is only read",
                )


def as_tensors(types: Sequence[Any]) -> list[Any]:
    """``types``, those of buffers as the types of what they hold; handles as they are."""
    return [type.as_tensor() if isinstance(type, BufferType) else type for type in types]


def _infer(types: Sequence[Any], attrs: Attrs) -> list[Type]:
    declared = declaration_of(attrs)
    if not is_effect(declared):
        require_buffers(declared, types)
    bound_of(as_tensors(types), attrs)
    return list(attrs["types"])


def _call_reference(call: Call, *arrays: Array) -> Any:
    made = _reference(call, *arrays)
    if not call.dtypes:
        return []
    return made if isinstance(made, (list, tuple)) else [np.asarray(made)]


define(
    INPLACE.removeprefix("mo."),
    "kernel",
    "custom",
    "What the kernel of a user computes and changes in place, as a kernel library declares it.",
    attrs=ATTRIBUTES,
    role="custom",
    label=_label,
    shown=_told,
    infer=_infer,
    reference=_call_reference,
    kernel=_kernel,
    fault=lambda op: Fault(label_of(op)),
    effect="write",
    changed=lambda attrs: declaration_of(attrs).changed,
    cost=lambda operands, results, attrs: _cost(as_tensors(operands), results, attrs),
)

__all__ = ["INPLACE", "as_tensors", "require_apart", "require_buffers"]
