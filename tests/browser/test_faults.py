"""What a view says of an action that failed: a card that stays, with the fix."""

from __future__ import annotations

import pytest

from tests.browser.documents import write_notebook
from tests.browser.page import LabPage
from tests.browser.server import LabServer

pytestmark = pytest.mark.browser

BUILD = """
from maxlab.dtype import DType
from maxlab.graph import DeviceRef, Graph, TensorType, Weight

with Graph("net", input_types=[TensorType(DType.float32, ["batch", 64])]) as graph:
    x = graph.inputs[0].tensor
    w = Weight("layers.0.attention.query.weight", DType.float32, [64, 64], DeviceRef.CPU())
    graph.output(x @ w)
graph
"""


@pytest.mark.parametrize("width", [1440, 640])
def test_a_profile_without_weights(shared: LabPage, server: LabServer, width: int) -> None:
    shared.allowed.append("ML613")
    shared.page.set_viewport_size({"width": width, "height": 900})
    shared.open_notebook(write_notebook(server.root, f"faults-{width}.ipynb", []))
    before = shared.page.evaluate("() => window.__maxlabTest?.views.length ?? 0")
    shared.run_code(BUILD)
    view = shared.view(before)
    view.read("view.execute('profile')")
    root = shared.page.locator(".jp-MaxLab-view").last
    card = root.locator(".jp-MaxLab-fault")
    card.wait_for()
    shared.page.wait_for_timeout(2500)  # a hint would have gone
    words = card.inner_text()
    assert "Profile failed" in words
    assert "ML613" in words
    assert "the weight 'layers.0.attention.query.weight' is not in the weights registry" in words
    assert "Fix: pass it in weights_registry={name: array}" in words
    room = root.bounding_box()
    box = card.bounding_box()
    assert room is not None
    assert box is not None
    assert room["x"] <= box["x"]
    assert box["x"] + box["width"] <= room["x"] + room["width"]
    assert card.evaluate("e => e.scrollWidth <= e.clientWidth")
    shared.shot(f"fault-{width}")
    assert shared.barriers(".jp-MaxLab-fault") == []
    card.get_by_role("button", name="Dismiss").focus()
    shared.page.keyboard.press("Escape")
    card.wait_for(state="hidden")
    # the graph is as it was, and the view alive
    assert "matmul" in view.labels()
    view.click("matmul")
    assert view.read("view.selection")
    shared.page.set_viewport_size({"width": 1440, "height": 900})
