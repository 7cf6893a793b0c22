"""Graphs coloured by numbers of the user's own, in a notebook."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.browser.documents import write_notebook
from tests.browser.page import GraphView, LabPage
from tests.browser.server import LabServer

pytestmark = pytest.mark.browser

GRAPH = """
import numpy as np
from maxlab import engine, nn
from maxlab.dtype import DType
from maxlab.graph import DeviceRef, Graph, TensorType, ops

CPU = DeviceRef.CPU()

class Layer(nn.Module):
    def __call__(self, x):
        w = ops.constant(np.full((64, 64), 0.1, np.float32), DType.float32, CPU)
        return ops.softmax(ops.relu(x @ w) * 2 + 1)

class Both(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = Layer(), Layer()

    def __call__(self, x):
        return self.second(self.first(x)) - 1

with Graph("coloured", input_types=[TensorType(DType.float32, ["rows", 64], device=CPU)]) as graph:
    graph.output(Both()(graph.inputs[0].tensor))
graph
"""
TIMED = """
model = engine.InferenceSession().load(graph)
model.profile(np.ones((64, 64), np.float32))
"""
OVERLAY = """
graph.overlay({"first.matmul": -2.5, "first.softmax": 4, "second.relu": 1.5}, "drift",
              unit="ulp", colors="diverging")
"""

LEGEND = ".jp-MaxLab-legend:visible"


def heats(view: GraphView) -> dict[str, str]:
    return {n["scope"] + "." + n["label"]: n["heat"] for n in view.nodes() if n["heat"]}


def shows(view: GraphView, title: str) -> None:
    view.lab.page.wait_for_function(
        "([n, title]) => window.__maxlabTest.graphViews[n].colouring.title === title",
        arg=[view.index, title],
    )
    view.settle()


@pytest.fixture(scope="module")
def view(shared_page: LabPage, server: LabServer) -> GraphView:
    """The view of a graph, unfolded."""
    shared_page.open_notebook(write_notebook(server.root, "overlays.ipynb", []))
    shared_page.run_code(GRAPH)
    view = shared_page.view()
    view.execute("unfold-all")
    return view


def test_an_overlay_is_painted_with_its_legend(shared: LabPage, view: GraphView) -> None:
    page = shared.page
    assert heats(view) == {}
    assert page.locator(LEGEND).count() == 0
    shared.run_code(OVERLAY)
    shows(view, "drift")
    found = heats(view)
    assert found["first.matmul"] == "−2.5 ulp"
    assert found["second.relu"] == "1.5 ulp"
    legend = page.locator(LEGEND).inner_text()
    assert "drift · ulp" in legend
    assert page.locator(f"{LEGEND} b").all_inner_texts() == ["−4", "0", "4"]
    assert "the sum" in legend
    fills = page.evaluate(
        """() => { const view = window.__maxlabTest.graphViews[0];
            const canvas = view.element.querySelector('.jp-MaxLab-canvas');
            const { width, height } = canvas;
            const { data } = canvas.getContext('2d').getImageData(0, 0, width, height);
            const seen = new Set();
            for (let n = 0; n < data.length; n += 4) {
                seen.add(`rgb(${data[n]}, ${data[n + 1]}, ${data[n + 2]})`); }
            return view.theme.diverging.map(color => seen.has(color)); }"""
    )
    assert fills[-1], "the greatest number has the last colour"
    assert any(fills[:12]), "a number below zero has a colour of the other side"
    shared.shot("overlay-diverging")
    view.execute("fold-all")
    assert {"Σ 1.5 ulp"} <= set(heats(view).values())
    shared.shot("overlay-folded")
    view.execute("unfold-all")
    assert shared.barriers(".jp-MaxLab-view") == []


def test_one_is_chosen_beside_time_and_others(shared: LabPage, view: GraphView) -> None:
    page = shared.page
    shared.run_code('graph.overlay({"second": 7, "first.relu": 1}, "cost", combine="max")')
    shows(view, "cost")
    chooser = page.locator(f"{LEGEND} select").first
    assert chooser.locator("option").all_inner_texts() == ["drift", "cost"]
    chooser.select_option("drift")
    shows(view, "drift")
    view.read("view.execute('next-colouring')")
    shows(view, "cost")
    view.execute("fold-all")
    assert set(heats(view).values()) >= {"7", "max 1"}
    view.execute("unfold-all")


def test_it_stays_over_a_rerun_of_the_cell(shared: LabPage, view: GraphView) -> None:
    """The cell makes another graph, which takes over the overlays of the one it showed before."""
    page = shared.page
    before = page.evaluate("() => window.__maxlabTest.views.length")
    page.evaluate(
        """async () => {
            const { content } = window.jupyterapp.shell.currentWidget;
            content.activeCellIndex = content.widgets.findIndex(
                cell => cell.model.sharedModel.getSource().includes('class Both'));
            await window.jupyterapp.commands.execute('notebook:run-cell');
        }"""
    )
    page.wait_for_function("n => window.__maxlabTest.views.length === n", arg=before)
    again = shared.view(before - 1)
    shows(again, "cost")
    saved: Any = shared.outputs()
    assert any("application/vnd.maxlab.graph+json" in one.get("data", {}) for one in saved)


def test_it_is_in_a_saved_notebook_without_a_kernel(shared: LabPage, server: LabServer) -> None:
    shared.run_code(GRAPH.replace("\ngraph\n", OVERLAY + "graph\n") + "\n")
    page = shared.page
    shared.allowed.append("jupyterlab-manager")  # it asks for a kernel, and there is none
    page.evaluate("async () => { await window.jupyterapp.commands.execute('docmanager:save'); }")
    shared.close_all()
    server.shut_down_kernels()
    page.evaluate(
        """async () => {
            const panel = await window.jupyterapp.commands.execute('docmanager:open', {
                path: 'overlays.ipynb', factory: 'Notebook',
                kernel: { name: '' }, kernelPreference: { shouldStart: false } });
            await panel.context.ready;
        }"""
    )
    page.wait_for_function(
        "() => window.__maxlabTest.graphViews.some(v => v.colouring.title === 'drift')"
    )


def test_a_file_is_loaded_by_a_command(shared: LabPage, server: LabServer) -> None:
    page = shared.page
    shared.close_all()
    shared.open_notebook(write_notebook(server.root, "overlay-file.ipynb", []))
    before = page.evaluate("() => window.__maxlabTest.views.length")
    shared.run_code(GRAPH.replace("\ngraph\n", "\n") + TIMED)
    view = shared.view(before)
    fields = {"format": "maxlab.overlay", "version": 1, "title": "accuracy", "unit": "%"}
    good, wrong = server.root / "accuracy.json", server.root / "wrong.json"
    good.write_text(json.dumps({**fields, "values": {"first.relu": 98, "second.relu": 12}}))
    wrong.write_text(json.dumps({**fields, "values": {"third.relu": 98}}))

    def load(path: str) -> None:
        page.evaluate("() => void window.jupyterapp.commands.execute('maxlab:load-overlay')")
        dialog = page.locator(".jp-Dialog:visible")
        dialog.locator("input").fill(path)
        dialog.locator("button.jp-mod-accept").click()

    load("accuracy.json")
    shows(view, "accuracy")
    options = page.locator(f"{LEGEND} select option").all_inner_texts()
    assert options == ["kernel time", "accuracy"]
    shared.shot("overlay-file")
    load("wrong.json")
    card = page.locator(".jp-MaxLab-fault:visible")
    card.get_by_text("third.relu").wait_for()
    assert "first.relu" in card.inner_text()
    shared.shot("overlay-fault")
