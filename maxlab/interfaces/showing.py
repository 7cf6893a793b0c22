"""The base of the classes that a notebook shows as a table of their fields."""

from __future__ import annotations

from typing import Any

from maxlab import trace


class Shown:
    """An object that a notebook shows as a table: fields, values, defaults and ranges.

    The drawing is in the notebook's part of maxlab, which is imported when the first of them is
    shown.
    """

    __slots__ = ()

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> Any:
        return trace.mimebundle(self, include, exclude)
