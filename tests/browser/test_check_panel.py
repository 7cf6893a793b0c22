"""Is it right? The panel *Check* below a live view: a wrong kernel, and what flows on an edge."""

from __future__ import annotations

import pytest

from tests.browser.page import GraphView, LabPage

pytestmark = pytest.mark.browser

BUILD = """
from dataclasses import replace

import numpy as np
from maxlab import engine
from maxlab.dtype import DType
from maxlab.graph import Graph, TensorType, ops
from maxlab.toolchain import KernelSource, compile_units

with Graph("checked", input_types=[TensorType(DType.float32, ["batch", 64])]) as graph:
    x = graph.inputs[0].tensor
    graph.output(ops.tanh(ops.gelu(x * 2.0) - 0.5))
model = engine.InferenceSession().load(graph)
profile = model.profile(np.linspace(-2, 2, 512, dtype=np.float32).reshape(8, 64))
step = model.compiled.step("k0")
text = step.printed.text.replace("- 0.5f", "- 0.25f").replace(step.printed.symbol, "k_planted")
def plant():
    step.printed = replace(step.printed, symbol="k_planted", text=text)
    (model.compiled.kernels[0],) = compile_units([KernelSource("k_planted", text)])
    model.unbind()
profile
"""


def test_a_wrong_kernel_is_painted_and_its_values_are_shown(
    lab: LabPage, view: GraphView, theme: str
) -> None:
    view.execute("panel-check")
    dock = lab.page.locator(".jp-MaxLab-view:visible .jp-MaxLab-dock")
    dock.get_by_role("button", name="Compare every kernel").click()
    dock.get_by_text("1 kernel agrees with the references").wait_for()
    rows = dock.locator(".jp-MaxLab-checkPanel tbody tr")
    assert {row.split()[0] for row in rows.all_inner_texts()} >= {"mul", "gelu", "sub", "tanh"}

    lab.run_code("plant()")
    dock.get_by_role("button", name="Compare every kernel").press("Enter")
    dock.get_by_text("512 of 512 elements are wrong").first.wait_for()
    view.settle()
    assert "sub" in rows.first.inner_text()
    (chosen,) = view.read("view.nodes().filter(n => view.selection.includes(n.id))")
    assert chosen["label"] == "sub"
    legend = lab.page.locator(".jp-MaxLab-view:visible .jp-MaxLab-legend")
    assert "wrong" in legend.inner_text()

    dock.get_by_role("img", name="Histogram from").wait_for()
    dock.get_by_role("img", name="8 rows of 64 points").wait_for()
    assert dock.get_by_text("read out of its text").is_visible()
    lab.shot(f"check-wrong-{theme}")
    assert lab.barriers(".jp-MaxLab-dock") == []

    dock.get_by_role("button", name="Write a script").click()
    dock.get_by_text("Written:").wait_for()
    assert lab.errors == []
