"""Advice below a live view: where savings should lie, and a machine that is too busy to tell; and
errors of checked kernels beside their tolerance."""

from __future__ import annotations

import pytest

from tests.browser.documents import write_notebook
from tests.browser.page import LabPage
from tests.browser.server import LabServer

pytestmark = pytest.mark.browser

BUILD = """
import dataclasses
import numpy as np
from maxlab import engine
from maxlab.dtype import DType
from maxlab.graph import Graph, TensorType, ops

rng = np.random.default_rng(0)

def weight(*shape):
    return ops.constant(rng.normal(0, 0.1, shape).astype(np.float32), DType.float32)

def feed_forward(x, wide):
    return ops.matmul(ops.gelu(ops.matmul(x, weight(64, wide))), weight(wide, 64))

with Graph("layers", input_types=[TensorType(DType.float32, [128, 64])]) as graph:
    x = graph.inputs[0].tensor
    for wide in (256, 256, 1024, 256):
        x = x + feed_forward(x, wide)
    graph.output(x)
model = engine.InferenceSession().load(graph)
profile = model.profile(np.ones((128, 64), np.float32))
# As if a run took what its arithmetic does, each time, whatever else this machine does.
spent = [k.flops / 40 + k.nbytes / 10 for k in profile.kernels]
profile.kernels = [
    dataclasses.replace(k, ns=ns, ns_min=int(ns), ns_iqr=0.0, share=ns / sum(spent))
    for k, ns in zip(profile.kernels, spent)
]
profile.kernel_samples_ns = np.tile([k.ns for k in profile.kernels], (20, 1))
profile.wall_samples_ns = np.full(20, 1e6)
profile
"""
BUSY = """
profile = model.profile(np.ones((128, 64), np.float32))
profile.wall_samples_ns = np.array([1e6, *[2.5e6] * 19])
profile
"""


def test_a_saving_has_an_interval_and_a_busy_machine_has_none(
    shared: LabPage, server: LabServer
) -> None:
    shared.open_notebook(write_notebook(server.root, "advice.ipynb", []))
    shared.run_code(BUILD)
    view = shared.view(0)
    view.execute("panel-advice")
    dock = shared.page.locator(".jp-MaxLab-view").nth(0).locator(".jp-MaxLab-dock")
    first = dock.locator("ol .jp-MaxLab-adviceCard").filter(has_text="Look at").first
    first.wait_for()
    interval = first.locator(".jp-MaxLab-adviceInterval").inner_text()
    assert interval.count("−") == 2
    assert " to " in interval
    assert "[64, 1024], the others by [64, 256]" in first.inner_text()
    shared.shot("advice-interval")
    assert shared.barriers(".jp-MaxLab-dock") == []

    shared.run_code(BUSY)
    busy = shared.page.locator(".jp-MaxLab-view").nth(1)
    shared.view(1).execute("panel-advice")
    said = busy.locator(".jp-MaxLab-adviceWithheld")
    said.wait_for()
    assert "too busy to tell" in said.inner_text()
    card = busy.locator("ol .jp-MaxLab-adviceCard").first
    assert "no prediction" in card.inner_text()
    assert card.locator(".jp-MaxLab-adviceGauge").count() == 0
    shared.shot("advice-busy")

    shared.view(1).execute("panel-check")
    busy.get_by_role("button", name="Compare every kernel").click()
    rows = busy.locator(".jp-MaxLab-checkPanel tbody tr")
    rows.first.wait_for()
    heads = busy.locator(".jp-MaxLab-checkPanel thead th").all_inner_texts()
    assert "error" in [head.split("\n")[0].strip(" ▲▼") for head in heads]
    words = busy.locator(".jp-MaxLab-checkPanel").inner_text()
    assert "of tolerance" in words
    assert "ulp" not in words
    shared.shot("check-error")
    assert shared.barriers(".jp-MaxLab-dock") == []
