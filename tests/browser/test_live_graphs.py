"""Graphs that live in a kernel: under their cell, in the side panel, in a tab of their own."""

from __future__ import annotations

import pytest

from tests.browser.conftest import OpenLab
from tests.browser.documents import write_notebook
from tests.browser.page import LabPage
from tests.browser.server import LabServer

pytestmark = pytest.mark.browser

# WCAG AA for normal text.
LEGIBLE = 4.5

BUILD = """
from maxlab.dtype import DType
from maxlab.graph import DeviceRef, Graph, TensorType, ops

def build(steps, name="steps"):
    x_type = TensorType(DType.float32, ["batch", 16], device=DeviceRef.CPU())
    with Graph(name, input_types=[x_type]) as graph:
        x = graph.inputs[0].tensor
        for _ in range(steps):
            x = ops.tanh(x * 2)
        graph.output(x)
    return graph
"""


def test_new_notebook_shows_its_graph(lab: LabPage, theme: str) -> None:
    lab.execute("maxlab:new-notebook")
    lab.wait_for_kernel()
    lab.run_all()
    view = lab.view()
    assert {"mul", "add", "relu"} <= {node["label"] for node in view.nodes()}
    lab.shot(f"starter-{theme}")
    assert lab.errors == []


def test_panel_and_tab_follow_the_kernel(lab: LabPage, server: LabServer, theme: str) -> None:
    lab.open_notebook(write_notebook(server.root, f"panel-{theme}.ipynb", []))
    notebook = lab.current_id()
    lab.execute("maxlab:show-graphs")
    panel = lab.page.locator("#maxlab-graphs")
    panel.get_by_text("No graph yet").wait_for()

    lab.run_code(BUILD + "a = build(1)\nb = build(2, 'other')")
    items = panel.locator(".jp-MaxLab-graphs-item")
    items.nth(1).wait_for()
    assert panel.locator(".jp-MaxLab-graphs-name").all_inner_texts() == ["a", "b"]
    faint = [(text, ratio) for text, ratio in lab.contrast("#maxlab-graphs") if ratio < LEGIBLE]
    assert not faint, faint

    items.nth(0).click()
    tab = lab.page.locator(".jp-MaxLab-mainTab")
    tab.wait_for()
    view = lab.view()
    assert view.labels().count("tanh") == 1
    lab.shot(f"panel-{theme}")

    # The tab shows what the variable holds, whatever that is now.
    lab.activate(notebook)
    lab.run_code("a = build(3)")
    lab.page.wait_for_function(
        """() => window.__maxlabTest.views[0].nodes()
            .filter(node => node.label === 'tanh').length === 3"""
    )
    lab.run_code("del a, b")
    items.first.wait_for(state="hidden")
    lab.page.locator(".lm-TabBar-tabLabel", has_text="a (gone)").wait_for()
    assert lab.errors == []


def test_panel_says_what_the_kernel_does(open_lab: OpenLab, server: LabServer) -> None:
    lab = open_lab("light")
    lab.open_notebook(write_notebook(server.root, "busy.ipynb", []))
    lab.execute("maxlab:show-graphs")
    panel = lab.page.locator("#maxlab-graphs")
    lab.run_code(BUILD + "a = build(1)")
    panel.locator(".jp-MaxLab-graphs-item").wait_for()

    lab.run_code("import time\ntime.sleep(3)", wait=False)
    panel.get_by_text("A cell is running").wait_for()
    # What is known already can still be opened.
    assert panel.locator(".jp-MaxLab-graphs-item").count() == 1
    panel.get_by_text("A cell is running").wait_for(state="detached")

    lab.page.evaluate(
        "async () => { await window.jupyterapp.shell.currentWidget"
        ".sessionContext.session.kernel.restart(); }"
    )
    panel.get_by_text("No graph yet").wait_for()
    assert panel.locator(".jp-MaxLab-graphs-item").count() == 0
