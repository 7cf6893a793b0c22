"""Operands and attributes that functions of paged caches and of attention share."""

from __future__ import annotations

from typing import Any, TypedDict

import numpy as np

from maxlab.errors import ArgumentError, shown
from maxlab.graph.build import is_number, tensor
from maxlab.graph.value import TensorValue


class Scoring(TypedDict):
    """The attributes that say which keys a query sees, and the factor of scores."""

    mask: str
    scale: float


def scoring(what: str, mask: Any, scale: Any) -> Scoring:
    """The attributes of attention.

    Args:
        what: The function, for messages.
        mask: The name of a mask.
        scale: The factor of the products of queries and keys.

    Raises:
        ArgumentError: ML667, no text and number.
    """
    if not isinstance(mask, str) or not is_number(scale) or not np.isreal(scale):
        raise ArgumentError(
            "ML667",
            f"{what}: mask={shown(mask)}, scale={shown(scale)} are no text and number",
            fix="pass mask='causal' and scale=head_dim**-0.5",
        )
    return {"mask": str(mask), "scale": float(scale)}


def places(what: str, *numbers: Any) -> list[TensorValue]:
    """The tensors that say where the tokens of sequences are: row offsets, cache lengths, the
    lookup table and the layer.

    Args:
        what: The function, for messages.
        *numbers: What was given for them, in this order.
    """
    names = ("row offsets", "cache lengths", "lookup table", "layer")
    return [tensor(x, f"{what}: the {name}") for name, x in zip(names, numbers, strict=True)]


__all__ = ["Scoring", "places", "scoring"]
