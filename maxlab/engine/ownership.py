"""Which inputs a model changes in place, and whether they are the caller's own memory."""

from __future__ import annotations

from typing import Any

import numpy as np

from maxlab.driver import Tensor
from maxlab.ir import ChainType, Function, Value
from maxlab.opset import OPSET
from maxlab.opset.core import changed_operands


def written_inputs(function: Function) -> tuple[int, ...]:
    """The numbers of the inputs that ``function`` stores into."""
    found: dict[Value, None] = {}
    for op in function.ops:
        for number in changed_operands(op):
            found[op.operands[number]] = None
    return tuple(sorted(value.index for value in found if value.op is None))


def kept_apart(function: Function) -> frozenset[tuple[int, int]]:
    """Pairs of inputs of which one op changes the first and takes the second too: its kernel may
    read and write them in any order, so they cannot be one memory.
    """
    found: set[tuple[int, int]] = set()
    for op in function.ops:
        if OPSET[op.name].changed is None:
            continue
        inputs = [v for v in op.operands if v.op is None and not isinstance(v.type, ChainType)]
        for number in changed_operands(op):
            value = op.operands[number]
            if value.op is None:
                found |= {(value.index, v.index) for v in inputs if v is not value}
    return frozenset(found)


def is_copy(given: Any, x: Tensor) -> bool:
    """Whether ``x``, the tensor of the input ``given``, is other memory than the caller's."""
    if given is x or isinstance(given, Tensor):
        return False  # on another stream of the device, it is the same memory
    if isinstance(given, np.ndarray):
        return given.size > 0 and given.ctypes.data != x._ptr
    return isinstance(given, (bool, int, float, np.generic))


__all__ = ["is_copy", "kept_apart", "written_inputs"]
