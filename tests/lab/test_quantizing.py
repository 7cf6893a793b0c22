"""The view of a quantised model: what it shows, and layers that are kept by a click."""

from __future__ import annotations

import html
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

pytest.importorskip("ipywidgets", reason="ipywidgets not installed")

import maxlab
from maxlab.errors import ArgumentError
from maxlab.lab.quantizing import QuantizedView, mimebundle
from maxlab.lab.quantizing.drawn import Scale, bars

RNG = np.random.default_rng(3)


def forward(x: Any) -> Any:
    first = RNG.standard_normal((16, 32)).astype(np.float32)
    second = RNG.standard_normal((32, 8)).astype(np.float32)
    return maxlab.ops.relu(x @ first) @ second


@pytest.fixture
def view() -> Iterator[QuantizedView]:
    graph = maxlab.Graph("net", forward, [maxlab.TensorType(maxlab.float32, ["n", 16])])
    data = [RNG.standard_normal((4, 16)).astype(np.float32)]
    made = QuantizedView(maxlab.quantize(graph, data, runs=1))
    yield made
    made.close()


def test_a_layer_is_kept_by_its_box_and_quantised_again(view: QuantizedView) -> None:
    first, second = (layer.name for layer in view.quantized.layers)
    before = view.quantized
    view._boxes[second].value = True
    assert view.quantized.kept == [second]
    assert view.graph.shown is view.quantized.model
    assert f"keep=['{second}']" in html.unescape(view._summary.value)
    assert view._said.value == ""
    view._boxes[second].value = False
    assert view.quantized.kept == before.kept == []
    assert not view._boxes[first].value


def test_a_layer_is_kept_by_a_click_on_the_graph(view: QuantizedView) -> None:
    layer = view.quantized.layers[1]
    assert view._button.disabled
    view.graph.selection = [layer.node]
    assert not view._button.disabled
    assert view._button.description == f"Keep {layer.name} in float"
    view._button.click()
    assert view.quantized.kept == [layer.name]
    assert view._boxes[layer.name].value
    assert view._button.description == f"Quantise {layer.name}"
    view.graph.selection = []
    assert view._button.disabled


def test_the_graph_is_coloured_by_error_and_time(view: QuantizedView) -> None:
    titles = {"int8 error", "time in float", "time in int8"}
    assert {x["title"] for x in view.graph.document["overlays"]} == titles
    view.toggle(view.quantized.layers[0].name)
    assert {x["title"] for x in view.graph.document["overlays"]} == titles


def test_bars_say_their_numbers(view: QuantizedView) -> None:
    layers = view.quantized.layers
    drawn = bars(layers[0], Scale(layers))
    assert f"{100 * (layers[0].error or 0):.2g} %" in drawn
    assert drawn.count("<span style=") == 3
    worst = max(layers, key=lambda x: x.error or 0)
    assert "width:150px" in bars(worst, Scale(layers))


def test_names_of_no_layer_are_refused(view: QuantizedView) -> None:
    with pytest.raises(ArgumentError, match="ML242"):
        view.toggle("head")
    view._start("head")  # what a page asks for is answered on the page
    assert "ML242" in view._said.value


def test_pages_without_a_kernel_have_the_table(view: QuantizedView) -> None:
    data = mimebundle(view.quantized, None, None)
    assert set(data) == {"text/plain", "text/html"}
    assert set(mimebundle(view.quantized, ["text/plain"], None)) == {"text/plain"}
    assert view._repr_mimebundle_() == data
