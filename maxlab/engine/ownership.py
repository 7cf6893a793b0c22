"""Whether the inputs that a model changes in place are the caller's own memory."""

from __future__ import annotations

from typing import Any

import numpy as np

from maxlab.driver import Tensor


def is_copy(given: Any, x: Tensor) -> bool:
    """Whether ``x``, the tensor of the input ``given``, is other memory than the caller's."""
    if given is x or isinstance(given, Tensor):
        return False  # on another stream of the device, it is the same memory
    if isinstance(given, np.ndarray):
        return given.size > 0 and given.ctypes.data != x.address
    return isinstance(given, (bool, int, float, np.generic))


__all__ = ["is_copy"]
