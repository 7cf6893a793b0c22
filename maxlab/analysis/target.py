"""The target of an analysis: a model, or the model that a profile was taken of."""

from __future__ import annotations

from maxlab.engine import Model
from maxlab.engine.profile import Profile
from maxlab.errors import ArgumentTypeError


def model_behind(target: Model | Profile, what: str) -> Model:
    """The model that ``target`` is, or that it is a profile of.

    Raises:
        ArgumentTypeError: ML674, ``target`` is something else; the message begins with ``what``.
    """
    found = getattr(target, "model", target)  # of a profile, or of a module of torch
    if not isinstance(found, Model):
        raise ArgumentTypeError(
            "ML674",
            f"{what} needs a compiled model or its profile, got {type(target).__name__}",
            fix="load the graph first: model = engine.InferenceSession().load(graph)",
        )
    return found


__all__ = ["model_behind"]
