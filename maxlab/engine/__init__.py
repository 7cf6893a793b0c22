"""The engine: sessions, models, profiles."""

from __future__ import annotations

from typing import TYPE_CHECKING

from maxlab.driver import Tensor
from maxlab.engine.guard import Guard
from maxlab.engine.model import Model
from maxlab.engine.mojo_value import MojoValue
from maxlab.engine.session import CustomExtensionsType, InferenceSession
from maxlab.engine.session_settings import (
    AssertLevel,
    GPUProfilingMode,
    LogLevel,
    SplitKReductionPrecision,
)
from maxlab.engine.spec import TensorSpec
from maxlab.errors import missing

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

_INSTEAD = {
    **dict.fromkeys(("Session", "Engine"), "engine.InferenceSession()"),
    **dict.fromkeys(("load", "compile", "run"), "engine.InferenceSession().load(graph)"),
}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """Raises the error for a name that is not there, with the name to use instead."""
        raise missing("engine", name, __all__, _INSTEAD)
