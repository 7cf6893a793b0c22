"""Is it right? The references beside the compiled code, values on any edge, watched expressions,
and a tripwire for NaN."""

from __future__ import annotations

from maxlab.analysis.check.alone import Alone
from maxlab.analysis.check.compare import compare
from maxlab.analysis.check.difference import Difference
from maxlab.analysis.check.result import Comparison, KernelCheck, NodeCheck
from maxlab.analysis.check.tripwire import NonFiniteError, Trip, first_nonfinite, tripwire
from maxlab.analysis.check.values import Values, values
from maxlab.analysis.check.watch import Watch, watch

__all__ = [
    "Alone",
    "Comparison",
    "Difference",
    "KernelCheck",
    "NodeCheck",
    "NonFiniteError",
    "Trip",
    "Values",
    "Watch",
    "compare",
    "first_nonfinite",
    "tripwire",
    "values",
    "watch",
]
