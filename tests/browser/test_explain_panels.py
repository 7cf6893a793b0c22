"""What the compiler did, in the panels below a live view: memory, compile, passes, code."""

from __future__ import annotations

import pytest

from tests.browser.page import GraphView, LabPage

pytestmark = pytest.mark.browser

BUILD = """
import numpy as np
from maxlab import engine
from maxlab.dtype import DType
from maxlab.graph import DeviceRef, Graph, TensorType, ops

x_type = TensorType(DType.float32, ["batch", 64], device=DeviceRef.CPU())
w = np.linspace(-1, 1, 64 * 64, dtype=np.float32).reshape(64, 64)
with Graph("explained", input_types=[x_type]) as graph:
    x = graph.inputs[0].tensor
    h = ops.tanh(x @ ops.constant(w, DType.float32, DeviceRef.CPU()) + 0.0)
    graph.output(ops.softmax(h * 1.0), ops.sum(h, axis=0))
model = engine.InferenceSession().load(graph)
profile = model.profile(np.ones((8, 64), dtype=np.float32))
profile
"""


def open_panel(view: GraphView, name: str) -> str:
    """Open a panel; a selector of the dock that it stands in."""
    view.execute(f"panel-{name}")
    return ".jp-MaxLab-view:visible .jp-MaxLab-dock"


def select(view: GraphView, label: str) -> None:
    """Select the operation that is called ``label``, wherever it is drawn."""
    view.read("view.select(view.nodes().filter(n => n.label === argument).map(n => n.id))", label)
    view.settle()


def test_memory_names_who_holds_the_peak(lab: LabPage, view: GraphView, theme: str) -> None:
    dock = lab.page.locator(open_panel(view, "memory"))
    dock.get_by_text("Held at the peak").wait_for()
    lab.shot(f"explain-memory-{theme}")
    dock.locator(".jp-MaxLab-sideColumn .jp-MaxLab-link").first.click()
    view.settle()
    chosen = view.read("view.selection")
    assert len(chosen) == 1
    dock.get_by_role("button", name="Table").click()
    assert dock.locator("tr.jp-mod-selected").count() >= 1
    assert lab.barriers(".jp-MaxLab-dock") == []
    assert lab.errors == []


def test_compile_says_where_each_unit_came_from(lab: LabPage, view: GraphView) -> None:
    dock = lab.page.locator(open_panel(view, "compile"))
    dock.get_by_text("from graph to model").wait_for()
    phases = dock.get_by_role("list", name="Phases of the compiler")
    # Which phases there are depends on whether the plan was known, and small ones are one row.
    assert "kernels" in phases.inner_text()
    row = dock.locator("tbody tr").first
    assert "compiled" in row.inner_text() or "found" in row.inner_text()
    row.locator("button").click()
    view.settle()
    assert view.read("view.selection.length") >= 1
    assert lab.barriers(".jp-MaxLab-dock") == []
    assert lab.errors == []


def test_slider_paints_what_each_pass_did(lab: LabPage, view: GraphView, theme: str) -> None:
    dock = lab.page.locator(open_panel(view, "passes"))
    slider = dock.get_by_role("slider", name="Stage of the compiler")
    slider.wait_for()
    stages = dock.get_by_role("list", name="Stages")
    stages.get_by_text("canonicalise").click()
    dock.get_by_text("x * 1 and x / 1 are x").first.wait_for()
    legend = lab.page.locator(".jp-MaxLab-view:visible .jp-MaxLab-legend")
    assert "after canonicalise" in legend.inner_text()
    slider.press("End")
    dock.get_by_text("fused").first.wait_for()
    view.settle()
    lab.shot(f"explain-passes-{theme}")
    assert lab.barriers(".jp-MaxLab-dock") == []
    assert lab.errors == []


def test_two_neighbours_say_why(lab: LabPage, view: GraphView, theme: str) -> None:
    dock = lab.page.locator(open_panel(view, "passes"))
    dock.get_by_text("Select an operation, or two").wait_for()
    select(view, "tanh")
    dock.get_by_role("button", name="Why tanh").first.click()
    verdict = dock.locator(".jp-MaxLab-verdict")
    verdict.wait_for()
    assert "one kernel" in verdict.inner_text()
    assert lab.barriers(".jp-MaxLab-dock") == []
    lab.shot(f"explain-why-{theme}")
    assert lab.errors == []


def test_kernel_is_edited_checked_and_kept(lab: LabPage, view: GraphView, theme: str) -> None:
    dock = lab.page.locator(open_panel(view, "source"))
    select(view, "tanh")
    dock.get_by_text("h = ops.tanh(x @ ops.constant").wait_for()
    edit = dock.get_by_role("button", name="Edit the generated C")
    edit.click()
    area = dock.get_by_role("textbox", name="Text of the kernel")
    text = area.input_value()
    assert "mx_tanh_f32" in text
    result = dock.get_by_role("region", name="Result of the edit")
    keep = dock.get_by_role("button", name="Run the edited text in this model")

    area.fill(text.replace("mx_tanh_f32", "no_such_function"))
    area.press("Control+Enter")
    result.get_by_text("does not compile").wait_for()
    result.get_by_role("button", name="Go to line").first.click()
    assert area.evaluate("area => area === document.activeElement")
    lab.shot(f"explain-edit-error-{theme}")
    assert lab.barriers(".jp-MaxLab-dock") == []

    area.fill(text.replace("mx_tanh_f32", "2.0f * mx_tanh_f32"))
    area.press("Control+Enter")
    result.get_by_text("something else than the reference").wait_for()
    assert keep.count() == 0

    area.fill(text.replace("mx_tanh_f32", "1.0f * mx_tanh_f32"))
    area.press("Control+Enter")
    result.get_by_text("It is right").wait_for()
    lab.shot(f"explain-edit-good-{theme}")
    keep.click()
    dock.get_by_text("edited by hand").wait_for()
    kept = lab.run_code("print(model.options.replaced != ())")
    assert "True" in str(kept)
    dock.get_by_role("button", name="Throw the edit away").click()
    dock.get_by_text("edited by hand").wait_for(state="hidden")
    assert lab.errors == []
