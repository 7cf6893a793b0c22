"""The older import path of ``maxlab.nn``."""

from __future__ import annotations

from maxlab.pipelines.nn import layer

__all__ = ["layer"]
