"""What the view is for, done as a user does it: with a few clicks, in a live notebook."""

from __future__ import annotations

import pytest
from playwright.sync_api import Locator

from tests.browser.conftest import OpenLab
from tests.browser.documents import write_notebook
from tests.browser.page import GraphView, LabPage
from tests.browser.server import LabServer

pytestmark = pytest.mark.browser

HEAD = """
import numpy as np
from maxlab import engine
from maxlab.dtype import DType
from maxlab.graph import Graph, TensorType, ops

F32 = DType.float32
rng = np.random.default_rng(0)


def weight(rows, columns):
    return ops.constant((rng.standard_normal((rows, columns)) / np.sqrt(rows)).astype(np.float32))
"""

WRONG = """
try:
    with Graph("wrong", input_types=[TensorType(F32, ["rows", 64])]) as graph:
        hidden = ops.gelu(graph.inputs[0].tensor)
        graph.output(hidden @ weight(32, 64))
except Exception as error:
    print(error)
graph
"""

BLOCK = """
def attention(x):
    q, k, v = (x @ weight(128, 128) for _ in range(3))
    return ops.softmax(q @ ops.transpose(k, 0, 1)) @ v


def forward(x):
    return ops.gelu(x @ weight(128, 2048)) @ weight(2048, 128)


with Graph("block", input_types=[TensorType(F32, ["rows", 128])]) as graph:
    x = graph.inputs[0].tensor
    x = x + attention(x)
    graph.output(x + forward(x))
model = engine.InferenceSession().load(graph)
profile = model.profile(rng.standard_normal((256, 128)).astype(np.float32))
profile
"""

MAKES_NAN = """
with Graph("energies", input_types=[TensorType(F32, ["rows", 16])]) as graph:
    x = graph.inputs[0].tensor
    distance = ops.sqrt(ops.sum(x, axis=-1))
    graph.output(ops.exp(-distance) * 2.0, ops.tanh(x))
model = engine.InferenceSession().load(graph)
data = np.ones((4, 16), np.float32)
data[2] = -1
profile = model.profile(data, runs=2)
profile
"""

CHAIN = """
from maxlab.compiler import Options
with Graph("chain", input_types=[TensorType(F32, ["rows", 1024])]) as graph:
    x = graph.inputs[0].tensor
    y = ops.relu(x * 0.5 + 1.0)
    graph.output(y * (x - 0.25))
model = engine.InferenceSession().load(graph).reload(options=Options(fuse=False))
profile = model.profile(rng.standard_normal((2048, 1024)).astype(np.float32), runs=5)
profile
"""


def notebook(lab: LabPage, server: LabServer, name: str, code: str) -> GraphView:
    """The view that the last line of ``code`` shows, in a new notebook."""
    lab.open_notebook(write_notebook(server.root, f"{name}.ipynb", []))
    lab.run_code(HEAD)
    lab.run_code(code)
    return lab.visible_view()


def dock_of(lab: LabPage) -> Locator:
    """The dock of the only view in sight."""
    return lab.page.locator(".jp-MaxLab-view:visible .jp-MaxLab-dock")


def test_a_wrong_shape_is_a_red_node_with_a_fix(
    lab: LabPage, server: LabServer, theme: str
) -> None:
    view = notebook(lab, server, f"wrong-{theme}", WRONG)
    nodes = {node["label"] for node in view.nodes()}
    assert "matmul" in nodes, nodes
    words = view.inspector()
    assert "64" in words, words
    assert "32" in words, words
    assert "weight(32, 64)" in words, words
    errors = view.read("window.__maxlabTest.graphViews[0].stage.picture.errors.size")
    assert errors == 1
    lab.shot(f"demo-wrong-shape-{theme}")
    assert lab.barriers(".jp-MaxLab-view") == []
    assert lab.errors == []


# The slice that the pointer is over belongs to this kernel; empty where it is over none.
HOVERED = """() => {
    const panel = window.__maxlabTest.graphViews[0].dock.panel('timeline');
    const { hover } = panel._navigator.over;
    const { timeline } = panel.data;
    return hover === null ? '' : (timeline.kernels[timeline.kernel[hover.slice]] ?? '');
}"""


def test_the_slowest_bar_is_one_click_from_its_line(
    lab: LabPage, server: LabServer, theme: str
) -> None:
    view = notebook(lab, server, f"block-{theme}", BLOCK)
    view.execute("panel-timeline")
    stage = dock_of(lab).locator(".jp-MaxLab-timelineStage")
    stage.wait_for()
    lab.page.wait_for_function(
        "() => window.__maxlabTest.graphViews[0].dock.panel('timeline').data !== null"
    )
    slowest = view.read("window.__maxlabTest.graphViews[0].timing.kernels.map(k => k.id)")[:2]
    box = stage.bounding_box()
    assert box is not None
    places = [
        (x, y)
        for y in range(int(box["y"]) + 40, int(box["y"] + box["height"]) - 6, 9)
        for x in range(int(box["x"]) + 160, int(box["x"] + box["width"]) - 4, 11)
    ]
    for x, y in places:
        lab.page.mouse.move(x, y)
        if lab.page.evaluate(HOVERED) in slowest:
            break
    else:
        raise AssertionError("no bar of the slowest kernels was found")
    lab.page.mouse.click(x, y)
    view.settle()
    assert view.read("view.selection.length") >= 1
    words = view.inspector()
    assert "ops.gelu(x @ weight(128, 2048)) @ weight(2048, 128)" in words, words
    lab.shot(f"demo-slowest-bar-{theme}")
    assert lab.errors == []


def test_nan_is_found_in_three_clicks(lab: LabPage, server: LabServer, theme: str) -> None:
    view = notebook(lab, server, f"nan-{theme}", MAKES_NAN)
    found = lab.page.locator(".jp-MaxLab-view:visible")
    found.get_by_role("button", name="Panels below").click()
    dock_of(lab).get_by_role("tab", name="Check").click()
    dock_of(lab).get_by_role("button", name="NaN").click()
    dock_of(lab).get_by_text("sqrt").first.wait_for()
    view.settle()
    words = dock_of(lab).inner_text()
    assert "NaN" in words, words
    assert "ops.sqrt(ops.sum(x, axis=-1))" in view.inspector() + words
    lab.shot(f"demo-nan-{theme}")
    assert lab.barriers(".jp-MaxLab-dock") == []
    assert lab.errors == []


def test_fusion_is_switched_on_and_its_bytes_are_shown(
    lab: LabPage, server: LabServer, theme: str
) -> None:
    view = notebook(lab, server, f"chain-{theme}", CHAIN)
    assert view.read("window.__maxlabTest.graphViews[0].model.kernels.size") == 5
    view.execute("panel-advice")
    first = dock_of(lab).get_by_role("button", name="Try it").first
    first.wait_for()
    assert "Let kernels compute several operations" in dock_of(lab).inner_text()
    first.click()
    dock_of(lab).get_by_text("measured").first.wait_for(timeout=120_000)
    words = dock_of(lab).inner_text()
    assert "MB" in words or "MiB" in words, words
    lab.shot(f"demo-fusion-{theme}")
    assert lab.barriers(".jp-MaxLab-dock") == []
    assert lab.errors == []


def test_a_saved_notebook_is_explored_without_a_kernel(
    open_lab: OpenLab, server: LabServer, theme: str
) -> None:
    first = open_lab(theme)
    name = f"saved-run-{theme}"
    notebook(first, server, name, BLOCK)
    first.execute("docmanager:save")
    first.close_all()
    server.shut_down_kernels()

    lab = open_lab(theme)
    # A notebook that is opened without a kernel has nobody to ask.
    lab.page.evaluate(
        """async (path) => {
            const panel = await window.jupyterapp.commands.execute('docmanager:open',
                { path, factory: 'Notebook', kernelPreference: { shouldStart: false } });
            await panel.context.ready;
        }""",
        f"{name}.ipynb",
    )
    lab.page.evaluate(
        """async () => {
            const notebook = window.jupyterapp.shell.currentWidget.content;
            await notebook.scrollToItem(notebook.widgets.length - 1, 'end');
        }"""
    )
    view = lab.visible_view()
    assert {"gelu", "softmax"} & set(view.labels()) or view.nodes()
    for panel, words in (("timeline", "slices"), ("memory", "peak"), ("compile", "kernel")):
        view.execute(f"panel-{panel}")
        dock_of(lab).get_by_text(words).first.wait_for()
        assert "needs a running kernel" not in dock_of(lab).inner_text(), panel
        lab.shot(f"demo-saved-{panel}-{theme}")
    view.execute("panel-check")
    assert lab.barriers(".jp-MaxLab-dock") == []
    # The widget manager of Jupyter itself trips over a notebook without a session.
    lab.allowed.append("@jupyter-widgets/jupyterlab-manager")
