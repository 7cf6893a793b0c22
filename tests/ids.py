"""Names of test cases that are the same in every process, as runs on several processors need."""

from __future__ import annotations

import re

_ADDRESS = re.compile(r"<(?:[\w.]+\.)?(\w+) object at 0x[0-9a-f]+>")


def stable(value: object) -> str:
    """``str(value)``, with the class in the place of an object that shows its address.

    Example:
        >>> stable(object())
        'object'
    """
    return _ADDRESS.sub(r"\1", str(value))
