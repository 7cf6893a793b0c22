"""Text of users in HTML and SVG: whatever is in it, the page around it stays whole."""

from __future__ import annotations

import html
import re

_UNSAYABLE = re.compile("[\0-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
"""Characters that XML 1.0 has no way to say, and those that control a terminal."""


def visible(text: str) -> str:
    """``text`` with ``�`` for each character that XML has no way to say; as long as it was.

    Example:
        >>> visible("a\\0b")
        'a�b'
    """
    return _UNSAYABLE.sub("\ufffd", text)


def escape(text: str, quote: bool = False) -> str:
    """``text`` as it stands in HTML or XML; with ``quote``, in an attribute too.

    Example:
        >>> escape("a < b\\x1b")
        'a &lt; b�'
    """
    return html.escape(visible(text), quote)


__all__ = ["escape", "visible"]
