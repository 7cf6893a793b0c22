"""The model that runs what a view shows: the one that it is of, or one compiled for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from maxlab import engine
from maxlab.driver import CPU, Accelerator, Device
from maxlab.engine import Model
from maxlab.engine.model import LIVE
from maxlab.engine.profile import Profile
from maxlab.graph import BufferType, Editor, Graph, TensorType
from maxlab.lab.fits import scratch_of
from maxlab.nn.states import slot_of


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
        if shown.log.is_current(model.graph_revision):
            return model
    session = engine.InferenceSession(_devices_of(shown))
    return session.load(shown, weights_registry={**_started(shown), **_weights_of(models)})


def model_of_ends(graph: Graph) -> Model:
    """A model that gives what no operation of ``graph`` reads, but for constants: for a graph whose
    output is a draft.

    Raises:
        GraphError: ML322, nothing is there to give.
        MaxlabError: The graph cannot be compiled, or needs weights that no model has.
    """
    function = graph.function
    read = {value for op in function.ops for value in op.operands}
    ends = [
        value.id
        for op in function.ops
        if op.operands
        for value in op.results
        if value not in read and isinstance(value.type, TensorType)
    ]
    copy = scratch_of(Editor(graph))
    if ends:
        copy.set_outputs(*ends)
    models = [model for model in list(LIVE) if model.graph is graph]
    session = engine.InferenceSession(_devices_of(graph))
    return session.load(copy.graph, weights_registry={**_started(graph), **_weights_of(models)})


def _started(graph: Graph) -> Mapping[str, Any]:
    """The numbers that weights of ``graph`` have without a model: those that a state dict gave
    them, or that they began with when they were added by hand."""
    table = graph.weight_table
    values = {name: slot_of(weight).value for name, weight in table.weights.items()}
    return {
        name: value
        for name, value in values.items()
        if value is not None and table.values[name].block is not None
    }


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


__all__ = ["model_for", "model_of_ends"]
