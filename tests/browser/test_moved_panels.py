"""Panels as tabs of their own: several at once beside the graph, and back; a reload keeps them."""

from __future__ import annotations

import pytest
from playwright.sync_api import Locator

from tests.browser.documents import write_notebook
from tests.browser.page import LabPage
from tests.browser.server import LabServer

pytestmark = pytest.mark.browser

BUILD = """
import numpy as np
from maxlab import engine
from maxlab.dtype import DType
from maxlab.graph import DeviceRef, Graph, TensorType, ops

x_type = TensorType(DType.float32, [64, 256], device=DeviceRef.CPU())
with Graph("steps", input_types=[x_type]) as graph:
    x = graph.inputs[0].tensor
    weight = ops.constant(np.eye(256, dtype=np.float32))
    graph.output(ops.softmax(ops.tanh(x @ weight) * 2))
model = engine.InferenceSession().load(graph)
model.profile(np.ones((64, 256), np.float32))
"""


def tab_of(lab: LabPage, panel: str) -> Locator:
    """The tab in which the panel ``panel`` stands by itself."""
    return lab.page.locator(f".jp-MaxLab-panelTab:has([data-panel={panel}])")


def test_panels_of_a_cell_stand_in_tabs(shared: LabPage, server: LabServer) -> None:
    lab = shared
    lab.open_notebook(write_notebook(server.root, "moved.ipynb", []))
    lab.run_code(BUILD)
    view = lab.view()
    cell = lab.page.locator(".jp-Notebook .jp-MaxLab-view")
    view.execute("panel-timeline")
    cell.get_by_role("button", name="Move the panel into a tab of its own").click()
    timeline = tab_of(lab, "timeline")
    timeline.locator(".jp-MaxLab-dockBody canvas").first.wait_for()
    assert cell.locator(".jp-MaxLab-dock").is_hidden()

    # A second one, by the command: it stands below the first.
    lab.execute("maxlab:move-panel", {"panel": "memory"})
    memory = tab_of(lab, "memory")
    memory.locator(".jp-MaxLab-dockBody > *").first.wait_for()
    assert timeline.is_visible()
    view.settle()
    for theme in ("light", "dark"):
        lab.set_theme(theme)
        lab.shot(f"moved-panels-{theme}")
    lab.set_theme("light")

    # One selection everywhere.
    op = view.read("view.nodes().find(node => node.label === 'matmul').id")
    view.read("view.select([argument])", op)
    timeline.get_by_text("matmul selected").wait_for()
    memory.get_by_text("matmul selected").wait_for()
    lab.page.set_viewport_size({"width": 900, "height": 900})
    lab.shot("moved-panels-900")
    lab.page.set_viewport_size({"width": 1440, "height": 900})

    # Its tab in the dock leads to it; its button puts it back, and so does closing it.
    view.read("view.execute('toggle-dock')")
    cell.get_by_role("tab", name="Timeline").click()
    lab.page.locator(".lm-TabBar-tab.jp-mod-current", has_text="Timeline of").wait_for()
    timeline.get_by_role("button", name="Put the panel back below the graph").click()
    tab_of(lab, "timeline").wait_for(state="detached")
    cell.locator(".jp-MaxLab-dockBody canvas").first.wait_for()
    lab.page.locator(".lm-TabBar-tab", has_text="Memory of").locator(
        ".lm-TabBar-tabCloseIcon"
    ).click()
    memory.wait_for(state="detached")
    cell.get_by_role("tab", name="Memory").click()
    cell.locator("[role=tabpanel][aria-label=Memory] > *").first.wait_for()
    assert lab.page.locator(".jp-MaxLab-panelTab").count() == 0
