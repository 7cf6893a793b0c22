"""Names of test cases that are the same in every process, as runs on several processors need."""

from __future__ import annotations

import re

_ADDRESS = re.compile(r"<(?:function )?(?:[\w.<>]+\.)?(\w+|<lambda>)(?: object)? at 0x[0-9a-f]+>")


def stable(value: object) -> str:
    """``str(value)``, with the name of a class or function in the place of what shows an address.

    Example:
        >>> stable(object())
        'object'
    """
    return _ADDRESS.sub(r"\1", str(value))
