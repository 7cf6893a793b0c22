"""The number of a dim of known size: as an exponent, a remainder, a root, a text in a format."""

from __future__ import annotations

import math
from typing import Any


class AsNumber:
    """Python's operators of numbers on dims, which need the size: of a dim whose size only a run
    knows they raise ML391, as ``int(dim)`` does."""

    __slots__ = ()

    def __int__(self) -> int:
        raise NotImplementedError

    def __float__(self) -> float:
        return float(int(self))

    def __mod__(self, other: Any) -> Any:
        return int(self) % other

    def __rmod__(self, other: Any) -> Any:
        return other % int(self)

    def __pow__(self, other: Any) -> Any:
        return int(self) ** other

    def __rpow__(self, other: Any) -> Any:
        return other ** int(self)

    def sqrt(self) -> float:
        """The root of the size: what NumPy asks for in ``np.sqrt(x.shape[-1])``."""
        return math.sqrt(int(self))


__all__ = ["AsNumber"]
