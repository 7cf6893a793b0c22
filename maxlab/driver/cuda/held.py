"""Objects of PyCUDA that belong to a device, in one place, so that all can be kept from being
freed.
"""

from __future__ import annotations

from typing import Any


class Held:
    """PyCUDA's objects of a device."""

    __slots__ = ("allocations", "modules", "pinned", "primary", "streams")

    def __init__(self) -> None:
        self.primary: Any = None
        self.allocations: dict[int, Any] = {}
        self.pinned: dict[int, Any] = {}
        self.streams: dict[int, Any] = {}
        self.modules: list[Any] = []

    def leak(self) -> None:
        """Keep everything until the process ends, so that no destructor of PyCUDA runs."""
        import ctypes

        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self))
