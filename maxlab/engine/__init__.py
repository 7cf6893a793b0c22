"""The engine: sessions, models, profiles."""

from __future__ import annotations

from maxlab.driver import Tensor
from maxlab.engine.guard import Guard
from maxlab.engine.handles import MojoValue
from maxlab.engine.model import Model
from maxlab.engine.session import (
    AssertLevel,
    CustomExtensionsType,
    GPUProfilingMode,
    InferenceSession,
    LogLevel,
    SplitKReductionPrecision,
)
from maxlab.engine.spec import TensorSpec

__all__ = [
    "AssertLevel",
    "CustomExtensionsType",
    "GPUProfilingMode",
    "Guard",
    "InferenceSession",
    "LogLevel",
    "Model",
    "MojoValue",
    "SplitKReductionPrecision",
    "Tensor",
    "TensorSpec",
]
