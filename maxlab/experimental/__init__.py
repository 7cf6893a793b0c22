"""Tensors whose values are computed when something reads them, and functions of them.

``tensor`` has `Tensor`, ``functional`` the operations, ``random`` tensors of random numbers, ``nn``
modules of tensors.
"""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING, Any

from maxlab.errors import missing

if TYPE_CHECKING:
    from maxlab.experimental import nn as nn

# What importing makes stays: Python's collector would go through it several times, a quarter of the
# time, and find nothing to free.
_was_collecting = gc.isenabled()
gc.disable()
try:
    from maxlab.experimental import functional as functional
    from maxlab.experimental import random as random
    from maxlab.experimental import tensor as tensor
    from maxlab.experimental.tensor import Tensor
finally:
    if _was_collecting:
        if gc.get_freeze_count() == 0:  # else somebody keeps objects out of the collector's sight
            gc.freeze()
            gc.unfreeze()  # the two make all objects old ones, without going through them
        gc.enable()

__all__ = ["Tensor"]
_MODULES = ("functional", "nn", "random", "tensor")


def __getattr__(name: str) -> Any:
    if name == "nn":
        import maxlab.experimental.nn as found

        return found
    raise missing("maxlab.experimental", name, [*__all__, *_MODULES])
