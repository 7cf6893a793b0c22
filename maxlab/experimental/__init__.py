"""Tensors whose values are computed when something reads them, and functions of them.

``tensor`` has `Tensor`, ``functional`` the operations, ``random`` tensors of random numbers, ``nn``
modules of tensors.
"""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING, Any

from maxlab.errors import missing

if TYPE_CHECKING:
    from maxlab.experimental.tensor import Tensor as Tensor

__all__ = ["Tensor"]
_MODULES = ("functional", "nn", "random", "tensor")


def __getattr__(name: str) -> Any:
    if name == "Tensor":
        from maxlab.experimental.tensor import Tensor

        return Tensor
    found: ModuleType | None = None
    if name == "functional":
        import maxlab.experimental.functional as found
    elif name == "nn":
        import maxlab.experimental.nn as found
    elif name == "random":
        import maxlab.experimental.random as found
    elif name == "tensor":
        import maxlab.experimental.tensor as found
    if found is not None:
        return found
    raise missing("maxlab.experimental", name, [*__all__, *_MODULES])
