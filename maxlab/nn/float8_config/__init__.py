"""Which layers of a model are in float8, and how their inputs and weights are scaled."""

from __future__ import annotations

from maxlab.nn.float8_config.parsing import parse_float8_config
from maxlab.nn.float8_config.specs import (
    Float8Config,
    Float8InputScaleSpec,
    Float8ScaleGranularity,
    Float8ScaleOrigin,
    Float8WeightScaleSpec,
)

__all__ = [
    "Float8Config",
    "Float8InputScaleSpec",
    "Float8ScaleGranularity",
    "Float8ScaleOrigin",
    "Float8WeightScaleSpec",
    "parse_float8_config",
]
