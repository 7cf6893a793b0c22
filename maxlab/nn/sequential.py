"""The name of ``max.nn.sequential``."""

from __future__ import annotations

from maxlab.nn.lists import Sequential

__all__ = ["Sequential"]
