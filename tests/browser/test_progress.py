"""How far a long action is, and its end, in a notebook: the button Profile, panels, cells."""

from __future__ import annotations

import re

import pytest

from tests.browser.documents import write_notebook
from tests.browser.page import GraphView, LabPage
from tests.browser.server import LabServer

pytestmark = pytest.mark.browser

BUILD = """
import numpy as np
from maxlab import engine
from maxlab.dtype import DType
from maxlab.graph import DeviceRef, Graph, TensorType, ops

# Forty kernels of about ten milliseconds, of one text.
with Graph("slow", input_types=[TensorType(DType.float32, ["n", 8])]) as graph:
    x = graph.inputs[0].tensor
    y = ops.broadcast_to(ops.constant(1.0, DType.float32, DeviceRef.CPU()), [512, 4096])
    for _ in range(40):
        y = ops.softmax(ops.tanh(y + x[0, 0]))
    graph.output(y)
model = engine.InferenceSession().load(graph)
model
"""
ROW = ".jp-MaxLab-workingRow"


@pytest.fixture(scope="module")
def slow(shared_page: LabPage, server: LabServer) -> GraphView:
    """A live view of a model that takes long."""
    shared_page.open_notebook(write_notebook(server.root, "progress.ipynb", []))
    shared_page.run_code(BUILD)
    return shared_page.view()


def test_profile_says_how_far_it_is_and_can_be_cancelled(shared: LabPage, slow: GraphView) -> None:
    page = shared.page
    page.locator('[data-command="profile"]').click()
    row = page.locator(ROW)
    row.get_by_text(re.compile(r"^(first run|warming up|running)")).wait_for()
    shared.shot("progress-profile")
    row.get_by_role("button", name="Cancel").click()
    row.wait_for(state="detached")
    page.locator(".jp-MaxLab-hint", has_text="Profile cancelled").wait_for()
    # The view is alive, and the kernel is free.
    slow.read("view.select(['n5'])")
    assert "n5" in slow.inspector()
    assert shared.run_code("model.last_profile is None")[0]["data"]["text/plain"] == "True"
    assert page.locator('[data-command="profile"]').get_attribute("aria-disabled") == "false"


def test_a_check_can_be_cancelled(shared: LabPage, slow: GraphView) -> None:
    page = shared.page
    slow.read("view.execute('panel-check')")
    page.get_by_role("button", name="Compare every kernel with the references").click()
    row = page.locator(ROW)
    row.get_by_text(re.compile(r"^checking \d+ of \d+")).wait_for()
    shared.shot("progress-check")
    row.get_by_role("button", name="Cancel").click()
    row.wait_for(state="detached")
    page.get_by_text(re.compile("compare slow was cancelled")).wait_for()
    assert page.get_by_role("button", name="Compare every kernel").is_enabled()


WORKING = """
def work():
    with progress.working("load deep"):
        for number in range(600):
            progress.step("compiling", number, 600, "softmax")
            time.sleep(0.1)
"""


def test_a_cell_says_how_far_it_is_and_can_be_cancelled(shared: LabPage, slow: GraphView) -> None:
    page = shared.page
    shared.run_code(
        "import time\nfrom maxlab import progress\nfrom maxlab.errors import CancelledError"
    )
    shared.run_code(WORKING)
    code = "try:\n    work()\nexcept CancelledError as error:\n    print(error.code)"
    shared.run_code(code, wait=False)
    row = page.locator(".jp-MaxLab-cellProgress")
    row.get_by_text(re.compile(r"^compiling \d+ of 600 · softmax")).wait_for()
    row.scroll_into_view_if_needed()
    shared.shot("progress-cell")
    row.get_by_role("button", name="Cancel: load deep").click()
    row.wait_for(state="detached")
    # It ends as an exception does, and leaves nothing in what is saved.
    page.get_by_text("ML897", exact=True).wait_for()
    printed = {"name": "stdout", "output_type": "stream", "text": "ML897\n"}
    assert printed in shared.outputs()
    assert "compiling" not in str(shared.outputs())
    # What is not cancelled goes away by itself, and what is short is not shown.
    shared.run_code("with progress.working('short'):\n    time.sleep(0.6)")
    assert row.count() == 0
    saved = shared.run_code("model.profile(np.ones((2, 8), np.float32), runs=1, warmup=0).runs")
    assert [output["output_type"] for output in saved] == ["execute_result"]
