"""Weights of additions from the palette: constants of random numbers, weights with names, or inputs
of the graph.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from maxlab.graph import Editor, Weight
from maxlab.graph.kept import weights_of
from maxlab.lab.fields import FieldError
from maxlab.nn.states import slot_of
from maxlab.opset import is_weight

CONSTANTS, NAMED, INPUTS = "random constants", "named weights", "inputs of the graph"
WAYS: Final = (CONSTANTS, NAMED, INPUTS)
"""The kinds of weights that people choose from."""

MOST_NUMBERS: Final = 1 << 24
"""Of a weight that is made by hand."""


def start_of(weight: Weight, rng: np.random.Generator, fan_in: int = 0) -> np.ndarray[Any, Any]:
    """The numbers that a weight begins with: noise whose products keep the size of numbers, ones
    where it scales, zeros where it is added.

    Args:
        weight: The weight, of a shape of numbers; one named ``bias`` is added.
        rng: Where noise is from.
        fan_in: How many products are summed; the last size unless given.

    Raises:
        FieldError: ML808, it has too many numbers.
    """
    shape = [int(dim) for dim in weight.shape]
    if math.prod(shape) > MOST_NUMBERS:
        raise FieldError(
            "weights", f"a weight of {math.prod(shape):,} numbers", "choose smaller sizes"
        )
    if len(shape) < 2:
        made = np.full(shape, 0.0 if weight.name.endswith("bias") else 1.0)
    else:
        made = rng.standard_normal(shape) * math.sqrt(1 / max(fan_in or shape[-1], 1))
    found: np.ndarray[Any, Any] = made.astype(np.float32).astype(weight.dtype.ml_numpy)
    return found


def seed_of(text: str) -> int:
    """The seed that was typed; 0 where nothing was.

    Raises:
        FieldError: ML808, it is no whole number.
    """
    try:
        return abs(int(text.strip() or "0"))
    except ValueError as error:
        raise FieldError("seed", f"{text!r} is no number", "write a whole number") from error


def free_prefix(editor: Editor, scope: str) -> str:
    """``scope``, with a number where the graph has weights whose names begin with it."""
    function = editor.graph.function
    taken = [str(op.attrs["name"]) for op in function.ops if is_weight(op)]
    number, prefix = 0, scope
    while any(name.startswith(f"{prefix}.") for name in taken):
        number += 1
        prefix = f"{scope}.{number}"
    return prefix


def give(editor: Editor, weights: Mapping[str, Weight], way: str) -> None:
    """Lets constants or inputs stand where ``weights`` stand in the graph, as ``way`` says. Those
    that stay weights keep their numbers, which the document of the graph has from then on.

    Args:
        editor: Of the graph, in a step.
        weights: Those that were added to it, with their numbers in their slots.
        way: One of ``WAYS``.

    Raises:
        FieldError: ML808, ``way`` is none.
    """
    if way not in WAYS:
        raise FieldError("weights", f"{way!r} is none", f"write one of {', '.join(WAYS)}")
    if way == NAMED:
        kept = editor.graph.document.weights
        read = weights_of(editor.graph.function)
        for weight in weights.values():
            if weight.name in read:  # the layer uses it
                kept[weight.name] = slot_of(weight).value
        return
    made = {op.attrs["name"]: op for op in list(editor.graph.function.ops) if is_weight(op)}
    for weight in weights.values():
        op = made.get(weight.name)
        if op is None:
            continue  # the layer does not use it
        if way == CONSTANTS:
            array = slot_of(weight).value
            editor.replace(op, "constant", array, weight.dtype, weight.device)
        else:
            old = op.result
            new = editor.add_input(old.type, _free_input(editor, weight.name))
            old.replace_with(editor.in_function(new))
            editor.remove(op)


def _free_input(editor: Editor, name: str) -> str:
    """A name for an input, after that of a weight, that no other has."""
    stem = name.replace(".", "_")
    taken = {value.name for value in editor.graph.function.inputs}
    number, found = 1, stem
    while found in taken:
        number += 1
        found = f"{stem}_{number}"
    return found


__all__ = ["CONSTANTS", "INPUTS", "NAMED", "WAYS", "free_prefix", "give", "seed_of", "start_of"]
