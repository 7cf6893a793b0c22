"""Which logits a model of language returns."""

from __future__ import annotations

from enum import StrEnum


class ReturnLogits(StrEnum):
    """The tokens whose logits a model returns."""

    LAST_TOKEN = "last_token"
    """The last token of each text."""
    VARIABLE = "variable"
    """The last tokens of each text, as many as each call says."""
    ALL = "all"
    """Every token."""


__all__ = ["ReturnLogits"]
