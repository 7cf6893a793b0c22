"""Texts and tables of many machines, by a cluster of Dask: ``pip install "maxlab[dask]"``.

`generate` and `iter_generate` let every worker of a `distributed.Client` answer a part of the
prompts with a model of its own; `sweep` computes a function, or asks a model, for every point of a
grid. Dask places the work, and sends what a dead worker had to another one.

Importing this package imports no Dask.
"""

from __future__ import annotations

from maxlab.dask.generating import generate, iter_generate, release
from maxlab.dask.sweeping import Sweep, sweep

__all__ = ["Sweep", "generate", "iter_generate", "release", "sweep"]
