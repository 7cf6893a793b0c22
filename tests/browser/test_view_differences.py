"""A graph that changes while it is shown: little travels, little moves, a rerun marks changes."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from playwright.sync_api import WebSocket

from tests.browser.conftest import OpenLab
from tests.browser.documents import write_notebook
from tests.browser.page import LabPage
from tests.browser.server import LabServer

pytestmark = pytest.mark.browser

BUILD = """
import asyncio
from maxlab.dtype import DType
from maxlab.graph import Graph, TensorType, ops

def build(steps, factor=2.0, extra=False, name="long"):
    with Graph(name, input_types=[TensorType(DType.float32, ["n", 16])]) as graph:
        x = graph.inputs[0].tensor
        for step in range(steps):
            x = ops.tanh(x * (factor if step == 1 else 2.0))
            if extra and step == 2:
                x = ops.relu(x)
        graph.output(x)
    return graph

def middle():
    return next(op for op in graph.function.ops[500:] if op.name == "mo.tanh")

def attribute():
    middle().set_attr("axis", 3)

def added():
    with graph:
        ops.relu(graph.inputs[0].tensor)

def removed():
    op = middle()
    op.result.replace_with(op.operands[0])
    graph.function.block.remove(op)

def output():
    with graph:
        graph.output(graph.inputs[0].tensor)

def soon(change):
    # without a cell that runs meanwhile, so that nothing else is on its way
    def work():
        change()
        view.update()
    asyncio.get_event_loop().call_later(1.5, work)

import warnings
warnings.simplefilter("ignore")
graph = build(333)
from maxlab.lab import GraphView
view = GraphView(graph)
view
"""

# Notes how long each difference takes to be drawn.
WATCH = """() => {
  const [view] = window.__maxlabTest.graphViews;
  const revise = view.setDifference.bind(view);
  window.__maxlabTimes = [];
  view.setDifference = difference => {
    const started = performance.now();
    const isGood = revise(difference);
    const drawn = performance.now() - started;
    const frames = view.stage.frameTimes;
    requestAnimationFrame(() => requestAnimationFrame(() =>
      window.__maxlabTimes.push({ isGood, drawn, frame: frames[frames.length - 1] ?? 0 })));
    return isGood;
  };
}"""

PLACES = """() => Object.fromEntries(window.__maxlabTest.views[0].nodes()
  .map(({ id, rect }) => [id, [rect.x, rect.y]]))"""


class Wire:
    """Counts the bytes of all web sockets of a page, both ways."""

    def __init__(self, lab: LabPage) -> None:
        self.bytes = 0
        self.frames = 0
        lab.page.on("websocket", self._opened)

    def _opened(self, socket: WebSocket) -> None:
        socket.on("framesent", self._frame)
        socket.on("framereceived", self._frame)

    def _frame(self, payload: str | bytes) -> None:
        self.frames += 1
        self.bytes += len(payload)

    def quiet(self, lab: LabPage, seconds: float = 1.0) -> None:
        """Wait until nothing has been on the wire for so long."""
        seen, since = -1, time.monotonic()
        while time.monotonic() - since < seconds:
            lab.page.wait_for_timeout(50)
            if self.frames != seen:
                seen, since = self.frames, time.monotonic()


def test_one_node_of_a_thousand(open_lab: OpenLab, server: LabServer) -> None:
    lab = open_lab("light")
    wire = Wire(lab)
    lab.open_notebook(write_notebook(server.root, "differences.ipynb", []))
    lab.run_code(BUILD)
    view = lab.view()
    wire.quiet(lab)
    view.execute("actual-size")
    view.settle()
    lab.page.evaluate(WATCH)
    for n, change in enumerate(("attribute", "added", "removed", "output"), 1):
        lab.run_code(f"soon({change})")
        wire.quiet(lab, 0.7)
        before = lab.page.evaluate(PLACES)
        wire.bytes = 0
        lab.page.wait_for_function("n => window.__maxlabTimes.length === n", arg=n)
        wire.quiet(lab)
        times = lab.page.evaluate("() => window.__maxlabTimes")[-1]
        print(f"{change}: {wire.bytes} bytes, {times['drawn']:.1f} + {times['frame']:.1f} ms")
        assert times["isGood"]
        assert 0 < wire.bytes < 4_000
        view.settle()
        after = lab.page.evaluate(PLACES)
        kept = [id for id in before if id in after]
        assert len(kept) > 600
        aside = [id for id in kept if abs(after[id][0] - before[id][0]) > 1]
        # an op beside the others widens its column of the page: that one gives way, no other does
        assert len(aside) < (4 if change == "attribute" else 30), aside
        # nothing goes far: what is below an op that comes or goes moves by a layer at most
        assert all(abs(after[id][1] - before[id][1]) < 200 for id in kept)
    known = lab.run_code("import json; print(json.dumps(view.document, sort_keys=True))")
    held = lab.page.evaluate("() => window.__maxlabTest.graphViews[0].model.document")
    text = "".join(output["text"] for output in known)
    assert held["nodes"] == json.loads(text)["nodes"]
    assert held["outputs"] == json.loads(text)["outputs"]
    assert lab.errors == []


def test_a_shown_graph_follows_the_cells(open_lab: OpenLab, server: LabServer) -> None:
    lab = open_lab("light")
    lab.open_notebook(write_notebook(server.root, "follows.ipynb", []))
    lab.run_code(BUILD.replace("build(333)", "build(3)").replace("\nview\n", "\ngraph\n"))
    view = lab.view()
    assert "relu" not in view.labels()
    lab.run_code("added()")
    view.wait_for("view.nodes().some(node => node.label === 'relu')")
    assert lab.errors == []


def rerun(lab: LabPage, source: str) -> None:
    """Run the active cell again, with another text."""
    lab.page.evaluate(
        """async source => {
            const { shell, commands } = window.jupyterapp;
            shell.currentWidget.content.activeCell.model.sharedModel.setSource(source);
            await commands.execute('notebook:run-cell');
        }""",
        source,
    )


def test_a_rerun_marks_what_changed(lab: LabPage, server: LabServer, theme: str) -> None:
    lab.page.set_viewport_size({"width": 1000, "height": 900})
    lab.execute("application:toggle-left-area")
    lab.open_notebook(write_notebook(server.root, f"rerun-{theme}.ipynb", []))
    lab.run_code(BUILD.replace("view\n", ""))
    lab.run_code("build(4)")
    note = lab.page.locator(".jp-MaxLab-changes")
    view = lab.view()
    assert view.labels().count("tanh") == 4
    assert note.is_hidden()
    rerun(lab, "build(5, 3.0, extra=True)")
    note.wait_for()
    view = lab.view()
    view.settle()
    assert "since the last run" in note.inner_text()
    assert view.labels().count("tanh") == 5
    tree: list[str] = lab.page.locator(".jp-MaxLab-treeItem").all_inner_texts()
    marked = [text for text in tree if text.endswith("since the last run")]
    assert any(text.startswith("relu") and "new" in text for text in marked), tree
    assert any(text.startswith("mul") and "changed" in text for text in marked), tree
    lab.show_output_of("build(5, 3.0, extra=True)")
    lab.shot(f"rerun-{theme}")
    faint = [(text, ratio) for text, ratio in lab.contrast(".jp-MaxLab-changes") if ratio < 4.5]
    assert not faint, faint
    note.click()
    tree = lab.page.locator(".jp-MaxLab-treeItem").all_inner_texts()
    assert not [text for text in tree if "last run" in text]
    assert note.get_attribute("aria-pressed") == "false"
    saved: Any = lab.outputs()
    assert "last run" not in str(saved)
    rerun(lab, "build(5, 3.0, extra=True)")
    lab.page.wait_for_function("() => window.__maxlabTest.views.length === 1")
    lab.view().settle()
    assert note.is_hidden()
    assert lab.errors == []
