"""Runs that are compared in a notebook: the view is live, though no model stands behind it."""

from __future__ import annotations

import pytest

from tests.browser.documents import write_notebook
from tests.browser.page import LabPage
from tests.browser.server import LabServer

pytestmark = pytest.mark.browser

BUILD = """
import numpy as np
import maxlab
from maxlab import engine
from maxlab.dtype import DType
from maxlab.graph import Graph, TensorType, ops

with Graph("net", input_types=[TensorType(DType.float32, ["batch", 64])]) as graph:
    x = graph.inputs[0].tensor
    graph.output(ops.softmax(x @ ops.constant(np.eye(64, dtype=np.float32), DType.float32)))
model = engine.InferenceSession().load(graph)
x = np.ones((32, 64), np.float32)
first, second = model.profile(x), model.profile(x)
"""

SHOWS = {
    "a comparison": "maxlab.diff(first, second)",
    "a comparison of loaded runs": """
first.save("first.mlprof")
second.save("second.mlprof")
maxlab.diff("first.mlprof", "second.mlprof")
""",
    "a sweep": "maxlab.sweep(model, batch=[1, 8], runs=3)",
}


def test_a_live_view_of_runs_draws_their_graph(shared: LabPage, server: LabServer) -> None:
    shared.open_notebook(write_notebook(server.root, "live-runs.ipynb", []))
    shared.run_code(BUILD)
    for number, code in enumerate(SHOWS.values()):
        shared.run_code(code)
        view = shared.view(number)
        assert "matmul" in view.labels()
        root = shared.page.locator(".jp-MaxLab-view").nth(number)
        root.locator(".jp-MaxLab-runs").wait_for()
        profile = root.get_by_role("button", name="Profile (P): what was saved has no model")
        assert profile.get_attribute("aria-disabled") == "true"
        answers = root.locator(".jp-MaxLab-runs")
        assert answers.locator("tbody tr, canvas").count() > 0
    shared.shot("live-runs")
