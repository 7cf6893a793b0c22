"""How far results lie from those in float64."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.performance.bodies import BODIES, FUNCTIONS
from benchmarks.performance.rows import Row

Error = dict[str, float]
"""``abs``, the largest difference; ``relative``, the same as a fraction of the largest element; of
functions ``ulp``, the largest difference in units of the last place of the exact number; and of
directions ``cosine``, the least one between a row and the exact row."""


def apart(found: Sequence[Any], exact: Sequence[Any], row: Row) -> Error:
    """How far ``found`` is from ``exact``.

    Raises:
        RuntimeError: Further than the row allows, or of another shape.
    """
    if [x.size for x in found] != [x.size for x in exact]:
        raise RuntimeError(f"{[x.shape for x in found]} are not {[x.shape for x in exact]}")
    pairs = [(a.astype(np.float64).ravel(), b.ravel()) for a, b in zip(found, exact, strict=True)]
    worst = max(float(np.abs(a - b).max()) for a, b in pairs)
    largest = max(float(np.abs(b).max()) for _, b in pairs)
    told = {"abs": worst, "relative": worst / largest}
    if row.name in FUNCTIONS:
        bits = 8 if BODIES[row.name].dtype == "bfloat16" else 24
        told["ulp"] = max(float((np.abs(a - b) / unit(b, bits)).max()) for a, b in pairs)
    if row.cosine:
        told["cosine"] = min(cosine(a, b) for a, b in zip(found, exact, strict=True))
        if not told["cosine"] >= row.cosine:
            raise RuntimeError(f"a direction is as near as a cosine of {told['cosine']:.5f}")
        return told
    if not told["relative"] <= row.tolerance:
        raise RuntimeError(f"its result is off by {told['relative']:.1e} of the largest element")
    return told


def cosine(found: Any, exact: Any) -> float:
    """The least cosine between a row of ``found`` and that of ``exact``."""
    a, b = (x.astype(np.float64).reshape(-1, exact.shape[-1]) for x in (found, exact))
    lengths = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
    return float(((a * b).sum(1) / lengths).min())


def unit(x: Any, bits: int) -> Any:
    """The unit in the last place of numbers with ``bits`` of precision, as large as ``x``."""
    _, exponent = np.frexp(np.abs(x))
    return np.ldexp(1.0, np.maximum(exponent, -125) - bits)
