"""Snippets and layers in the palette: what is typed for them, and how they and their weights come
into the graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from maxlab.errors import GraphError, MaxlabError
from maxlab.graph import Editor, TensorType, Weight
from maxlab.graph.value import TensorValue, Value
from maxlab.ir import user_location
from maxlab.lab import layers, snippets
from maxlab.lab.examples import example_of_layer
from maxlab.lab.layers import LayerOffer
from maxlab.lab.offering import Source, field
from maxlab.lab.protocol.changes import ChangeField, OfferedOp
from maxlab.lab.snippets import Snippet
from maxlab.lab.weighting import CONSTANTS, WAYS, free_prefix, give, seed_of, start_of
from maxlab.nn.calls import standing
from maxlab.nn.states import slot_of


def _weights() -> list[ChangeField]:
    """The fields for the weights of a snippet or a layer."""
    return [
        field(
            "weights",
            "choice",
            CONSTANTS,
            False,
            "what stands for the weights: numbers in the graph, weights that a session is given by "
            "name, or inputs",
            WAYS,
        ),
        field("seed", "data", "0", False, "of the random numbers that the weights begin with"),
    ]


def _way(typed: Mapping[str, str]) -> str:
    return typed.get("weights", "").strip() or CONSTANTS


def snippet_source(snippet: Snippet, given: Sequence[Value]) -> list[Source]:
    if len(given) != 1 or not isinstance(given[0], TensorValue) or not given[0].dtype.is_float():
        return []
    if not given[0].rank:
        return []

    def add(editor: Editor, given: Sequence[Value], typed: Mapping[str, str]) -> Sequence[Value]:
        with editor.step():
            scope = editor.free_scope("", snippet.name)
            prefix = free_prefix(editor, scope)
            with editor.graph.at(user_location(), scope):
                made, weights = snippets.build(snippet, given[0], typed, prefix)
            give(editor, weights, _way(typed))
            return [made]

    blanks = [
        field(
            blank.name,
            "choice" if blank.choices else "data",
            blank.text,
            False,
            blank.hint,
            blank.choices,
        )
        for blank in snippet.blanks
    ]
    asked = [*blanks, *_weights()]
    told: OfferedOp = {
        "name": snippet.name,
        "family": "snippet",
        "says": snippet.says,
        "fields": asked,
        "needs": [one["name"] for one in asked],
        "result": "",
    }
    return [Source(told, add, {}, snippet.example)]


def layer_source(offer: LayerOffer, given: Sequence[Value]) -> list[Source]:
    if len(given) != 1 or not isinstance(given[0], TensorValue):
        return []
    input = given[0].type
    asked = [
        field(
            blank.name,
            blank.kind,
            blank.text(input),
            blank.default is None,
            blank.hint.replace("``", ""),
            blank.choices,
        )
        for blank in offer.typed
    ]
    open = [one["name"] for one in asked if one["needed"] and not one["text"]]

    def add(editor: Editor, given: Sequence[Value], typed: Mapping[str, str]) -> Sequence[Value]:
        value: Any = given[0]
        with editor.step():
            layer = layers.made(offer, value.type, typed)
            scope = editor.free_scope("", offer.name.lower())
            weights = _started(editor, layer, scope, typed)
            with standing(layer, scope) as running, editor.graph.at(user_location(), running):
                made = _called(layer, value)
            give(editor, weights, _way(typed))
            return [made]

    trial = {name: "ReLU" if name == layers.LAYERS else "1" for name in open}
    has_weights = _has_weights(offer, input, trial)
    if has_weights:
        asked += _weights()
    told: OfferedOp = {
        "name": f"nn.{offer.name}",
        "family": "layer",
        "says": offer.says.replace("``", ""),
        "fields": asked,
        "needs": [*open, *(["weights"] if has_weights else [])],
        "result": "",
    }
    return [Source(told, add, trial, example_of_layer(offer.name))]


def _called(layer: Any, value: Value) -> Value:
    """The result of ``layer``.

    Raises:
        GraphError: ML300, it is no layer that is called, or adds nothing to a graph.
        MaxlabError: It does not take ``value``.
    """
    name = type(layer).__name__
    try:
        made: Value = layer(value)
    except NotImplementedError as error:
        raise GraphError("ML300", f"nn.{name} is not called", fix="use nn.Sequential") from error
    if made is value:
        raise GraphError(
            "ML300", f"nn.{name} gives what it gets: a graph has nothing of it", fix="leave it out"
        )
    return made


def _has_weights(offer: LayerOffer, type: TensorType, trial: Mapping[str, str]) -> bool:
    """Whether the layer has weights, or may be made of layers that have."""
    if any(blank.name == layers.LAYERS for blank in offer.blanks):
        return True
    try:
        layer: Any = layers.made(offer, type, trial)
    except MaxlabError:
        return True  # what is typed decides
    return bool(layer.raw_state_dict())


def _started(editor: Editor, layer: Any, scope: str, typed: Mapping[str, str]) -> dict[str, Weight]:
    """The weights of ``layer``, named after ``scope``, with the numbers that they begin with."""
    weights: dict[str, Weight] = layer.raw_state_dict()
    prefix = free_prefix(editor, scope)
    rng = np.random.default_rng(seed_of(typed.get("seed", "")))
    for name, weight in weights.items():
        weight.name = f"{prefix}.{name}"
        slot = slot_of(weight)
        slot.value, slot.final = start_of(weight, rng), True
    return weights


__all__ = ["layer_source", "snippet_source"]
