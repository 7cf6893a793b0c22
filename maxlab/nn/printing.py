"""Modules as text: the class, with what is below it, a line each, as PyTorch prints them."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from typing import Any


def text_of(name: str, weights: Mapping[str, Any], layers: Mapping[str, Any]) -> str:
    """A module of the class ``name``: its own weights with their shapes, and the layers below it.

    Example:
        >>> print(text_of("Net", {}, {"inner": "Linear()"}))
        Net(
          (inner): Linear()
        )
    """
    own = ", ".join(f"{key}={weight.shape}" for key, weight in weights.items())
    if not layers:
        return f"{name}({own})"
    lines = [f"({key}): {layer!s}" for key, layer in layers.items()]
    below = textwrap.indent("\n".join([own] * bool(own) + lines), "  ")
    return f"{name}(\n{below}\n)"


__all__ = ["text_of"]
