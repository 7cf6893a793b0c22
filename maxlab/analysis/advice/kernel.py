"""A kernel as the rules of advice see it: `Kernel`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from maxlab.analysis.bounds import Estimate
from maxlab.compiler.plan import Step

if TYPE_CHECKING:
    from maxlab.engine.times import KernelTime

Array = np.ndarray[Any, Any]

LEAST, MOST = 0.25, 4.0
"""How far a kernel may be from its estimate for that to be carried over to another one: beyond it,
something is going on that the estimate knows nothing of."""


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel of the profile: its times, its step of the plan and its estimate; ``samples`` are
    its nanoseconds in each timed run."""

    time: KernelTime
    step: Step
    estimate: Estimate
    samples: Array

    @property
    def id(self) -> str:
        """Its id."""
        return self.time.id

    @property
    def ns(self) -> float:
        """Its measured nanoseconds."""
        return self.time.ns

    @property
    def ratio(self) -> float:
        """Measured over estimated time, within limits."""
        return float(self.ratio_of(np.asarray(self.ns)))

    def ratio_of(self, ns: Array) -> Array:
        """``ratio``, had the kernel taken ``ns`` nanoseconds."""
        return np.asarray(np.clip(ns / max(self.estimate.ns, 1.0), LEAST, MOST))
