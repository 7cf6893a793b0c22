"""Runs that outlive their model: save one, compare two or more, and see how costs grow with sizes.

>>> import maxlab
>>> profile.save("before.mlprof")  # doctest: +SKIP
>>> maxlab.diff("before.mlprof", "after.mlprof")  # doctest: +SKIP
>>> maxlab.sweep(model, batch=[1, 2, 4, 8])  # doctest: +SKIP
"""

from __future__ import annotations

from maxlab.analysis.runs.diff import Diff, diff
from maxlab.analysis.runs.pairs import Change, Pair
from maxlab.analysis.runs.saved import SavedRun, load_run, record, save_run
from maxlab.analysis.runs.sweep import Sweep, sweep

__all__ = [
    "Change",
    "Diff",
    "Pair",
    "SavedRun",
    "Sweep",
    "diff",
    "load_run",
    "record",
    "save_run",
    "sweep",
]
