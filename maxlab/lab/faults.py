"""Errors as the page is told of them."""

from __future__ import annotations

from maxlab.errors import MaxlabError
from maxlab.lab.protocol import Fault


def fault_of(error: BaseException) -> Fault:
    """The form of ``error`` that a view shows.

    Example:
        >>> from maxlab.errors import ArgumentError
        >>> found = fault_of(ArgumentError("ML848", "too long", fix="give fewer sizes"))
        >>> found["code"], found["message"], found["fix"]
        ('ML848', 'too long', 'give fewer sizes')
    """
    if not isinstance(error, MaxlabError):
        kind = type(error).__name__
        return plain_fault(f"{kind}: {error}" if str(error) else kind)
    return {
        "code": error.code,
        "message": error.what,
        "why": list(error.why),
        "fix": error.fix or "",
        "where": "" if error.at is None else str(error.at),
    }


def plain_fault(message: str) -> Fault:
    """The fault of which only a sentence is known."""
    return {"code": "", "message": message, "why": [], "fix": "", "where": ""}
