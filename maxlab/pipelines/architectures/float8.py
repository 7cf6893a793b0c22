"""Checkpoints whose matrices are 8-bit floats with scales: what layers need to know of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from maxlab.dtype import DType
from maxlab.graph.weights import WeightData
from maxlab.nn.float8_config import Float8Config, parse_float8_config

_SCALES = (".weight_scale", ".input_scale")


def float8_of(
    config: Any, state: Mapping[str, WeightData], dtype: DType
) -> tuple[Float8Config | None, dict[str, WeightData]]:
    """Which layers are of 8-bit floats, and the weights with scales by the names of ``nn.Linear``.

    Args:
        config: The configuration of the checkpoint.
        state: The weights by the names of ``nn.transformer.Transformer``.
        dtype: The dtype of activations, which biases get.

    Raises:
        ArgumentError: ML695, a format that is not read; ML696, a value that none has.
        WeightError: ML697, a layer that is in float8 in part; ML699, scales that do not fit.
    """
    found = parse_float8_config(config, state, DType.float8_e4m3fn)
    if found is None:
        return None, dict(state)
    made = {}
    for name, weight in state.items():
        if name.endswith(".input_scale") and found.is_dynamic:
            continue  # compressed-tensors may write it, and nothing reads it
        made[name.removesuffix("_inv")] = weight
    return replace(found, bias_dtype=dtype), made


def is_scale(name: str) -> bool:
    """Whether a weight is the scale of another one, and keeps its dtype.

    Args:
        name: The name of the weight.
    """
    return name.endswith(_SCALES)


__all__ = ["float8_of", "is_scale"]
