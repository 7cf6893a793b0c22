"""``%%maxprof`` in JupyterLab: the runs of a cell on the graph and the timeline, with its spans."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Locator

from tests.browser.documents import write_notebook
from tests.browser.page import LabPage
from tests.browser.server import LabServer

pytestmark = pytest.mark.browser

SETUP = """\
%load_ext maxlab
import numpy as np
from maxlab import engine
from maxlab.dtype import DType
from maxlab.graph import Graph, TensorType, ops
from maxlab.profiler import Tracer

with Graph("head", input_types=[TensorType(DType.float32, ["n", 256])]) as graph:
    weight = ops.constant(np.ones((256, 512), np.float32))
    graph.output(ops.softmax(ops.gelu(graph.inputs[0].tensor @ weight)))
model = engine.InferenceSession(num_threads=2).load(graph)"""

CELL = """\
%%maxprof
for _ in range(4):
    with Tracer("request"):
        model(np.ones((64, 256), np.float32))"""


def test_a_profiled_cell(lab: LabPage, server: LabServer, theme: str) -> None:
    lab.open_notebook(write_notebook(server.root, f"maxprof-{theme}.ipynb", []))
    lab.run_code(SETUP)
    outputs = lab.run_code(CELL)
    printed = "".join(o.get("text", "") for o in outputs if o["output_type"] == "stream")
    assert "head (n = 64): 4 runs of" in printed
    view = lab.visible_view()
    assert any(node["heat"] for node in view.nodes())
    view.execute("toggle-dock")
    lab.page.get_by_role("tab", name="Timeline").click()
    panel = lab.page.locator(".jp-MaxLab-dock:visible")
    panel.get_by_text("slices").first.wait_for()
    assert slices(panel) >= 3  # the call, and two kernels on one or two threads
    panel.get_by_role("combobox").filter(has_text="one run").select_option(label="all runs")
    panel.get_by_label("compiler and Python").check()
    panel.get_by_text(re.compile(r"· \d{2,} slices")).wait_for()
    assert slices(panel) >= 4 * 4  # each call stands inside of a span of its own
    panel.get_by_role("button", name="Table").click()
    panel.get_by_role("row").filter(has_text="request").first.wait_for()
    lab.shot(f"maxprof-{theme}")
    assert lab.errors == []


def slices(panel: Locator) -> int:
    """How many slices the timeline says that it shows."""
    found = re.search(r"· (\d+) slices", panel.inner_text())
    assert found is not None
    return int(found[1])
