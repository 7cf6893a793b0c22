"""The engine: sessions, models, profiles.

Nothing is imported before it is asked for: a model that was saved with its plan is loaded without
what builds and compiles graphs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from maxlab.collector import importing
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

_INSTEAD = {
    **dict.fromkeys(("Session", "Engine"), "engine.InferenceSession()"),
    **dict.fromkeys(("load", "compile", "run"), "engine.InferenceSession().load(graph)"),
}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """The object of this name, imported now; or the error that says what there is instead."""
        if name not in __all__:
            raise missing("engine", name, __all__, _INSTEAD)
        with importing():
            if name == "Tensor":
                import maxlab.driver as place
            elif name == "Guard":
                import maxlab.engine.guard as place
            elif name == "Model":
                import maxlab.engine.model as place
            elif name == "MojoValue":
                import maxlab.engine.mojo_value as place
            elif name == "TensorSpec":
                import maxlab.engine.spec as place
            elif name in ("CustomExtensionsType", "InferenceSession"):
                import maxlab.engine.session as place
            else:
                import maxlab.engine.session_settings as place
        found = globals()[name] = getattr(place, name)
        return found

    def __dir__() -> list[str]:
        return sorted([*globals(), *__all__])
