"""Whether a kept model is believed: the argument ``trusted`` of ``InferenceSession.load``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from maxlab.errors import ArgumentTypeError, ParseError, shown

if TYPE_CHECKING:
    from maxlab.engine.kept.archive import Archive

_DIGEST = re.compile(r"[0-9a-f]{64}")


def require_trust(trusted: Any) -> None:
    """Raises unless ``trusted`` is a bool or a digest.

    Raises:
        ArgumentTypeError: ML518.
    """
    if isinstance(trusted, bool) or (isinstance(trusted, str) and _DIGEST.fullmatch(trusted)):
        return
    raise ArgumentTypeError(
        "ML518",
        f"trusted is {shown(trusted)}, expected True, False or a digest of 64 digits",
        fix="pass the digest that model.save(path) gave, or that python -m maxlab info shows; or "
        "True for a file that you trust as a program",
    )


def require_digest(archive: Archive, trusted: bool | str) -> None:
    """Raises unless ``archive`` has the digest ``trusted``, where that is one.

    Raises:
        ParseError: ML514, it has another one.
    """
    if isinstance(trusted, str) and trusted != archive.digest:
        raise ParseError(
            "ML514",
            f"{archive.path} is not the model that is trusted: its digest is {archive.digest}, "
            f"expected {trusted}",
            fix="get the file again from where the digest comes from",
        )


__all__ = ["require_digest", "require_trust"]
