"""Tables of cosines and sines as NumPy arrays, one for all layers that are alike.

They are constants of a graph and not operations: a table of a long context takes a second to
compute, and a pass of the compiler that computes ahead of runs leaves out results that are so much
larger than what they are made of.
"""

from __future__ import annotations

from collections.abc import Sequence
from weakref import WeakValueDictionary

import numpy as np

from maxlab.nn.rotary_embedding.frequencies import Array

_BLOCK = 1 << 20
"""The most angles in float64 at a time."""

_made: WeakValueDictionary[tuple[object, ...], Array] = WeakValueDictionary()


def cos_sin(parts: Sequence[tuple[Array, int]], factor: float) -> Array:
    """The cosine and sine of each pair at each position, float32 ``[rows, pairs, 2]``, read-only.

    Args:
        parts: Radians a token of each pair, float64 ``[pairs]``, and the position before which
            they hold, from the end of the part before on.
        factor: The factor of all of them.

    Example:
        >>> import numpy as np
        >>> cos_sin([(np.array([np.pi / 2]), 3)], 2.0).round(3)[:, 0]
        array([[ 2.,  0.],
               [ 0.,  2.],
               [-2.,  0.]], dtype=float32)
    """
    key = (factor, *((frequencies.tobytes(), stop) for frequencies, stop in parts))
    found = _made.get(key)
    if found is None:
        found = _made[key] = _computed(parts, factor)
    return found


def _computed(parts: Sequence[tuple[Array, int]], factor: float) -> Array:
    rows, pairs = parts[-1][1], len(parts[0][0])
    made = np.empty((rows, pairs, 2), np.float32)
    start = 0
    for frequencies, stop in parts:
        while start < stop:
            end = min(stop, start + max(1, _BLOCK // pairs))
            angles = np.arange(start, end, dtype=np.float64)[:, None] * frequencies
            made[start:end, :, 0] = np.cos(angles) * factor
            made[start:end, :, 1] = np.sin(angles) * factor
            start = end
    made.flags.writeable = False  # so that graphs need no copy
    return made


__all__ = ["cos_sin"]
