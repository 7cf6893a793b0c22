"""A tab of a graph is as able as its cell: it profiles, its panels ask, a reload keeps it."""

from __future__ import annotations

import pytest

from tests.browser.conftest import OpenLab
from tests.browser.documents import write_notebook
from tests.browser.server import LabServer

pytestmark = pytest.mark.browser

BUILD = """
import numpy as np
from maxlab import engine
from maxlab.dtype import DType
from maxlab.graph import DeviceRef, Graph, TensorType, ops

x_type = TensorType(DType.float32, [4, 16], device=DeviceRef.CPU())
with Graph("steps", input_types=[x_type]) as graph:
    graph.output(ops.tanh(graph.inputs[0].tensor * 2))
model = engine.InferenceSession().load(graph)
"""


def test_tabs_profile_ask_and_come_back(open_lab: OpenLab, server: LabServer) -> None:
    lab = open_lab("light")
    lab.allowed.append("Could not restore the debugger state")  # JupyterLab's own, at a restart
    lab.page.set_viewport_size({"width": 1800, "height": 900})
    path = write_notebook(server.root, "tabs.ipynb", [])
    lab.open_notebook(path)
    lab.execute("maxlab:show-graphs")
    lab.run_code(BUILD)
    panel = lab.page.locator("#maxlab-graphs")
    panel.locator(".jp-MaxLab-graphs-name", has_text="model").click()
    tab = lab.page.locator(".jp-MaxLab-graphTab")
    tab.locator(".jp-MaxLab-canvas").first.wait_for()

    tab.locator("[data-command=profile]").click()
    tab.locator(".jp-MaxLab-legend").wait_for()
    # A panel asks the kernel, as it does in a cell.
    lab.view().execute("toggle-dock")
    tab.get_by_role("tab", name="Timeline").click()
    tab.locator(".jp-MaxLab-dockBody canvas").first.wait_for()
    lab.shot("tab-profiled")
    # One panel stands in a tab of its own, another is open below the graph.
    lab.execute("maxlab:move-panel")
    moved = lab.page.locator(".jp-MaxLab-panelTab")
    moved.locator(".jp-MaxLab-dockBody canvas").first.wait_for()
    view = lab.view()
    view.execute("panel-memory")
    view.execute("zoom-in")
    zoom = view.read("view.zoom")

    # A page that is loaded again has the tab, and the tab its graph, as it was looked at.
    lab.page.wait_for_timeout(1500)
    lab.page.reload()
    tab.locator(".jp-MaxLab-canvas").first.wait_for()
    tab.locator(".jp-MaxLab-legend").wait_for()
    tab.locator("[role=tabpanel][aria-label=Memory] > *").first.wait_for()
    moved.locator(".jp-MaxLab-dockBody canvas").first.wait_for()
    view.wait_for(f"Math.abs(view.zoom - {zoom}) < 0.001")
    lab.shot("tab-reloaded")

    # Where the kernel starts again, the tab says so, and shows the graph when its cell has run.
    lab.execute("docmanager:open", {"path": path})
    lab.wait_for_kernel()
    lab.page.evaluate(
        "async () => { await window.jupyterapp.shell.currentWidget"
        ".sessionContext.session.kernel.restart(); }"
    )
    lab.page.locator(".lm-TabBar-tabLabel", has_text="model (gone)").wait_for()
    moved.get_by_text("the kernel of this graph was restarted").wait_for()
    lab.shot("tab-gone")
    lab.run_code(BUILD)
    lab.page.locator(".lm-TabBar-tabLabel", has_text="model (gone)").wait_for(state="detached")
    # The graph is drawn anew, and looked at as before; its panel follows.
    tab.locator("[role=tabpanel][aria-label=Memory]").wait_for()
    moved.get_by_text("the kernel of this graph was restarted").wait_for(state="detached")
    lab.view().execute("profile")
    tab.locator(".jp-MaxLab-legend").wait_for()
