"""When each kernel ran and how near it is to the ceilings: the panels of a live, profiled view."""

from __future__ import annotations

import csv
import io
import re

import pytest
from playwright.sync_api import Locator

from tests.browser.page import GraphView, LabPage

pytestmark = pytest.mark.browser

BUILD = """
import numpy as np
from maxlab import engine
from maxlab.dtype import DType
from maxlab.graph import DeviceRef, Graph, TensorType, ops

x_type = TensorType(DType.float32, ["batch", 256], device=DeviceRef.CPU())
w = np.linspace(-1, 1, 256 * 256, dtype=np.float32).reshape(256, 256)
with Graph("measured", input_types=[x_type]) as graph:
    x = graph.inputs[0].tensor
    slow = x @ ops.constant(w, DType.float32, DeviceRef.CPU())
    graph.output(ops.softmax(slow), ops.sum(x, axis=0))
model = engine.InferenceSession(num_threads=2).load(graph)
profile = model.profile(np.ones((512, 256), dtype=np.float32), runs=7)
profile
"""


def open_panel(lab: LabPage, view: GraphView, name: str) -> Locator:
    """Open a panel; the dock that it stands in, when the panel has its answer."""
    view.execute(f"panel-{name}")
    dock = lab.page.locator(".jp-MaxLab-view:visible .jp-MaxLab-dock")
    dock.locator(f".jp-MaxLab-{name}[aria-busy=false]").wait_for()
    return dock


def counts(stage: Locator) -> tuple[int, int]:
    """Slices and tracks of the timeline, as it says them to a screen reader."""
    label = stage.get_attribute("aria-label") or ""
    found = re.search(r"([\d,]+) slices on ([\d,]+) tracks", label)
    assert found is not None, label
    return int(found[1].replace(",", "")), int(found[2])


def test_timeline(lab: LabPage, view: GraphView, theme: str) -> None:
    dock = open_panel(lab, view, "timeline")
    stage = dock.get_by_role("application", name="Timeline")
    one_run, _ = counts(stage)

    # Any slice of a kernel leads to its operations, and to the line that they came from.
    stage.scroll_into_view_if_needed()
    box = stage.bounding_box()
    assert box is not None
    tooltip = stage.locator(".jp-MaxLab-tooltip")
    places = [(x, y) for x in (0.5, 0.35, 0.65) for y in range(50, int(box["height"]), 8)]
    words = ""
    for x, y in places:
        lab.page.mouse.move(box["x"] + box["width"] * x, box["y"] + y)
        words = tooltip.inner_text() if tooltip.is_visible() else ""
        if "kernel" in words:
            break
    assert "of the timeline" in words, words
    lab.page.mouse.down()
    lab.page.mouse.up()
    view.settle()
    selected = view.read("view.selection")
    assert selected
    assert "cell [" in view.inspector()
    lab.shot(f"timeline-{theme}")

    # The same by keys alone, from slice to slice.
    stage.focus()
    stage.press("Escape")
    stage.press("Escape")
    assert view.read("view.selection") == []
    stage.press("ArrowRight")
    stage.press("Enter")
    view.settle()
    assert view.read("view.selection")

    # All runs come as binary columns.
    dock.get_by_role("combobox", name="Runs").select_option("all")
    dock.locator(".jp-MaxLab-timeline[aria-busy=false]").wait_for()
    lab.page.wait_for_function(
        """(before) => {
            const stage = document.querySelector('.jp-MaxLab-timelineStage');
            const found = /([\\d,]+) slices on/.exec(stage.getAttribute('aria-label'));
            return Number(found[1].replaceAll(',', '')) > 3 * before;
        }""",
        arg=one_run,
    )

    dock.get_by_role("searchbox").fill("softmax")
    assert re.fullmatch(r"\d+ slices?", dock.locator(".jp-MaxLab-searchCount").inner_text())
    dock.get_by_role("button", name="Show as a table").click()
    assert dock.locator("tbody tr").count() >= 3
    assert lab.barriers(".jp-MaxLab-dock") == []
    lab.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    dock.get_by_role("button", name="Copy as CSV").click()
    dock.get_by_text("Copied").wait_for()
    lab.shot(f"timeline-table-{theme}")
    text: str = lab.page.evaluate("() => navigator.clipboard.readText()")
    first, *_ = csv.DictReader(io.StringIO(text, newline=""))
    assert float(first["total [ns]"]) >= float(first["longest [ns]"]) > 0
    dock.get_by_role("button", name="Show as a table").click()
    assert lab.barriers(".jp-MaxLab-dock") == []
    assert lab.errors == []


def test_roofline(lab: LabPage, view: GraphView, theme: str) -> None:
    dock = open_panel(lab, view, "roofline")
    stage = dock.get_by_role("application", name="Roofline")
    label = stage.get_attribute("aria-label") or ""
    assert "Measured ceilings: L1 " in label, label
    assert "GFLOP/s" in label
    stage.focus()
    stage.press("Home")
    stage.press("Enter")
    view.settle()
    slowest = view.read("view.selection")
    assert slowest
    lab.shot(f"roofline-{theme}")
    dock.get_by_role("button", name="Show as a table").click()
    row = dock.locator("tbody tr").first
    assert "jp-mod-selected" in (row.get_attribute("class") or "")
    assert lab.barriers(".jp-MaxLab-dock") == []
    lab.shot(f"roofline-table-{theme}")
    view.execute("clear")
    assert dock.locator("tr.jp-mod-selected").count() == 0
    row.locator("button").click()
    view.settle()
    assert view.read("view.selection") == slowest
    assert lab.errors == []
