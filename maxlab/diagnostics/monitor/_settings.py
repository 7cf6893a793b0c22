"""Settings of a monitor, checked before anything is made or started."""

from __future__ import annotations

import re
from typing import Any

from maxlab.diagnostics.gpu.recorder import shown
from maxlab.errors import ArgumentTypeError, DeviceError

MIN_BYTES = 65_536
MAX_BYTES = 1 << 50
MAX_LABEL = 1000

_UNITS = {
    "": 1, "b": 1,
    "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12,
    "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "tib": 1 << 40,
}  # fmt: skip
_SIZE = re.compile(r"\s*([0-9]{1,20}(?:\.[0-9]{1,20})?)\s*([a-z]*)\s*", re.IGNORECASE | re.ASCII)


def checked_bytes(given: Any) -> int:
    """The number of bytes that ``max_bytes`` asks for: a whole number, or a text such as ``"1MB"``,
    ``"1 MiB"`` or ``"500 kB"``.

    Raises:
        DeviceError: ML835 (a ValueError), not a number of bytes, or one out of range.
        ArgumentTypeError: ML835 (a TypeError), neither a number nor a text.
    """
    if isinstance(given, bool) or not isinstance(given, int | float | str):
        raise ArgumentTypeError(
            "ML835",
            f"max_bytes must be a number of bytes, got {type(given).__name__}",
            fix=_FIX,
        )
    number: float = -1
    if not isinstance(given, str):
        number = given
    elif (found := _SIZE.fullmatch(given)) and (unit := _UNITS.get(found[2].lower())):
        number = round(float(found[1]) * unit)
    # Written as one comparison that NaN fails.
    if not MIN_BYTES <= number <= MAX_BYTES or number != int(number):
        raise DeviceError(
            "ML835",
            f"max_bytes must be a whole number of bytes, {MIN_BYTES} or more, got {shown(given)}",
            fix=_FIX,
        )
    return int(number)


_FIX = 'write a number, or a text with a unit such as "64 MiB" or "100MB"; left out, it is 64 MiB'


def checked_label(given: Any) -> str:
    """``given``, a text that is shown with a recording.

    Raises:
        DeviceError: ML835 (a ValueError), it is too long.
        ArgumentTypeError: ML835 (a TypeError), it is not a text.
    """
    if not isinstance(given, str):
        raise ArgumentTypeError(
            "ML835",
            f"label must be a text, got {type(given).__name__}",
            fix='write label="the large model"',
        )
    if len(given) > MAX_LABEL:
        raise DeviceError(
            "ML835",
            f"label must have {MAX_LABEL} characters or less, got {len(given)}",
            fix="shorten it; it is shown above the charts",
        )
    return given
