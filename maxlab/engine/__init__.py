"""The engine: sessions, models, profiles.

Nothing is imported before it is asked for: a model that was saved with its plan is loaded without
what builds and compiles graphs.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from maxlab.errors import missing

if TYPE_CHECKING:
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

_PLACES = {
    "Tensor": "maxlab.driver",
    "Guard": "maxlab.engine.guard",
    "Model": "maxlab.engine.model",
    "MojoValue": "maxlab.engine.mojo_value",
    **dict.fromkeys(("CustomExtensionsType", "InferenceSession"), "maxlab.engine.session"),
    **dict.fromkeys(
        ("AssertLevel", "GPUProfilingMode", "LogLevel", "SplitKReductionPrecision"),
        "maxlab.engine.session_settings",
    ),
    "TensorSpec": "maxlab.engine.spec",
}
"""The module of each name."""
_INSTEAD = {
    **dict.fromkeys(("Session", "Engine"), "engine.InferenceSession()"),
    **dict.fromkeys(("load", "compile", "run"), "engine.InferenceSession().load(graph)"),
}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """The object of this name, imported now; or the error that says what there is instead."""
        place = _PLACES.get(name)
        if place is None:
            raise missing("engine", name, __all__, _INSTEAD)
        found = globals()[name] = getattr(import_module(place), name)
        return found

    def __dir__() -> list[str]:
        return sorted([*globals(), *__all__])
