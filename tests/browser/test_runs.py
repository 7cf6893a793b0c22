"""Reports of comparisons and sweeps, opened in a browser with no kernel and no network."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import Browser, Page

from maxlab.analysis.runs import diff, record, sweep
from maxlab.analysis.runs.shown import Recorded
from tests.analysis.runs.made import layered, loaded, profiled, with_times
from tests.analysis.runs.test_diff import BASE, times
from tests.browser.conftest import OpenLab
from tests.browser.documents import write_notebook
from tests.browser.page import AXE, SHOTS
from tests.browser.server import LabServer

pytestmark = pytest.mark.browser

SELECTION = "() => window.__maxlabTest.graphViews[0].selection"


class Report:
    """A page, and what went wrong in it."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.errors: list[str] = []
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("requestfailed", lambda request: self.errors.append(request.url))

    def open(self, shown: Recorded, path: Path) -> None:
        self.page.goto(shown.to_html(path).as_uri())
        self.page.wait_for_function("() => window.__maxlabTest?.graphViews?.length === 1")
        self.page.wait_for_function(
            "() => window.__maxlabTest.graphViews[0].dock.current === 'runs'"
        )

    @property
    def selection(self) -> list[str]:
        found: list[str] = self.page.evaluate(SELECTION)
        return found

    def barriers(self) -> list[str]:
        """What axe-core finds in the panel against WCAG 2.1 A and AA."""
        self.page.evaluate(AXE.read_text("utf-8"))
        found: list[str] = self.page.evaluate(
            """async () => (await window.axe.run('.jp-MaxLab-dock', {
                runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa'] })).violations.flatMap(
                ({ id, nodes }) => nodes.map(n => `${id}: ${n.target} ${n.failureSummary}`))"""
        )
        return found

    def shot(self, name: str) -> None:
        SHOTS.mkdir(exist_ok=True)
        self.page.screenshot(path=SHOTS / f"{name}.png")


@pytest.fixture
def report(browser: Browser, theme: str) -> Iterator[Report]:
    scheme: Literal["dark", "light"] = "dark" if theme == "dark" else "light"
    context = browser.new_context(viewport={"width": 1200, "height": 820}, color_scheme=scheme)
    found = Report(context.new_page())
    yield found
    assert found.errors == []
    context.close()


def test_a_comparison_is_read_by_keyboard_alone(report: Report, theme: str, tmp_path: Path) -> None:
    run = record(profiled(layered(3)))
    slower = [BASE[0], 1.5 * BASE[1], BASE[2]]
    found = diff(
        with_times(run, times(BASE, seed=1), label="old"),
        with_times(run, times(slower, seed=2), label="new"),
    )
    report.open(found, tmp_path / "diff.html")
    page = report.page
    rows = page.locator(".jp-MaxLab-runs tbody tr")
    rows.first.wait_for()
    assert rows.count() == 3
    assert "▲ slower" in rows.first.inner_text()
    assert "✗ slower" in page.locator(".jp-MaxLab-legend").inner_text()
    report.shot(f"runs-diff-{theme}")
    # From the tab of the panel, with Tab alone, to the rows.
    page.locator("[data-panel=runs]").focus()
    for _ in range(20):
        page.keyboard.press("Tab")
        if page.evaluate("() => document.activeElement.className") == "jp-MaxLab-rowName":
            break
    assert page.evaluate("() => document.activeElement.textContent") == "k1"
    page.keyboard.press("Enter")
    assert report.selection == list(found.changes[1].nodes_after)
    page.keyboard.press("End")
    page.keyboard.press("Enter")
    assert report.selection != list(found.changes[1].nodes_after)
    assert report.barriers() == []
    # Behind another panel it does not paint any more.
    page.locator("[data-panel=memory]").click()
    page.wait_for_function(
        "() => !document.querySelector('.jp-MaxLab-legend').textContent.includes('slower')"
    )


def test_a_sweep_is_read_by_keyboard_alone(report: Report, theme: str, tmp_path: Path) -> None:
    found = sweep(loaded(layered(2)), batch=[1, 8, 64, 512], runs=3)
    report.open(found, tmp_path / "sweep.html")
    page = report.page
    chart = page.locator(".jp-MaxLab-curves")
    chart.wait_for()
    chart.focus()
    page.keyboard.press("ArrowDown")  # the whole run, at the largest size
    tip = chart.locator(".jp-MaxLab-tooltip")
    assert "one run" in tip.inner_text()
    assert "batch = 512" in tip.inner_text()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowLeft")
    assert "batch = 64" in tip.inner_text()
    page.keyboard.press("Enter")
    assert report.selection in [list(kernel.nodes) for kernel in found.kernels]
    report.shot(f"runs-sweep-{theme}")
    assert report.barriers() == []
    page.get_by_role("button", name="Table", exact=True).last.click()
    heads = page.locator(".jp-MaxLab-runs thead th").all_inner_texts()
    assert [head for head in heads if head.startswith("batch ")] == [
        "batch 1",
        "batch 8",
        "batch 64",
        "batch 512",
    ]
    assert report.barriers() == []


BUILD = """
import numpy as np
from maxlab import engine
from maxlab.dtype import DType
from maxlab.graph import Graph, TensorType, ops

with Graph("layered", input_types=[TensorType(DType.float32, ["batch", 32])]) as graph:
    x = graph.inputs[0].tensor
    for _ in range(3):
        x = ops.softmax(ops.gelu(x))
    graph.output(x)
model = engine.InferenceSession(num_threads=1).load(graph)
_ = model.profile(np.ones((8, 32), np.float32))
model
"""


def test_a_live_view_compares_and_sweeps(open_lab: OpenLab, server: LabServer) -> None:
    lab = open_lab("light")
    lab.open_notebook(write_notebook(server.root, "runs.ipynb", []))
    lab.run_code(BUILD)
    view = lab.view()
    assert view.read("view.execute('panel-runs')")
    panel = lab.page.locator(".jp-MaxLab-runs")
    panel.get_by_text("One run is remembered").wait_for()

    lab.run_code("_ = model.profile(np.ones((8, 32), np.float32))")
    rows = panel.locator("tbody tr")
    rows.first.wait_for()
    assert panel.locator("select").first.input_value() == "0"
    rows.first.locator("button").click()
    view.wait_for("view.selection.length > 0")

    panel.get_by_role("button", name="Sizes", exact=True).click()
    sizes = panel.locator(".jp-MaxLab-sizesInput")
    sizes.fill("1 16 256")
    sizes.press("Enter")
    chart = panel.locator(".jp-MaxLab-curves")
    chart.wait_for()
    lab.shot("runs-live")
    panel.get_by_role("button", name="Table", exact=True).click()
    heads = panel.locator("thead th").all_inner_texts()
    assert "batch 256" in heads
    assert lab.barriers(".jp-MaxLab-dock") == []
    assert lab.errors == []
