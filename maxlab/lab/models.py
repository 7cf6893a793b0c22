"""The model that runs what a view shows: the one that it is of, or one compiled for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from maxlab import engine
from maxlab.driver import CPU, Accelerator, Device
from maxlab.engine import Model
from maxlab.engine.model import LIVE
from maxlab.engine.profile import Profile
from maxlab.graph import BufferType, Graph, TensorType


def model_for(shown: Graph | Model | Profile) -> Model:
    """The model of ``shown``; for a graph one that was loaded and computes what the graph does now,
    else a new one, with the weights of the newest.

    Raises:
        MaxlabError: The graph cannot be compiled, or needs weights that no model has.
    """
    if isinstance(shown, Profile):
        return shown.model
    if isinstance(shown, Model):
        return shown
    models = [model for model in list(LIVE) if model.graph is shown]
    for model in models:
        if model.graph_revision == shown.log.revision:
            return model
    session = engine.InferenceSession(_devices_of(shown))
    return session.load(shown, weights_registry=_weights_of(models))


def _weights_of(models: list[Model]) -> Mapping[str, Any]:
    """The weights of ``models``, each from the newest that has it."""
    found: dict[str, Any] = {}
    for model in sorted(models, key=lambda model: model.graph_revision):
        found.update(model.weights)
    return found


def _devices_of(graph: Graph) -> list[Device]:
    """The devices that ``graph`` names, and the CPU.

    Raises:
        DeviceError: ML410, one of them is not there.
    """
    function = graph.function
    values = [*function.inputs, *(v for op in function.ops for v in op.results)]
    places = {v.type.device for v in values if isinstance(v.type, (TensorType, BufferType))}
    gpus = sorted(place.id for place in places if place.is_gpu())
    return [CPU(), *(Accelerator(number) for number in gpus)]


__all__ = ["model_for"]
