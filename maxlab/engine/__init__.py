"""The engine: sessions, models, profiles."""

from __future__ import annotations

from maxlab.driver import Tensor
from maxlab.engine.model import Model, TensorSpec
from maxlab.engine.session import GPUProfilingMode, InferenceSession, LogLevel

__all__ = ["GPUProfilingMode", "InferenceSession", "LogLevel", "Model", "Tensor", "TensorSpec"]
