"""``%%maxprof``: a cell run with every kernel of every model in it timed, and shown."""

from __future__ import annotations

from maxlab.lab.maxprof.magic import run_cell

__all__ = ["run_cell"]
