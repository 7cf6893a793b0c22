"""Which inputs a model changes in place, and whether they are the caller's own memory."""

from __future__ import annotations

from typing import Any

import numpy as np

from maxlab.driver import Tensor
from maxlab.ir import Block, Function, Value
from maxlab.opset import OPSET


def written_inputs(function: Function) -> tuple[int, ...]:
    """The numbers of the inputs that ``function`` stores into."""
    found = _written(function.block)
    return tuple(sorted(value.index for value in found if value.op is None))


def _written(block: Block) -> dict[Value, None]:
    """The values that the ops of ``block`` store into, those of regions as what stands outside for
    them."""
    found: dict[Value, None] = {}
    for op in block.ops:
        row = OPSET.get(op.name)
        if row is not None and row.effect == "write":
            found[op.operands[0]] = None
        for region in op.regions:
            given = op.operands[len(op.operands) - len(region.args) :]
            for value in _written(region):
                if value.owner is region:
                    found[given[value.index]] = None
    return found


def is_copy(given: Any, x: Tensor) -> bool:
    """Whether ``x``, the tensor of the input ``given``, is other memory than the caller's."""
    if given is x or isinstance(given, Tensor):
        return False  # on another stream of the device, it is the same memory
    if isinstance(given, np.ndarray):
        return given.size > 0 and given.ctypes.data != x._ptr
    return isinstance(given, (bool, int, float, np.generic))


__all__ = ["is_copy", "written_inputs"]
